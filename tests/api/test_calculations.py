"""What the four calculations promise beyond the text's own numbers."""

import math
from typing import Any

import httpx
import pytest

H100 = {"gpu": "h100"}


async def ask(client: httpx.AsyncClient, calculation: str, **request: Any) -> dict[str, Any]:
    response = await client.post(f"/{calculation}", json=request)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def test_get_and_post_answer_alike(client: httpx.AsyncClient) -> None:
    request = {"model": "llama-3-8b", "gpu": "h100", "context": 8192, "explain": "true"}
    got = await client.get("/concurrency", params=request)
    posted = await client.post("/concurrency", json={**request, "explain": True})
    assert got.json() == posted.json()


async def test_kv_heads_are_split_and_beyond_that_replicated(client: httpx.AsyncClient) -> None:
    # 8 KV heads x 2 x 128 x 2 B x 32 layers = 131,072 B on one GPU.
    per_gpu = {}
    for size in (1, 2, 4, 8, 16, 32):
        answer = await ask(client, "kv", model="llama-3-8b", tensor_parallel_size=size)
        per_gpu[size] = answer["per_gpu"]["kv_bytes_per_token"]
        assert answer["kv_bytes_per_token"] == 131_072
    # From 8 ranks on each holds one head: 131,072 / 8.
    assert per_gpu == {1: 131072, 2: 65536, 4: 32768, 8: 16384, 16: 16384, 32: 16384}


async def test_a_latent_is_the_same_on_every_rank(client: httpx.AsyncClient) -> None:
    # 61 layers x (512 + 64) x 2 B
    for size in (1, 8):
        answer = await ask(client, "kv", model="deepseek-v3", tensor_parallel_size=size)
        assert answer["per_gpu"]["kv_bytes_per_token"] == 70_272


async def test_a_windowed_models_segments_give_every_context(client: httpx.AsyncClient) -> None:
    # Gemma-3-1B: 26 layers, every 6th full, 1 KV head of 256: 2 x 256 x 2 = 1,024 B a layer.
    # 22 layers keep 512 tokens, 4 keep all.
    answer = await ask(client, "kv", model="gemma-3-1b", contexts=[100, 512, 513, 32768])
    assert answer["segments"] == [
        {"from_context": 0, "fixed_bytes": 0, "bytes_per_token": 26 * 1024},
        {"from_context": 512, "fixed_bytes": 22 * 512 * 1024, "bytes_per_token": 4 * 1024},
    ]
    sizes = {row["context"]: row["kv_bytes_per_sequence"] for row in answer["by_context"]}
    assert sizes == {
        100: 26 * 100 * 1024,
        512: 26 * 512 * 1024,
        513: (22 * 512 + 4 * 513) * 1024,
        32768: (22 * 512 + 4 * 32768) * 1024,
    }
    assert answer["kv_bytes_per_token"] == 4096


async def test_memory_parts_add_up(client: httpx.AsyncClient) -> None:
    for engine in ("formula", "vllm"):
        for model in ("llama-3-8b", "llama-3-70b"):
            memory = (
                await ask(client, "concurrency", model=model, engine=engine, context=4096, **H100)
            )["memory"]
            total = memory.pop("gpu_memory_bytes")
            shortfall = memory.pop("shortfall_bytes")
            parts = sum(v for k, v in memory.items() if isinstance(v, int) and k.endswith("_bytes"))
            assert parts - shortfall == total


async def test_advice_is_what_the_changed_request_answers(client: httpx.AsyncClient) -> None:
    request = {"model": "llama-3-8b", "context": 65536, "batch": 10, **H100}
    answer = await ask(client, "concurrency", **request)
    # 59,939,477,504 / (65,536 x 131,072) = 6.98
    assert answer["fits"] is True
    assert answer["max_concurrency"] == 6
    advice = {row["action"]: row for row in answer["advice"]}
    assert {"shorter_context", "fewer_sequences", "quantise_kv", "more_gpus"} <= set(advice)
    for row in advice.values():
        changed = await ask(client, "concurrency", **{**request, **row["change"]})
        assert changed["max_concurrency"] == row["max_concurrency"], row
    # 59,939,477,504 / 10 / 131,072 = 45,730.1 tokens
    assert advice["shorter_context"]["change"] == {"context": 45730}
    # At one byte an element: 13.96
    assert advice["quantise_kv"]["max_concurrency"] == 13


