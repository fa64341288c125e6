"""Engines' budgets over HTTP: bands, calibration, refusals, versions."""

import pytest
from httpx import AsyncClient

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
GIB = 2**30


async def ask(client: AsyncClient, **fields: object) -> dict:
    body = {"model": LLAMA, "gpu": "h100-sxm-80gb", "context": 8192, **fields}
    answer = await client.post("/concurrency", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm", "llama.cpp"])
async def test_every_engine_answers_with_a_band(client: AsyncClient, engine: str) -> None:
    found = await ask(client, engine=engine)
    band, memory = found["kv_budget_band_bytes"], found["memory"]
    assert band["low"] <= found["kv_budget_bytes"] <= band["high"]
    assert band["low"] < band["high"]
    taken = sum(
        memory[part]
        for part in (
            "weight_bytes",
            "activation_bytes",
            "overhead_bytes",
            "cuda_graph_bytes",
            "unrequested_bytes",
            "kv_budget_bytes",
        )
    )
    assert taken == memory["gpu_memory_bytes"]
    assert found["fits"]
    assert found["max_concurrency"] >= 1


async def test_the_formula_has_no_band(client: AsyncClient) -> None:
    assert (await ask(client))["kv_budget_band_bytes"] is None


async def test_a_calibration_stands_in_place_of_predictions(client: AsyncClient) -> None:
    parts = {
        "gpu_memory_bytes": 80 * GIB,
        "weight_bytes": 15 * GIB,
        "activation_bytes": 2 * GIB,
        "non_torch_bytes": GIB,
        "cuda_graph_bytes": GIB,
    }
    found = await ask(client, engine="vllm", gpu_memory_utilization=0.9, calibration=parts)
    # 72 - 15 - 2 - 1 - 1 GiB.
    assert found["kv_budget_bytes"] == 53 * GIB
    assert found["kv_budget_band_bytes"] == {"low": 53 * GIB, "high": 53 * GIB}


async def test_a_calibration_is_for_bodies_only(client: AsyncClient) -> None:
    query = {"model": LLAMA, "gpu": "h100-sxm-80gb", "calibration": "{}"}
    assert (await client.get("/concurrency", params=query)).status_code == 422


@pytest.mark.parametrize(
    ("engine", "version"), [("vllm", "0.5.4"), ("vllm", "0.34.0"), ("sglang", "0.4.1")]
)
async def test_unread_versions_are_refused(client: AsyncClient, engine: str, version: str) -> None:
    body = {"model": LLAMA, "gpu": "h100-sxm-80gb", "engine": engine, "engine_version": version}
    answer = await client.post("/concurrency", json={**body, "context": 8192})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["loc"][-1] == "engine_version"


async def refused(client: AsyncClient, **fields: object) -> tuple[str, str]:
    body = {"model": LLAMA, "gpu": "h100-sxm-80gb", "context": 8192, **fields}
    answer = await client.post("/concurrency", json=body)
    assert answer.status_code == 422, answer.text
    error = answer.json()["errors"][0]
    return error["loc"][-1], error["msg"]


@pytest.mark.parametrize(
    ("engine", "cache"),
    [
        ("llama.cpp", "fp8"),
        ("llama.cpp", "nvfp4"),
        ("sglang", "q8_0"),
        ("sglang", "float32"),
        ("sglang", "fp8_ds_mla"),
        ("tensorrt-llm", "q4_0"),
        ("tensorrt-llm", "fp8_inc"),
    ],
)
async def test_caches_that_an_engine_has_not_are_refused(
    client: AsyncClient, engine: str, cache: str
) -> None:
    field, words = await refused(client, engine=engine, kv_cache_dtype=cache)
    assert field == "kv_cache_dtype"
    assert words.startswith(f"{engine} has no cache of type '{cache}'")


@pytest.mark.parametrize(
    ("engine", "cache"),
    [("llama.cpp", "q8_0"), ("sglang", "fp8_e5m2"), ("tensorrt-llm", "torch.bfloat16")],
)
async def test_caches_that_an_engine_has_are_answered(
    client: AsyncClient, engine: str, cache: str
) -> None:
    assert (await ask(client, engine=engine, kv_cache_dtype=cache))["fits"]


@pytest.mark.parametrize("engine", ["sglang", "tensorrt-llm", "llama.cpp"])
async def test_only_vllm_shares_a_gpu(client: AsyncClient, engine: str) -> None:
    field, words = await refused(client, engine=engine, instances_per_gpu=2)
    assert field == "instances_per_gpu"
    assert words.startswith("goes with engine=vllm")


async def test_slots_that_do_not_fit_keep_llama_cpp_from_starting(client: AsyncClient) -> None:
    # A slot of 8,192 tokens takes 8,192 x 2 x 32 layers x 8 heads x 128 x 2 bytes = 1 GiB.
    found = await ask(client, engine="llama.cpp", gpu="4090", max_num_seqs=16)
    assert found["kv_bytes_per_sequence"] == GIB
    assert (found["fits"], found["max_concurrency"]) == (False, 0)
    words = f"llama.cpp does not start: 16 slots of 8192 tokens take {16 * GIB} bytes"
    assert any(line.startswith(words) for line in found["assumptions"])
    assert (await ask(client, engine="llama.cpp", gpu="4090", max_num_seqs=4))["fits"]


async def test_a_draft_takes_weights_and_its_share_of_the_cache(client: AsyncClient) -> None:
    # Llama-3.2-1B beside 8B: 16 layers of 8 heads of 64 are a quarter of 32 layers of 8 of 128.
    alone = await ask(client, engine="vllm")
    both = await ask(client, engine="vllm", draft_model="meta-llama/Llama-3.2-1B-Instruct")
    weights = both["memory"]["weight_bytes"] - alone["memory"]["weight_bytes"]
    assert weights == pytest.approx(2 * 1_235_814_400, rel=0.001)
    cache = alone["kv_budget_bytes"] - weights
    assert both["kv_budget_bytes"] == pytest.approx(cache * 4 / 5, rel=0.001)
    answer = await client.post(
        "/concurrency",
        json={
            "model": LLAMA,
            "gpu": "h100-sxm-80gb",
            "engine": "vllm",
            "context": 8192,
            "draft_model": "nobody/knows",
        },
    )
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["loc"][-1] == "draft_model"


MEMORY = (
    "weight_bytes",
    "activation_bytes",
    "overhead_bytes",
    "cuda_graph_bytes",
    "unrequested_bytes",
    "unexplained_bytes",
    "kv_budget_bytes",
)


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm", "llama.cpp"])
async def test_parts_of_a_measured_cache_add_up(client: AsyncClient, engine: str) -> None:
    found = await ask(client, engine=engine, calibration={"kv_budget_bytes": 5 * GIB})
    memory = found["memory"]
    assert found["kv_budget_bytes"] == memory["kv_budget_bytes"] == 5 * GIB
    assert sum(memory[part] for part in MEMORY) == memory["gpu_memory_bytes"]
    assert "calibration: measured kv_budget_bytes" in " ".join(found["assumptions"])


DRAFT = {"engine": "vllm", "draft_model": "meta-llama/Llama-3.2-1B-Instruct"}


async def test_of_a_given_pool_a_draft_takes_only_its_share(client: AsyncClient) -> None:
    # A fifth of a token's bytes are the draft's (see above): 30 GiB leave 24.
    pooled = await ask(client, **DRAFT, kv_cache_memory_bytes=30 * GIB)
    assert pooled["kv_budget_bytes"] == 24 * GIB
    parts = {"kv_budget_bytes": 30 * GIB, "weight_bytes": 18 * GIB}
    measured = await ask(client, **DRAFT, calibration=parts)
    memory = measured["memory"]
    assert (memory["kv_budget_bytes"], memory["weight_bytes"]) == (24 * GIB, 18 * GIB)
    assert sum(memory[part] for part in MEMORY) == memory["gpu_memory_bytes"]
    cache_only = await ask(client, **DRAFT, calibration={"kv_budget_bytes": 30 * GIB})
    memory = cache_only["memory"]
    assert memory["kv_budget_bytes"] == 24 * GIB
    assert sum(memory[part] for part in MEMORY) == memory["gpu_memory_bytes"]


async def test_a_given_budget_stands_and_says_that_no_draft_is_in_it(client: AsyncClient) -> None:
    found = await ask(client, **DRAFT, kv_budget_bytes=30 * GIB)
    assert found["kv_budget_bytes"] == 30 * GIB
    assert any("nothing of it is counted for" in line for line in found["assumptions"])


@pytest.mark.parametrize("draft", [None, "meta-llama/Llama-3.2-1B-Instruct"])
async def test_unknown_ways_to_speculate_are_refused_by_name(
    client: AsyncClient, draft: str | None
) -> None:
    given = {"speculative_method": "foo", "num_speculative_tokens": 3, "draft_model": draft}
    field, words = await refused(client, engine="vllm", **given)
    assert field == "speculative_method"
    assert words.startswith("unknown method 'foo'")


async def test_adapters_come_on_top_of_given_weights(client: AsyncClient) -> None:
    given = {"engine": "vllm", "weight_bytes": 16_060_522_496}
    alone = await ask(client, **given)
    both = await ask(client, **given, lora_rank=64, max_loras=8)
    # A layer: 4096 to q 4096, k and v 1024 each, o 4096 to 4096, gate and up 4096 to 14336, down
    # back: sides of 8192 + 2 x 5120 + 8192 + 3 x 18432 = 81,920; x 64 x 32 layers x 8 x 2 bytes.
    more = both["memory"]["weight_bytes"] - alone["memory"]["weight_bytes"]
    assert alone["memory"]["weight_bytes"] == 16_060_522_496
    # The head, 128,256 from 4,096, has slots as well.
    assert more == (81_920 * 32 + 128_256 + 4_096) * 64 * 8 * 2


async def test_measured_weights_have_adapters_in_them(client: AsyncClient) -> None:
    measured = {"engine": "vllm", "calibration": {"weight_bytes": 18 * GIB}}
    found = await ask(client, **measured, lora_rank=64, max_loras=8)
    assert found["memory"]["weight_bytes"] == 18 * GIB
    assert any("adapters" in line and "are in them" in line for line in found["assumptions"])


async def test_tight_fits_are_said(client: AsyncClient) -> None:
    # Weights of 15 GiB beside a cache of about one sequence: the low end holds none.
    found = await ask(client, engine="vllm", engine_version="0.19.0", gpu_memory_utilization=0.2301)
    band = found["kv_budget_band_bytes"]
    assert band["low"] < found["kv_bytes_per_sequence"] <= band["high"]
    assert any(line.startswith(("tight", "close")) for line in found["assumptions"])


async def test_a_plan_counts_machines_by_the_engines_budget(client: AsyncClient) -> None:
    body = {
        "model": LLAMA,
        "gpu": "h100-sxm-80gb",
        "engine": "sglang",
        "context": 8192,
        "concurrent_users": 2000,
    }
    answer = await client.post("/plan", json=body)
    assert answer.status_code == 200
    found = answer.json()
    assert found["nodes"] >= 1
    assert found["kv_budget_band_bytes"]["low"] > 0


async def test_a_plan_counts_every_instance_of_a_gpu(client: AsyncClient) -> None:
    body = {
        "model": LLAMA,
        "gpu": "h100-sxm-80gb",
        "engine": "vllm",
        "context": 8192,
        "concurrent_users": 1000,
        "gpus_per_node": 1,
    }
    shared = await ask(client, engine="vllm", instances_per_gpu=2)
    one = (await client.post("/plan", json=body)).json()
    two = (await client.post("/plan", json={**body, "instances_per_gpu": 2})).json()
    assert two["sequences_per_replica"] == shared["max_concurrency"]
    assert two["sequences_per_node"] == 2 * shared["max_concurrency"]
    # Nodes for the cache, 1.3 of them, and one spare.
    needed = -(-1000 // two["sequences_per_node"])
    assert two["nodes"] == -(-needed * 13 // 10) + 1
    assert two["replicas"] == 2 * two["nodes"]
    assert not any("stay idle" in line for line in two["assumptions"])
    # Half the bandwidth each: a step takes twice as long for each byte that it reads.
    pace = [found["step_ms"] / found["step_bytes_per_gpu"] for found in (one, two)]
    assert pace[1] == pytest.approx(2 * pace[0], rel=1e-6)
