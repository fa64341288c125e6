"""What a request says to no effect, so that nobody believes it was heard."""

from collections.abc import Callable
from typing import Any, NamedTuple

from app.core.hardware import Gpu
from app.errors import InputError
from app.schemas.request import (
    BudgetedRequest,
    ConcurrencyQuery,
    CrossoverQuery,
    EngineFields,
    EngineRequest,
    KvQuery,
    ModelFields,
    PlanQuery,
)

_VLLM_ALONE = frozenset(
    {
        "disable_hybrid_kv_cache_manager",
        "draft_model",
        "entry_point",
        "gpu_memory_utilization",
        "lora_rank",
        "max_loras",
        "num_speculative_tokens",
        "speculative_method",
    }
)
_HEADROOMS = frozenset({"activation_bytes", "overhead_bytes"})
_SGLANG_ALONE = frozenset({"max_running_requests", "mem_fraction_static"})
_ENGINES_ALONE = frozenset(EngineFields.model_fields) - {"engine", "max_num_seqs"}
_OF_ENGINES: dict[str, frozenset[str]] = {
    "formula": _ENGINES_ALONE | {"gpu_memory_used_bytes", "instances_per_gpu"},
    "vllm": _HEADROOMS | _SGLANG_ALONE | {"free_gpu_memory_fraction"},
    "sglang": _HEADROOMS | _VLLM_ALONE | {"free_gpu_memory_fraction"},
    "tensorrt-llm": _HEADROOMS
    | _VLLM_ALONE
    | _SGLANG_ALONE
    | {"enable_prefix_caching", "enforce_eager"},
    "llama.cpp": _HEADROOMS
    | _VLLM_ALONE
    | _SGLANG_ALONE
    | {
        "block_size",
        "enable_prefix_caching",
        "enforce_eager",
        "free_gpu_memory_fraction",
        "max_num_batched_tokens",
    },
}
"""Fields of a request that an engine of that name does not have."""

_SHARES = frozenset({"gpu_memory_utilization", "mem_fraction_static", "free_gpu_memory_fraction"})
_ON_TOP = frozenset({"gpu_memory_used_bytes", "lora_rank", "max_loras"})
_PROFILED = {
    "sglang": frozenset({"enforce_eager", "max_num_batched_tokens"}),
    "tensorrt-llm": frozenset({"max_num_batched_tokens"}),
}
"""What decides nothing there but what is left for the pools."""
_IN_POOLS = frozenset(EngineFields.model_fields) - {"engine", "max_model_len"}
_IN_BLOCKS = _SHARES | {
    "draft_model",
    "enforce_eager",
    "kv_cache_memory_bytes",
    "lora_rank",
    "max_loras",
}
_DEALT = frozenset({"enable_expert_parallel", "expert_parallel_size"})


class _Rule(NamedTuple):
    """Fields that do nothing where something holds of the request, and why."""

    fields: Callable[[Any], frozenset[str]]
    holds: Callable[[Any, Gpu | None], bool]
    why: str


def _always(*fields: str) -> Callable[[Any], frozenset[str]]:
    named = frozenset(fields)
    return lambda _: named


def _beside_a_budget(request: BudgetedRequest) -> frozenset[str]:
    return _SHARES | _ON_TOP | _PROFILED.get(request.engine, frozenset())


def _of_kv(request: KvQuery) -> frozenset[str]:
    if request.engine == "formula":
        return _DEALT | {"max_num_seqs"}
    return _DEALT | (_IN_BLOCKS if request.engine == "vllm" else _IN_POOLS)


