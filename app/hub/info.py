"""Model info and checkpoint indexes: the hub's JSON read field by field, nothing believed."""

import math
from collections.abc import Mapping
from typing import Any

from app.hub.classify import printable
from app.hub.facts import ModelInfo, WeightFacts
from app.hub.names import filename_fault, is_commit, repo_id_fault
from app.hub.refusals import bad_answer
from app.hub.safetensors import DTYPE_BITS, MAX_DTYPE_NAME, MAX_DTYPES

EXPAND = ("sha", "private", "gated", "disabled", "siblings", "config", "safetensors")
MAX_TOTAL_BYTES = 2**60
MAX_ARCHITECTURES = 16


def read_info(answer: dict[str, Any]) -> ModelInfo:
    """Model info from the hub's answer.

    Raises:
        HubBadAnswer: it names no repository, so it is not the hub's.
    """
    name = answer.get("id")
    if not isinstance(name, str) or repo_id_fault(name) is not None:
        raise bad_answer("about the model names no repository")
    sha = answer.get("sha")
    return ModelInfo(
        repo_id=name,
        commit=sha if isinstance(sha, str) and is_commit(sha) else None,
        private=answer.get("private") is True,
        gated=answer.get("gated") not in (None, False),
        disabled=answer.get("disabled") is True,
        files=tuple(_names(answer.get("siblings"))),
        architectures=_short(_object(answer.get("config")).get("architectures")),
        parameters_by_dtype=_counts(_object(answer.get("safetensors")).get("parameters")),
    )


def weights_from_info(info: ModelInfo) -> WeightFacts | None:
    """Weight bytes from the element counts of model info, or None where it has none.

    Raises:
        HubBadAnswer: a dtype whose size is not known; it is named.
    """
    counts = info.parameters_by_dtype
    if not counts:
        return None
    unknown = sorted(set(counts) - set(DTYPE_BITS))
    if unknown:
        raise bad_answer(
            f"counts weights of dtype {unknown[0]!r}, whose size is not known",
            {"unknown_dtypes": unknown},
        )
    by_dtype = {name: -(-count * DTYPE_BITS[name] // 8) for name, count in counts.items()}
    return WeightFacts(
        total_bytes=sum(by_dtype.values()),
        source="model_info",
        bytes_by_dtype=by_dtype,
        elements_by_dtype=counts,
    )


def total_size(index: dict[str, Any]) -> int | None:
    """`metadata.total_size` of a checkpoint index in bytes; None if absent or no byte count.

    Some writers store it as a float: a whole one is taken.
    """
    value = _object(index.get("metadata")).get("total_size")
    if isinstance(value, float) and math.isfinite(value) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_TOTAL_BYTES:
        return value
    return None


def shards(index: dict[str, Any]) -> tuple[str, ...]:
    """The files that `weight_map` of a checkpoint index names, each once, in order."""
    return tuple(dict.fromkeys(_texts(list(_object(index.get("weight_map")).values()))))


def _counts(parameters: Any) -> Mapping[str, int] | None:
    counts = _object(parameters)
    if len(counts) > MAX_DTYPES or any(len(name) > MAX_DTYPE_NAME for name in counts):
        raise bad_answer("counts weights of more dtypes, or of longer names, than there are")
    for name, count in counts.items():
        if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count < 2**63:
            raise bad_answer(f"counts weights of dtype {name!r} by no whole number")
    return counts or None


def _names(siblings: Any) -> list[str]:
    entries = siblings if isinstance(siblings, list) else []
    names = _texts([_object(entry).get("rfilename") for entry in entries])
    # What is no path inside a repository could not be asked for.
    return [name for name in names if filename_fault(name) is None]


def _short(names: Any) -> tuple[str, ...]:
    return tuple(printable(name) for name in _texts(names)[:MAX_ARCHITECTURES])


def _texts(values: Any) -> list[str]:
    return [value for value in values if isinstance(value, str)] if isinstance(values, list) else []


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
