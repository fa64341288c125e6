"""Every number of the KV cache text as one call, against exact arithmetic on the text's inputs.

The ids, inputs and exact values are those of the text's worked examples; where a shared copy of
that list lies beside the checkout, this table is held against it.
"""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

SHARED = Path(__file__).parents[3] / "shared" / "mission" / "worked-examples.json"

H100 = {"gpu_memory_bytes": 80_000_000_000}
TEXT_8B = {"model": "llama-3-8b", "weight_bytes": 16_060_000_000}
TEXT_70B = {"model": "llama-3-70b", "weight_bytes": 141_200_000_000}
BUDGET_8B = {**TEXT_8B, **H100, "activation_bytes": 2 * 10**9, "overhead_bytes": 2 * 10**9}
BUDGET_70B = {
    **TEXT_70B,
    **H100,
    "tensor_parallel_size": 8,
    "activation_bytes": 3 * 10**9,
    "overhead_bytes": 2 * 10**9,
}
STEP = {**TEXT_8B, "batch": 32, "memory_bandwidth_bytes_per_s": 3_350_000_000_000}
CONTEXTS = [4096, 8192, 32768, 131072]
PLAN = {
    **TEXT_70B,
    "gpu": "h100",
    "gpus_per_node": 8,
    "tensor_parallel_size": 8,
    "concurrent_users": 2000,
    "context": 6000,
    "itl_slo_ms": 60,
    "node_overhead_bytes": 24_000_000_000,
    "efficiency": 0.70,
    "tp_overhead": 0.30,
    "spike_headroom": 0.30,
    "spare_nodes": 1,
}


def at(path: str, answer: Any) -> Any:
    """The value at a dotted path; `*` maps over a list."""
    for position, name in enumerate(path.split(".")):
        if name == "*":
            rest = ".".join(path.split(".")[position + 1 :])
            return [at(rest, item) for item in answer]
        answer = answer[int(name)] if name.isdigit() else answer[name]
    return answer


