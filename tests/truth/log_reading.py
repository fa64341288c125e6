"""Startup logs as published against what we read in them: every figure that an excerpt holds."""

import json
from collections.abc import Iterator
from typing import Any

from app.logs.reader import read_log
from app.logs.reading import ReadLog
from app.logs.templates import Size
from tests.truth.outcomes import Outcome, Tally
from tests.truth.shared import TRUTH

SIZES = {
    "total_gpu_memory_gib": "total",
    "free_memory_at_start_gib": "free_at_start",
    "weights_gib": "weights",
    "activation_peak_gib": "activation",
    "non_torch_gib": "non_torch",
    "cuda_graph_gib": "graphs",
    "cuda_graph_estimated_gib": "graphs_estimated",
    "available_kv_gib": "available_kv",
    "kv_gib_needed_for_max_len": "needed_kv",
}
COUNTS = {
    "kv_tokens": "kv_tokens",
    "num_gpu_blocks": "num_blocks",
    "max_concurrency": "max_concurrency",
    "concurrency_len": "concurrency_len",
    "estimated_max_model_len": "estimated_max_len",
    "mamba_cache_blocks": "state_slots",
}
EXPLAINED = {
    "row-e36ecd6f3c": "the record's is the pool of the windows; SGLang's max_total_num_tokens is "
    "that of the full layers, which its log calls full_layer_tokens",
    "kvcached-210": "the record quotes no line of the engine and no figure",
    "vllm-15204-3090-qwen25-3b-awq": "the record quotes nvidia-smi, no line of the engine",
    "vllm-46307-gb10-gemma4-26b": "the record tells of a host that hung, with no line of the "
    "engine; its 48 GiB of weights are not in it",
    "vllm-56824-gb10-qwen38fn": "the record quotes the driver's refusal, no line of the engine",
}
"""Why a record and its excerpt do not go together."""
DIGITS = 0.0051
"""GiB: half of the last printed digit, and the record's own rounding."""


def log_records() -> Iterator[dict[str, Any]]:
    """The records, one for each log."""
    with (TRUTH / "startup-logs.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def hold(record: dict[str, Any]) -> tuple[Outcome, list[str]]:
    """One record's excerpt, read, against its figures.

    A figure that stands in the record and not in its excerpt is none that we can read.
    """
    text = "\n".join(record["excerpt"])
    log = read_log(text)
    if log is None:
        return Outcome.UNKNOWN, ["no figure of an engine in it"]
    digits, words = text.replace(",", ""), []
    for name, truth in record["measured"].items():
        if truth is None or name not in SIZES | COUNTS:
            continue
        ours = _ours(log, name)
        if ours is None and f"{truth:g}" not in digits and str(truth) not in digits:
            continue
        if ours is None or abs(ours - truth) > (DIGITS if name in SIZES else 0):
            words.append(f"{name} {ours} for {truth}")
    return (Outcome.WRONG if words else Outcome.EXACT), words


def _ours(log: ReadLog, name: str) -> float | None:
    found = getattr(log.measured, (SIZES | COUNTS)[name])
    if name == "concurrency_len" and found is None:
        found = log.settings.max_model_len
    return found.bytes / 2**30 if isinstance(found, Size) else found


def tally() -> Tally:
    """All records, by engine."""
    result = Tally("Startup logs, as read")
    for record in log_records():
        outcome, words = hold(record)
        why = EXPLAINED.get(record["id"])
        engine = record["engine"].partition(" ")[0]
        result.add(engine, outcome, record["id"], [*words, *([why] if why else [])])
    return result
