"""Whatever a request says changes the answer for some model, is refused, or is said to do nothing."""

from typing import Any

import pytest

from app.answers.calculations import CALCULATIONS
from app.catalog.models import model_catalogue
from app.errors import InputError
from app.resolve.gpu import requested_gpu
from app.resolve.model import catalogue_model
from app.schemas.request import ConcurrencyQuery, CrossoverQuery, KvQuery, PlanQuery

KINDS: dict[str, Any] = {
    "/kv": KvQuery,
    "/concurrency": ConcurrencyQuery,
    "/crossover": CrossoverQuery,
    "/plan": PlanQuery,
}
ENGINES = ("formula", "vllm", "sglang", "tensorrt-llm", "llama.cpp")
BUDGETS: list[dict[str, Any]] = [
    {},
    {"kv_budget_bytes": 50 * 10**9},
    {"kv_cache_memory_bytes": 50 * 10**9},
]
# Lengths that are no multiple of a block, and models with windows, experts, latents, states and
# prediction modules, each on its own GPU or on several.
MODELS: list[dict[str, Any]] = [
    {"model": "llama-3-8b", "context": 8001},
    {"model": "llama-3-8b", "context": 8001, "tensor_parallel_size": 4},
    {"model": "gemma-3-4b", "context": 30_001},
    {"model": "deepseek-v3", "context": 8001, "tensor_parallel_size": 16},
    {"model": "qwen3.5-35b-a3b", "context": 8001, "tensor_parallel_size": 2},
    {"model": "qwen3.5-35b-a3b", "context": 8001, "gpu_memory_bytes": 10**12, "batch": 1000},
    {"model": "qwen3.5-35b-a3b", "context": 99, "max_num_seqs": 10**6},
    {"model": "llama-3-8b", "context": 8001, "lora_rank": 16, "input_tokens": 100},
    {
        "model": "deepseek-v3",
        "context": 99,
        "tensor_parallel_size": 16,
        "speculative_method": "mtp",
    },
    {"model": "qwen3-30b-a3b", "context": 8001, "data_parallel_size": 2},
]
VALUES: dict[str, list[Any]] = {
    "activation_bytes": [10**9],
    "batch": [50_000],
    "batches": [[3]],
    "block_size": [64, 128, 4096],
    "contexts": [[3000]],
    "decode_context_parallel_size": [2],
    "disable_hybrid_kv_cache_manager": [True],
    "draft_model": ["llama-3.2-1b"],
    "dtype": ["float32"],
    "efficiency": [0.5],
    "enable_expert_parallel": [True],
    "enable_prefix_caching": [False, True],
    "enforce_eager": [True],
    "engine_version": ["0.19"],
    "entry_point": ["llm_class"],
    "expert_parallel_size": [2],
    "free_gpu_memory_fraction": [0.5],
    "gpu_memory_bytes": [60 * 10**9],
    "gpu_memory_used_bytes": [10**10],
    "gpu_memory_utilization": [0.5],
    "gpus_per_node": [4],
    "input_tokens": [100],
    "instances_per_gpu": [2],
    "itl_slo_ms": [30.0],
    "kv_budget_bytes": [6 * 10**9],
    "kv_cache_dtype": ["fp8", "q8_0"],
    "kv_cache_memory_bytes": [6 * 10**9],
    "lora_rank": [32],
    "max_loras": [4],
    "max_model_len": [4096],
    "max_num_batched_tokens": [4096],
    "max_num_seqs": [2],
    "max_running_requests": [2],
    "mem_fraction_static": [0.5],
    "memory_bandwidth_bytes_per_s": [10**12],
    "node_overhead_bytes": [10**9],
    "num_speculative_tokens": [3],
    "output_tokens": [50],
    "overhead_bytes": [10**9],
    "pipeline_parallel_size": [2],
    "prefill_efficiency": [0.3],
    "quantization": ["fp8", "awq"],
    "request_rate_per_s": [3.0],
    "spare_nodes": [3],
    "speculative_method": ["mtp", "ngram"],
    "spike_headroom": [0.5],
    "tensor_parallel_size": [2],
    "tp_overhead": [0.5],
    "ttft_slo_ms": [0.001],
    "weight_bytes": [50 * 10**9],
}
SUBJECTS = {"model", "models", "gpu", "context", "concurrent_users", "engine", "format"}
"""What every one of these questions is about."""
FILES = {"revision", "source", "gguf_file", "assume"}
"""Which files are read: the resolver's."""
ALWAYS_SAID = {"data_parallel_size", "explain"}
"""Said in other words ("data-parallel ranks"), and steps that a plan has anyway."""

