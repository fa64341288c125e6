"""vLLM's own plans against ours: bytes of a request, blocks, tokens, concurrency, refusals."""

import json
from typing import Any

from app.core.engines.vllm import VllmArguments, VllmPlan, plan_cache
from app.core.model import ModelShape
from app.errors import InputError
from tests.truth.outcomes import Outcome, Tally, compare
from tests.truth.shared import GPUS, engine_records, shape_of


def arguments_of(record: dict[str, Any]) -> VllmArguments:
    """The engine arguments a record was made with."""
    extra = dict(record.get("extra_args") or {})
    speculation = extra.pop("speculative_config", None)
    if speculation:
        extra["speculative_method"] = speculation["method"]
        extra["num_speculative_tokens"] = speculation["num_speculative_tokens"]
    return VllmArguments(
        tensor_parallel_size=record["tp"],
        kv_cache_dtype=record["kv_cache_dtype"],
        max_model_len=record["max_model_len"],
        **extra,
    )


def true_figures(record: dict[str, Any]) -> dict[str, float]:
    """What the engine planned, flat: bytes by context, and each budget's pool."""
    figures = {"request_bytes": record["request_bytes"]}
    for context, size in record["request_bytes_by_context"].items():
        figures[f"request_bytes at {context}"] = size
    for budget, pool in record["budgets"].items():
        figures[f"fits {budget}"] = "error" not in pool
        for name in ("num_blocks", "tokens", "concurrency", "auto_fit_max_len"):
            if name in pool:
                figures[f"{name} {budget}"] = pool[name]
    return figures


def our_figures(plan: VllmPlan, record: dict[str, Any]) -> dict[str, float]:
    """The same of a plan of ours."""
    figures = {"request_bytes": plan.request_bytes(record["max_model_len"])}
    for context in record["request_bytes_by_context"]:
        figures[f"request_bytes at {context}"] = plan.request_bytes(int(context))
    for budget in record["budgets"]:
        pool = plan.capacity(int(budget))
        figures[f"fits {budget}"] = pool.fits
        figures[f"num_blocks {budget}"] = pool.num_blocks
        figures[f"tokens {budget}"] = pool.kv_cache_tokens
        figures[f"concurrency {budget}"] = pool.max_concurrency
        figures[f"auto_fit_max_len {budget}"] = pool.auto_fit_max_len
    return figures


def hold(shape: ModelShape, record: dict[str, Any]) -> tuple[Outcome, list[str]]:
    """One record against our plan of the same run."""
    refused = record["status"] == "error"
    try:
        plan = plan_cache(shape, arguments_of(record), GPUS[record["gpu"]])
    except InputError as error:
        return (Outcome.REFUSED, []) if refused else (Outcome.UNKNOWN, [error.detail])
    if refused:
        return Outcome.ACCEPTED, [record["error"][:120]]
    return compare(our_figures(plan, record), true_figures(record))


def tally() -> Tally:
    """All records."""
    result = Tally("Cache as vLLM 0.33 plans it")
    for record in engine_records():
        shape = shape_of(record["config"], tuple(record.get("stripped") or ()))
        what = (
            f"{record['model']} on {record['gpu']}, TP {record['tp']}, {record['kv_cache_dtype']}, "
            f"{record['max_model_len']} {json.dumps(record.get('extra_args') or {})}"
        )
        if isinstance(shape, ModelShape):
            outcome, words = hold(shape, record)
        else:
            outcome, words = Outcome.UNKNOWN, [shape.detail]
        result.add(record["model_type"], outcome, what, words)
    return result