_DRAFTED = _Rule(
    _always("num_speculative_tokens", "speculative_method"),
    lambda request, _: request.engine == "vllm" and request.draft_model is not None,
    "of draft_model, its weights and its cache are counted",
)
_ADAPTERS = _Rule(
    _always("max_loras"),
    lambda request, _: request.engine == "vllm" and request.lora_rank is None,
    "it goes with lora_rank",
)
_GIVEN_BUDGET = _Rule(
    lambda request: (
        _beside_a_budget(request) | _HEADROOMS | {"kv_cache_memory_bytes", "node_overhead_bytes"}
    ),
    lambda request, _: request.kv_budget_bytes is not None,
    "kv_budget_bytes is the budget",
)
_GIVEN_CACHE = _Rule(
    _beside_a_budget,
    lambda request, _: (
        request.kv_cache_memory_bytes is not None
        and request.kv_budget_bytes is None
        and request.engine != "formula"
    ),
    "kv_cache_memory_bytes is the budget",
)
_GIVEN_WEIGHTS = _Rule(
    _always("instances_per_gpu", "quantization", "weight_bytes", *_DEALT),
    lambda request, _: (
        request.kv_budget_bytes is not None
        or (request.kv_cache_memory_bytes is not None and request.engine != "formula")
    ),
    "the budget is given, and nothing is taken off it",
)
_ONE_RANK = _Rule(
    _always("tp_overhead"),
    lambda request, _: request.tensor_parallel_size == 1,
    "tensor_parallel_size is 1",
)
_BUDGETED = (_DRAFTED, _ADAPTERS, _GIVEN_BUDGET, _GIVEN_CACHE)
_RULES: dict[type[ModelFields], tuple[_Rule, ...]] = {
    KvQuery: (
        _DRAFTED,
        _Rule(
            _of_kv,
            lambda *_: True,
            "bytes of a cache rest on no budget, no limit on sequences and no spread of experts",
        ),
    ),
    ConcurrencyQuery: (*_BUDGETED, _GIVEN_WEIGHTS),
    CrossoverQuery: (
        _ONE_RANK,
        _Rule(
            _always("efficiency", "tp_overhead"),
            lambda _, gpu: gpu is None,
            "without a GPU no time is worked out",
        ),
    ),
    PlanQuery: (
        *_BUDGETED,
        _ONE_RANK,
        _Rule(
            _always("activation_bytes", "overhead_bytes"),
            lambda request, _: request.node_overhead_bytes is not None,
            "node_overhead_bytes stands in their place",
        ),
        _Rule(
            _always("prefill_efficiency"),
            lambda request, _: request.input_tokens is None,
            "it goes with input_tokens",
        ),
        _Rule(
            _always("output_tokens", "request_rate_per_s"),
            lambda request, _: (
                request.input_tokens is None and request.concurrent_users is not None
            ),
            "concurrent_users are given, and no input_tokens to prefill",
        ),
    ),
}
_USUAL = frozenset(
    {
        "model",
        "config",
        "gpu",
        "gpu_spec",
        "context",
        "contexts",
        "batch",
        "batches",
        "engine",
        "explain",
        "kv_cache_dtype",
        "tensor_parallel_size",
        "concurrent_users",
        "itl_slo_ms",
    }
)
"""Fields that always do something: most requests have no others."""


def unheard(request: ModelFields, gpu: Gpu | None) -> list[str]:
    """A sentence for each reason why some of the request's fields do nothing.

    Raises:
        InputError: on `engine` where measured parts are given without the engine they are of.
    """
    given = request.model_fields_set - _USUAL
    said: list[str] = []
    if not given:
        return said
    if isinstance(request, EngineRequest):
        if request.engine == "formula" and "calibration" in given:
            rule = "is needed beside calibration: what was measured is an engine's"
            raise InputError.of("engine", rule, type="missing")
        if foreign := given & _OF_ENGINES[request.engine]:
            said.append(f"engine={request.engine} takes no account of {_named(foreign)}")
            given -= foreign
    for kind, rules in _RULES.items():
        if not isinstance(request, kind):
            continue
        for fields, holds, why in rules:
            if not holds(request, gpu):
                continue
            idle = {name for name in given & fields(request) if getattr(request, name) is not None}
            if idle:
                said.append(f"no effect of {_named(idle)}: {why}")
                given -= idle
    return said


def _named(fields: frozenset[str] | set[str]) -> str:
    return ", ".join(sorted(fields))