Found = tuple[dict[str, Any], list[str]]


def answer(path: str, fields: dict[str, Any]) -> Found:
    kind = KINDS[path]
    asked = kind(**{name: value for name, value in fields.items() if name in kind.model_fields})
    entry = model_catalogue().find(asked.model)
    assert entry is not None
    gpu = requested_gpu(asked, memory_needed=path != "/crossover")
    found = CALCULATIONS[path].make(asked, catalogue_model(entry), gpu).model_dump()
    return found, found.pop("assumptions")


def heeded(path: str, name: str, fixed: dict[str, Any]) -> bool:
    for model in MODELS:
        fields = {"gpu": "h100", "concurrent_users": 50_000, "batch": 4, **fixed, **model}
        if path in ("/kv", "/concurrency"):
            fields["batch"] = model.get("batch", 1)
        try:
            before, _ = answer(path, fields)
        except InputError:
            continue
        for value in VALUES[name]:
            try:
                after, said = answer(path, {**fields, name: value})
            except InputError:
                return True
            if after != before or any(name in each for each in said):
                return True
    return False


QUESTIONS = [
    (path, engine, budget)
    for path, kind in KINDS.items()
    for engine in ENGINES
    for budget in BUDGETS
    if ("engine" in kind.model_fields or engine == "formula")
    and budget.keys() <= kind.model_fields.keys()
]


@pytest.mark.parametrize(("path", "engine", "budget"), QUESTIONS)
def test_what_does_nothing_is_said(path: str, engine: str, budget: dict[str, Any]) -> None:
    fields = KINDS[path].model_fields
    asked = set(fields) - SUBJECTS - FILES - ALWAYS_SAID - budget.keys()
    assert asked <= VALUES.keys()
    assert sorted(n for n in asked if not heeded(path, n, {"engine": engine, **budget})) == []


def said(path: str, **fields: Any) -> list[str]:
    return answer(path, {"model": "llama-3-8b", "gpu": "h100", "context": 8192} | fields)[1]


def test_a_default_that_decides_nothing_is_not_listed() -> None:
    def shares(**fields: Any) -> list[str]:
        return [each for each in said("/concurrency", **fields) if "utilization" in each]

    assert shares(engine="vllm") == ["gpu_memory_utilization 0.92, the engine's default"]
    given = {"engine": "vllm", "kv_cache_memory_bytes": 10**10}
    assert shares(**given) == []
    assert shares(**given, gpu_memory_utilization=0.9) == [
        "no effect of gpu_memory_utilization: kv_cache_memory_bytes is the budget"
    ]
    pools = said("/concurrency", engine="sglang", kv_cache_memory_bytes=10**10)
    assert not any("mem_fraction_static" in each for each in pools)


def test_what_does_something_is_not_said_to_do_nothing() -> None:
    for path, fields in (
        ("/kv", {"engine": "vllm", "max_num_seqs": 8, "block_size": 32}),
        ("/concurrency", {"max_num_seqs": 8, "activation_bytes": 10**9}),
        ("/concurrency", {"engine": "vllm", "lora_rank": 8, "max_loras": 2}),
        ("/crossover", {"efficiency": 0.6, "tensor_parallel_size": 2, "tp_overhead": 0.2}),
        ("/plan", {"concurrent_users": 9, "input_tokens": 9, "prefill_efficiency": 0.4}),
    ):
        assert not [each for each in said(path, **fields) if "no effect" in each], (path, fields)
