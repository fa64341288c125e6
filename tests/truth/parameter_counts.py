"""Exact parameter counts against ours, in total, active and by part."""

from typing import Any

from app.core.inventory import Part
from app.core.model import ModelShape
from tests.truth.outcomes import Outcome, Tally, compare
from tests.truth.shared import parameter_records, shape_of

PARTS = {
    "embed": Part.EMBEDDING,
    "lm_head": Part.HEAD,
    "vision": Part.VISION,
    "audio": Part.AUDIO,
    "projector": Part.PROJECTOR,
    "routed_expert_params": Part.ROUTED_EXPERTS,
}
EXPLAINED = {
    "Qwen/Qwen3-ASR-0.6B": "the record is of the class's default sizes: its embedding has 151,936 "
    "x 2,048 elements, and the config's hidden size is 1,024",
    "Qwen/Qwen2.5-Omni-7B-AWQ": "the record counts the thinker's embedding and head among its "
    "layers; the totals agree",
}
"""Why a record does not count what its config describes, or counts it elsewhere."""


def our_counts(shape: ModelShape) -> dict[str, int]:
    """Our counts under the records' names."""
    count = shape.parameters
    parts = {name: count.by_part.get(part, 0) for name, part in PARTS.items()}
    return {"total": count.total, "active": count.active, **parts}


def _tally(name: str, figures: tuple[str, ...]) -> Tally:
    result = Tally(name)
    for record in parameter_records():
        shape = shape_of(record["config"])
        what = _described(record)
        if isinstance(shape, ModelShape):
            truth = {name: record[name] for name in figures if name in record}
            outcome, words = compare(our_counts(shape), truth)
        else:
            outcome, words = Outcome.UNKNOWN, [shape.detail]
        why = EXPLAINED.get(record["model"])
        result.add(record["model_type"], outcome, what, [*words, *([why] if why else [])])
    return result


def _described(record: dict[str, Any]) -> str:
    method = record.get("method")
    return f"{record['model']} ({method})" if method else record["model"]


def tally_totals() -> Tally:
    """Total and active parameters."""
    return _tally("Parameters, total and active", ("total", "active"))


def tally_parts() -> Tally:
    """Parameters of the parts."""
    return _tally("Parameters of the parts", tuple(PARTS))