async def test_weights_that_exceed_the_memory_are_an_answer(client: httpx.AsyncClient) -> None:
    answer = await ask(client, "concurrency", model="llama-3-70b", context=8192, **H100)
    assert answer["fits"] is False
    assert answer["max_concurrency"] == 0
    assert answer["limited_by"] == "weights"
    # 141,107,412,992 + 4e9 - 80e9
    assert answer["memory"]["shortfall_bytes"] == 65_107_412_992


async def test_a_limit_on_sequences_is_named(client: httpx.AsyncClient) -> None:
    answer = await ask(
        client, "concurrency", model="llama-3-8b", context=4096, max_num_seqs=64, **H100
    )
    assert (answer["max_concurrency"], answer["limited_by"]) == (64, "max_num_seqs")
    assert answer["max_concurrency_exact"] == pytest.approx(59_939_477_504 / 536_870_912)


async def test_a_plan_lowers_sequences_until_the_latency_is_met(client: httpx.AsyncClient) -> None:
    request = {
        "model": "llama-3-8b",
        "gpu": "h100",
        "gpus_per_node": 1,
        "concurrent_users": 1000,
        "context": 4096,
        "spare_nodes": 0,
        "spike_headroom": 0.0,
        "weight_bytes": 16_060_000_000,
    }
    plan = await ask(client, "plan", **request, itl_slo_ms=10)
    # 10 ms x 0.7 x 3.35e12 = 23,450,000,000 B; less the weights, / 536,870,912 B = 13.76
    assert plan["sequences_per_node"] == 13
    assert plan["limited_by"] == "latency"
    assert plan["meets_slo"] is True
    assert plan["itl_ms"] <= 10
    # 1000 / 13 = 76.9
    assert (plan["nodes_for_latency"], plan["nodes"]) == (77, 77)
    # Memory alone: 59,940,000,000 / 536,870,912 = 111.6; 536,870,912,000 / 59.94e9 = 8.96
    assert plan["nodes_for_kv"] == 9

    never = await ask(client, "plan", **request, itl_slo_ms=5)
    # The weights alone take 4.79 ms at the roofline, 6.85 ms in practice.
    assert never["meets_slo"] is False
    assert never["nodes"] is None
    assert never["limited_by"] == "latency"


async def test_several_replicas_share_a_node(client: httpx.AsyncClient) -> None:
    plan = await ask(
        client,
        "plan",
        model="llama-3-8b",
        gpu="h100",
        concurrent_users=2000,
        context=8192,
        weight_bytes=16_060_000_000,
    )
    # 55 a GPU, 8 GPUs; ceil(2000 / 440) = 5; ceil(5 x 1.3 + 1) = 8
    assert plan["sequences_per_node"] == 440
    assert plan["gpus_per_replica"] == 1
    assert (plan["nodes"], plan["replicas"], plan["gpus"]) == (8, 64, 64)