# id, calculation, request, path in the answer -> exact value
EXAMPLES: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    ("1.kv_per_token", "kv", {"model": "llama-3-8b"}, {"kv_bytes_per_token": 131072}),
    (
        "1.kv_per_sequence_8k",
        "kv",
        {"model": "llama-3-8b", "context": 8192},
        {"kv_bytes_per_sequence": 1073741824},
    ),
    ("1.kv_budget", "concurrency", BUDGET_8B, {"kv_budget_bytes": 59_940_000_000}),
    (
        "1.max_concurrency",
        "concurrency",
        {**BUDGET_8B, "contexts": CONTEXTS},
        {"by_context.*.max_concurrency": [111, 55, 13, 3]},
    ),
    (
        "2.kv_per_token",
        "kv",
        {"model": "llama-3-70b", "tensor_parallel_size": 8},
        {"kv_bytes_per_token": 327680, "per_gpu.kv_bytes_per_token": 40960},
    ),
    (
        "2.kv_per_sequence_8k_per_gpu",
        "kv",
        {"model": "llama-3-70b", "tensor_parallel_size": 8, "context": 8192},
        {"per_gpu.kv_bytes_per_sequence": 335544320},
    ),
    ("2.kv_budget_per_gpu", "concurrency", BUDGET_70B, {"kv_budget_bytes": 57_350_000_000}),
    (
        "2.max_concurrency",
        "concurrency",
        {**BUDGET_70B, "contexts": CONTEXTS},
        {"by_context.*.max_concurrency": [341, 170, 42, 10]},
    ),
    ("3.gqa_vs_mha_per_token", "kv", {"model": "mha-8b"}, {"kv_bytes_per_token": 524288}),
    (
        "3.gqa_vs_mha_concurrency",
        "concurrency",
        {"model": "llama-3-8b", "kv_budget_bytes": 60 * 10**9, "context": 8192},
        {"max_concurrency": 55},
    ),
    (
        "3.gqa_vs_mha_concurrency",
        "concurrency",
        {"model": "mha-8b", "kv_budget_bytes": 60 * 10**9, "context": 8192},
        {"max_concurrency": 13},
    ),
    ("3.mha_70b_per_token", "kv", {"model": "mha-70b"}, {"kv_bytes_per_token": 2621440}),
    (
        "3.mha_70b_sequence_4k",
        "kv",
        {"model": "mha-70b", "context": 4096},
        {"kv_bytes_per_sequence": 10737418240},
    ),
    (
        "3.mha_70b_concurrency",
        "concurrency",
        {"model": "mha-70b", "kv_budget_bytes": 500 * 10**9, "context": 4096},
        {"max_concurrency": 46},
    ),
    (
        "3.llama_3_70b_concurrency",
        "concurrency",
        {"model": "llama-3-70b", "kv_budget_bytes": 500 * 10**9, "context": 4096},
        {"max_concurrency": 372},
    ),
    ("4.crossover_8b", "crossover", TEXT_8B, {"crossover_token_slots": 122528}),
    ("4.crossover_70b", "crossover", TEXT_70B, {"crossover_token_slots": 430908}),
    (
        "4.crossover_context",
        "crossover",
        {**TEXT_8B, "batches": [32, 64, 128]},
        {"by_batch.*.context": [3829, 1914, 957]},
    ),
    (
        "4.kv_to_weight_ratio",
        "crossover",
        {**TEXT_8B, "batch": 128, "context": 4096},
        {"points.0.kv_to_weight_ratio": 4.278921},
    ),
    (
        "5.step_4k",
        "crossover",
        {**STEP, "context": 4096},
        {
            "points.0.step_bytes": 33239869184,
            "points.0.step_ms": 9.922349,
            "points.0.tokens_per_s": 3225.043,
        },
    ),
    (
        "5.step_32k",
        "crossover",
        {**STEP, "context": 32768},
        {
            "points.0.step_bytes": 153498953472,
            "points.0.step_ms": 45.820583,
            "points.0.tokens_per_s": 698.376,
        },
    ),
    # 32 users on one GPU: 9.922349 ms / 0.60 and / 0.75
    *(
        (
            "5.real_efficiency",
            "plan",
            {
                **TEXT_8B,
                "gpu": "h100",
                "gpus_per_node": 1,
                "concurrent_users": 32,
                "context": 4096,
                "efficiency": efficiency,
            },
            {"itl_ms": itl_ms, "tokens_per_s_per_node": tokens_per_s},
        )
        for efficiency, itl_ms, tokens_per_s in (
            (0.60, 16.5372, 1935.03),
            (0.75, 13.2298, 2418.78),
        )
    ),
    (
        "6.plan",
        "plan",
        PLAN,
        {
            "kv_bytes_per_sequence": 1966080000,
            "kv_bytes_total": 3932160000000,
            "kv_bytes_per_node": 474800000000,
            "nodes_for_kv": 9,
            "sequences_per_node": 241,
            "step_bytes_per_gpu": 76878160000,
            "step_ms": 22.9487,
            "itl_ms": 42.619,
            "meets_slo": True,
            "tokens_per_s_per_node": 5654.8,
            "tokens_per_s": 50892.9,
            "nodes": 13,
            "gpus": 104,
        },
    ),
]


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"{example[0]}")
async def test_a_number_of_the_text(
    client: httpx.AsyncClient,
    method: str,
    example: tuple[str, str, dict[str, Any], dict[str, Any]],
) -> None:
    _, calculation, request, expected = example
    sent = {"params": request} if method == "GET" else {"json": request}
    response = await client.request(method, f"/{calculation}", **sent)
    assert response.status_code == 200, response.text
    for path, exact in expected.items():
        found = at(path, response.json())
        if isinstance(exact, float):
            assert found == pytest.approx(exact, rel=1e-5), path  # the list rounds
        else:
            assert found == exact, path


def _numbers(value: Any) -> list[float]:
    if isinstance(value, dict):
        return [number for inner in value.values() for number in _numbers(inner)]
    if isinstance(value, list):
        return [number for inner in value for number in _numbers(inner)]
    return [value]


if SHARED.exists():  # beside our own checkouts only

    def test_no_example_of_the_list_is_left_out() -> None:
        entries = json.loads(SHARED.read_text())["examples"]
        listed = {entry["id"]: entry["exact"] for entry in entries}
        here: dict[str, set[float]] = {}
        for name, _, _, expected in EXAMPLES:
            here.setdefault(name, set()).update(_numbers(list(expected.values())))
        assert here.keys() == listed.keys()
        # Of two models in one entry, the first is checked under 1.kv_per_token.
        here["3.gqa_vs_mha_per_token"] |= here["1.kv_per_token"]
        for name, exact in listed.items():
            assert set(_numbers(exact)) <= here[name], name
