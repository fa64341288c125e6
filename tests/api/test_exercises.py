"""Exercises A, C, D and E of the KV cache text as calls; expected numbers are derived by hand."""

import httpx
import pytest


async def test_exercise_a_one_call_sizes_a_model_on_a_gpu(client: httpx.AsyncClient) -> None:
    request = {"model": "llama-3-8b", "contexts": [4096, 32768], "gpu": "h100"}
    kv = (await client.get("/kv", params=request)).json()
    # The published element count of the checkpoint.
    assert kv["parameters"]["total"] == 8_030_261_248
    # x 2, x 1 and x 1/2 byte.
    assert kv["weight_bytes_by_dtype"]["bfloat16"] == 16_060_522_496
    assert kv["weight_bytes_by_dtype"]["fp8"] == 8_030_261_248
    assert kv["weight_bytes_by_dtype"]["int4"] == 4_015_130_624
    # 2 x 32 x 8 x 128 x 2 = 131,072; x 4,096 and x 32,768.
    sizes = {row["context"]: row["kv_bytes_per_sequence"] for row in kv["by_context"]}
    assert sizes == {4096: 536_870_912, 32768: 4_294_967_296}
    # (80e9 - 16,060,522,496 - 4e9) / 536,870,912 = 111.65; / 4,294,967,296 = 13.96.
    fit = (await client.get("/concurrency", params=request)).json()
    assert [row["max_concurrency"] for row in fit["by_context"]] == [111, 13]


@pytest.mark.parametrize(
    ("model", "weight_bytes", "per_token"),
    [
        # 8,030,261,248 x 2; 2 x 32 x 8 x 128 x 2
        ("llama-3-8b", 16_060_522_496, 131_072),
        # 70,553,706,496 x 2; 2 x 80 x 8 x 128 x 2
        ("llama-3-70b", 141_107_412_992, 327_680),
        # 32,763,876,352 x 2 (transformers' count); 2 x 64 x 8 x 128 x 2
        ("qwen2.5-32b", 65_527_752_704, 262_144),
    ],
)
async def test_exercise_c_curve_and_regimes(
    client: httpx.AsyncClient, model: str, weight_bytes: int, per_token: int
) -> None:
    request = {"model": model, "batches": [1, 16, 256], "batch": 64, "context": 2048}
    found = (await client.get("/crossover", params=request)).json()
    curve = {row["batch"]: row["context"] for row in found["by_batch"]}
    # context = weights / (KV per token x batch), fraction dropped
    assert curve == {batch: weight_bytes // (per_token * batch) for batch in (64, 1, 16, 256)}
    regimes = {regime["name"]: regime for regime in found["regimes"]}
    assert set(regimes) == {"short_chat", "long_documents", "yours"}
    yours = regimes["yours"]
    kv_bytes = per_token * 2048 * 64
    assert yours["dominated_by"] == ("kv" if kv_bytes > weight_bytes else "weights")
    # Halving one of the two: (W + K) / (W/2 + K) and (W + K) / (W + K/2).
    speedup = yours["speedup"]
    total = weight_bytes + kv_bytes
    assert speedup["weight_quantisation"] == pytest.approx(total / (weight_bytes / 2 + kv_bytes))
    assert speedup["kv_quantisation"] == pytest.approx(total / (weight_bytes + kv_bytes / 2))
    best = max(speedup, key=lambda name: speedup[name])
    assert yours["prioritise"] == best


async def test_exercise_d_plan_for_qwen(client: httpx.AsyncClient) -> None:
    request = {
        "model": "Qwen/Qwen2.5-32B",
        "gpu": "a100-80gb",
        "concurrent_users": 500,
        "context": 16384,
        "itl_slo_ms": 80,
        "tensor_parallel_size": 8,
    }
    plan = (await client.get("/plan", params=request)).json()
    # 1. 2 x 64 x 8 x 128 x 2 = 262,144 B a token; x 16,384 = 4,294,967,296 B.
    assert plan["kv_bytes_per_sequence"] == 4_294_967_296
    # 2. x 500
    assert plan["kv_bytes_total"] == 2_147_483_648_000
    # 3. 8 x 80e9 - weights - 8 x 4e9. Split over 8 ranks but norms, which every rank keeps:
    #    (64 x 2 + 1) norms x 5,120 x 2 B x 7 further copies = 9,246,720 B more than 65,527,752,704.
    assert plan["kv_bytes_per_node"] == 640 * 10**9 - 65_527_752_704 - 9_246_720 - 32 * 10**9
    #    2,147.48 / 542.46 = 3.96
    assert plan["nodes_for_kv"] == 4
    # 4. 542,463,000,576 / 4,294,967,296 = 126.3
    assert plan["sequences_per_node"] == 126
    #    Weights a GPU (65,527,752,704 + 9,246,720) / 8 + 126 x 536,870,912 B
    assert plan["step_bytes_per_gpu"] == 8_192_124_928 + 126 * 536_870_912
    #    75,837,859,840 / 2,039e9 = 37.194 ms; x 1.3 / 0.7 = 69.07 ms
    assert plan["step_ms"] == pytest.approx(37.1937, rel=1e-5)
    assert plan["itl_ms"] == pytest.approx(69.0739, rel=1e-5)
    assert plan["meets_slo"] is True
    # 5. 4 x 126 / 0.0690739
    assert plan["tokens_per_s"] == pytest.approx(7296.53, rel=1e-4)
    # 6. 4 x 1.3 + 1 = 6.2
    assert plan["nodes"] == 7
    names = [step["name"][:2] for step in plan["steps"]]
    assert [f"{number}." in names for number in range(1, 7)] == [True] * 6


@pytest.mark.parametrize(
    ("context", "before_ms", "after_ms"),
    [
        # (16.06e9 + 32 x 32,768 x 131,072) / 3.35e12 = 45.8206; with 65,536 B a token 25.3073
        (32768, 45.8206, 25.3073),
        # (16.06e9 + 32 x 1,024 x 131,072) / 3.35e12 = 6.07613; with 65,536 B a token 5.43508
        (1024, 6.07613, 5.43508),
    ],
)
async def test_exercise_e_kv_quantisation_pays_where_the_context_is_long(
    client: httpx.AsyncClient, context: int, before_ms: float, after_ms: float
) -> None:
    request = {
        "model": "llama-3-8b",
        "weight_bytes": 16_060_000_000,
        "gpu": "h100",
        "batch": 32,
        "context": context,
    }
    before = (await client.get("/crossover", params=request)).json()["points"][0]
    after = await client.get("/crossover", params={**request, "kv_cache_dtype": "fp8"})
    assert before["step_ms"] == pytest.approx(before_ms, rel=1e-5)
    assert after.json()["points"][0]["step_ms"] == pytest.approx(after_ms, rel=1e-5)