async def test_a_mixture_of_experts_reads_what_a_batch_touches(client: httpx.AsyncClient) -> None:
    answer = await ask(client, "crossover", model="qwen3-30b-a3b", batches=[1, 64], context=1024)
    # Routed: 48 layers x 128 experts x 3 x 768 x 2,048 x 2 B = 57,982,058,496; a token takes 8.
    routed, total = 57_982_058_496, 2 * 30_532_122_624
    points = {point["batch"]: point["weight_bytes"] for point in answer["points"]}
    assert points[1] == total - routed * 120 // 128
    # 128 x (1 - (120/128)^64) = 125.94 experts
    touched = routed * (1 - (120 / 128) ** 64)
    assert points[64] == pytest.approx(total - routed + touched, rel=1e-9)
    # The context at which the cache (98,304 B a token) equals what batch 1 reads.
    assert answer["by_batch"][0]["context"] == (total - routed * 120 // 128) // 98_304


async def test_a_recurrent_model_never_crosses_over(client: httpx.AsyncClient) -> None:
    config = {
        "model_type": "falcon_mamba",
        "num_hidden_layers": 64,
        "hidden_size": 4096,
        "intermediate_size": 8192,
        "state_size": 16,
        "conv_kernel": 4,
        "vocab_size": 65024,
    }
    answer = await ask(client, "crossover", config=config, batches=[1], contexts=[1000, 100000])
    assert answer["crossover_token_slots"] is None
    assert answer["by_batch"] == [{"batch": 1, "context": None}]
    kv = await ask(client, "kv", config=config, context=5)
    # 64 layers x (3 x 8,192 convolution + 8,192 x 16 state) x 2 B, at any length.
    assert kv["kv_bytes_per_sequence"] == kv["state_bytes_per_sequence"] == 64 * 155_648 * 2


async def test_vllm_reserves_whole_blocks(client: httpx.AsyncClient) -> None:
    answer = await ask(client, "kv", model="llama-3-8b", engine="vllm", context=100)
    # ceil(100 / 16) = 7 blocks of 16 x 131,072 B
    assert answer["per_gpu"]["kv_bytes_per_sequence"] == 7 * 16 * 131_072
    assert answer["segments"] == []
    fit = await ask(
        client,
        "concurrency",
        model="llama-3-8b",
        engine="vllm",
        context=8192,
        kv_budget_bytes=10 * 2**30,
    )
    # 10 GiB / 2 MiB = 5,120 blocks; 512 a request. The engine needs one block beside the request.
    assert fit["num_blocks"] == 5120
    assert fit["max_concurrency_exact"] == 10.0
    assert fit["kv_cache_tokens"] == 81_920


async def test_steps_are_written_with_their_numbers(client: httpx.AsyncClient) -> None:
    answer = await ask(client, "kv", model="llama-3-8b", context=8192, explain=True)
    first, second = answer["steps"][:2]
    assert first["substituted"] == "2 x 32 x 8 x 128 x 2"
    assert first["value"] == 131_072
    assert second["substituted"] == "131,072 x 8,192"
    assert second["value"] == 1_073_741_824
    assert (await ask(client, "kv", model="llama-3-8b"))["steps"] is None


async def test_pictures(client: httpx.AsyncClient) -> None:
    svg = await client.get("/crossover", params={"model": "llama-3-8b", "format": "svg"})
    assert svg.headers["content-type"] == "image/svg+xml"
    assert svg.content.lstrip().startswith(b"<?xml")
    again = await client.get(
        "/crossover", params={"model": "llama-3-8b"}, headers={"accept": "image/svg+xml"}
    )
    assert again.content == svg.content
    png = await client.get(
        "/crossover",
        params={"models": ["llama-3-8b", "llama-3-70b", "qwen3-30b-a3b"], "format": "png"},
    )
    assert png.headers["content-type"] == "image/png"
    assert png.content.startswith(b"\x89PNG")


async def test_the_examples_of_the_docs_answer(client: httpx.AsyncClient) -> None:
    document = (await client.get("/openapi.json")).json()
    tried = 0
    for path, operations in document["paths"].items():
        content = operations.get("post", {}).get("requestBody", {}).get("content", {})
        for example in content.get("application/json", {}).get("examples", {}).values():
            response = await client.post(path, json=example["value"])
            assert response.status_code == 200, (path, response.text)
            tried += 1
    assert tried >= 8


async def test_whole_experts_are_dealt_out(client: httpx.AsyncClient) -> None:
    request = {"model": "qwen3-30b-a3b", "context": 4096, "tensor_parallel_size": 4, **H100}
    split = (await ask(client, "concurrency", **request))["memory"]["weight_bytes"]
    # 8 ranks hold 16 of the 128 experts each, 4 ranks a quarter of each expert.
    # Routed: 57,982,058,496 B in all.
    request["data_parallel_size"] = 2
    dealt = await ask(client, "concurrency", **request, expert_parallel_size=8)
    assert split - dealt["memory"]["weight_bytes"] == 57_982_058_496 // 4 - 57_982_058_496 // 8
    alike = await ask(client, "concurrency", **request, enable_expert_parallel=True)
    assert alike["memory"] == dealt["memory"]
    # Two ranks deal them out, and four share each: an eighth on a GPU as well.
    shared = await ask(client, "concurrency", **request, expert_parallel_size=2)
    assert shared["memory"] == dealt["memory"]
    for ranks in (3, 16):
        body = {**request, "expert_parallel_size": ranks}
        assert (await client.post("/concurrency", json=body)).status_code == 422


async def test_a_body_is_a_picture_or_numbers_as_it_asks(client: httpx.AsyncClient) -> None:
    for order in (("image/svg+xml", "application/json"), ("application/json", "image/svg+xml")):
        body = {"model": "llama-3-8b", "context": 4096 + len(order[0])}
        for _ in range(2):
            for accept in order:
                answer = await client.post("/crossover", json=body, headers={"accept": accept})
                assert answer.headers["content-type"] == accept


async def test_what_another_engine_has_is_said_to_have_no_effect(
    client: httpx.AsyncClient,
) -> None:
    request = {"model": "llama-3-8b", "context": 4096, "gpu_memory_utilization": 0.5, **H100}
    answer = await ask(client, "concurrency", engine="sglang", **request)
    assert any("gpu_memory_utilization" in line for line in answer["assumptions"])
    heard = await ask(client, "concurrency", engine="vllm", **request)
    assert not any("takes no account" in line for line in heard["assumptions"])
    measured = {**request, "calibration": {"kv_budget_bytes": 5 * 10**9}}
    assert (await client.post("/concurrency", json=measured)).status_code == 422


async def test_ranks_that_share_experts_are_planned_together(client: httpx.AsyncClient) -> None:
    request = {
        "model": "deepseek-v3",
        "gpu": "h200",
        "concurrent_users": 10,
        "context": 6000,
        "spike_headroom": 0.0,
        "spare_nodes": 0,
        "data_parallel_size": 16,
        "enable_expert_parallel": True,
    }
    plan = await ask(client, "plan", **request)
    # Each of 16 GPUs holds 16 of 256 experts: none runs without the others.
    assert plan["gpus_per_replica"] == 16
    assert (plan["nodes"], plan["gpus"], plan["replicas"]) == (2, 16, 1)
    # Its own total given as `weight_bytes` changes nothing but the last byte of the rounding.
    given = await ask(client, "plan", **request, weight_bytes=plan["weight_bytes"])
    assert given["step_bytes_per_gpu"] == pytest.approx(plan["step_bytes_per_gpu"], abs=2)


async def test_prefill_and_decode_share_the_time(client: httpx.AsyncClient) -> None:
    request = {
        "model": "llama-3-70b",
        "gpu": "h100",
        "tensor_parallel_size": 8,
        "request_rate_per_s": 50,
        "input_tokens": 2000,
        "output_tokens": 300,
        "itl_slo_ms": 60,
        "ttft_slo_ms": 1000,
        "spike_headroom": 0.0,
        "spare_nodes": 0,
    }
    plan = await ask(client, "plan", **request)
    # 50/s x 300 x 0.06 s = 900 users.
    assert plan["concurrent_users"] == 900
    # 50 x 2,000 tokens/s x 2 x 70,553,706,496 FLOP / (989.5e12 x 8 x 0.45) = 3.961 nodes,
    prefill = 100_000 * 2 * 70_553_706_496 / (989.5e12 * 8 * 0.45)
    assert plan["prefill"]["nodes_for_prefill"] == pytest.approx(prefill, rel=1e-3)
    # and decode's share on top.
    decode = 900 / plan["sequences_per_node"]
    assert plan["nodes"] == math.ceil(prefill + decode)
    assert plan["limited_by"] == "prefill"
    for other in plan["alternatives"]:
        changed = {name: other[name] for name in ("gpu", "tensor_parallel_size", "kv_cache_dtype")}
        assert (await ask(client, "plan", **{**request, **changed}))["nodes"] == other["nodes"]


async def test_replicas_over_two_nodes_come_in_pairs(client: httpx.AsyncClient) -> None:
    plan = await ask(
        client,
        "plan",
        model="llama-3-70b",
        gpu="h100",
        tensor_parallel_size=16,
        concurrent_users=2000,
        context=6000,
        spike_headroom=0.25,
        spare_nodes=0,
    )
    assert plan["gpus_per_replica"] == 16
    assert plan["nodes"] % 2 == 0
    assert plan["replicas"] == plan["nodes"] // 2
    # Every line of the arithmetic is about the same nodes as the fields are.
    steps = {step["name"]: step["value"] for step in plan["steps"]}
    assert steps["5. tokens_per_s"] == plan["tokens_per_s"]
    assert steps["4. sequences per 2 nodes"] == 2 * plan["sequences_per_node"]


async def test_the_crossover_of_a_replica_counts_what_its_ranks_repeat(
    client: httpx.AsyncClient,
) -> None:
    request = {"model": "deepseek-v3", "gpu": "h200", "batch": 32, "context": 4096}
    one = await ask(client, "crossover", **request)
    eight = await ask(client, "crossover", **request, tensor_parallel_size=8)
    # The latent stands on every rank: 61 x 576 x 2 B, eight times.
    assert (one["kv_bytes_per_token"], eight["kv_bytes_per_token"]) == (70_272, 8 * 70_272)
    assert eight["crossover_token_slots"] == eight["weight_bytes"] // (8 * 70_272)
    point = eight["points"][0]
    # What all GPUs read is what one reads, eight times.
    assert point["step_ms"] / 1000 * 4.8e12 * 8 == pytest.approx(point["step_bytes"], rel=1e-6)


async def test_what_limits_is_what_binds(client: httpx.AsyncClient) -> None:
    cases = [
        ("llama-3-70b", 9000, "weights"),
        ("llama-3-8b", 1_000_000, "memory"),
        ("llama-3-8b", 9000, "max_position_embeddings"),
        ("llama-3-8b", 8000, "memory"),
    ]
    for model, context, limit in cases:
        answer = await ask(client, "concurrency", model=model, context=context, **H100)
        assert answer["limited_by"] == limit, (model, context)


async def test_what_has_no_effect_is_said(client: httpx.AsyncClient) -> None:
    answer = await ask(
        client, "concurrency", model="llama-3-8b", context=8, gpu_memory_utilization=0.5, **H100
    )
    assert any("gpu_memory_utilization" in line for line in answer["assumptions"])
    listed = await ask(client, "kv", model="llama-3-8b", contexts=[4096, 131072])
    assert any("131072" in line for line in listed["assumptions"])


async def test_the_models_precision_is_the_caches(client: httpx.AsyncClient) -> None:
    # 4 bytes an element in place of 2.
    answer = await ask(client, "kv", model="llama-3-8b", dtype="float32")
    assert answer["kv_bytes_per_token"] == 2 * 131_072


async def test_a_longrope_model_keeps_its_own_maximum(client: httpx.AsyncClient) -> None:
    # Its config states 131,072 positions; engines take 4,096 unless told otherwise.
    name = {"model": "microsoft/Phi-3-mini-128k-instruct"}
    answer = await ask(client, "concurrency", **name, context=131_072, **H100)
    assert not any("maximum" in line for line in answer["assumptions"])


async def test_slices_of_a_gpu_do_not_work_together(client: httpx.AsyncClient) -> None:
    request = {"model": "llama-3-70b", "gpu": "h100:1g.10gb", "context": 4096}
    answer = await ask(client, "concurrency", **request)
    assert {"more_gpus"} & {row["action"] for row in answer["advice"]} == set()
    refused = await client.post("/concurrency", json={**request, "tensor_parallel_size": 2})
    assert refused.status_code == 422


async def test_a_zero_is_explained(client: httpx.AsyncClient) -> None:
    config = {"model_type": "bert", "vocab_size": 30522}
    answer = await ask(client, "kv", config=config, context=128)
    assert answer["kv_bytes_per_sequence"] == 0
    assert any("keeps anything" in line for line in answer["assumptions"])


async def test_a_cache_that_an_engine_lacks_is_refused_everywhere(
    client: httpx.AsyncClient,
) -> None:
    body = {"model": "llama-3-8b", "context": 8, "engine": "llama.cpp", "kv_cache_dtype": "fp8"}
    for calculation in ("kv", "concurrency"):
        response = await client.post(f"/{calculation}", json={**body, "gpu": "h100"})
        assert response.status_code == 422, calculation
