"""JSON from strangers: parsed within bounds, or refused with the reason in words."""

import json
import math
from typing import Any

from app.json_size import MAX_VALUES, holds_more

MAX_DEPTH = 64


class JsonRefused(ValueError):
    """The bytes are not the JSON we accept; the message says why, without quoting them."""


def parse_object(data: bytes) -> dict[str, Any]:
    """The JSON object in `data`.

    Strict where the standard library is lax: UTF-8 only, no NaN, no infinity by overflow, at most `MAX_DEPTH` levels and `MAX_VALUES` values, no lone surrogates. A
    key given twice keeps its last value, as everywhere. `Infinity` spelled out is read: published
    configs of state-space models state an open time step limit so.

    Raises:
        JsonRefused: with the rule that was broken.
    """
    if holds_more(data):
        raise JsonRefused(f"holds more than {MAX_VALUES} values")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise JsonRefused("is not UTF-8") from None
    try:
        value = json.loads(text, parse_constant=_constant, parse_float=_finite)
    except JsonRefused:
        raise
    except RecursionError:
        raise JsonRefused(f"is nested deeper than {MAX_DEPTH} levels") from None
    except ValueError:
        raise JsonRefused("is not JSON") from None
    if not isinstance(value, dict):
        raise JsonRefused("is not a JSON object")
    _check_depth(value)
    if "\\u" in text:
        _check_surrogates(value)
    return value


def _constant(name: str) -> float:
    if name == "NaN":
        raise JsonRefused(f"holds {name}")
    return float(name)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise JsonRefused("holds a number beyond the range of a float")
    return number


def _check_depth(value: dict[str, Any]) -> None:
    level: list[Any] = [value]
    depth = 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise JsonRefused(f"is nested deeper than {MAX_DEPTH} levels")
        deeper: list[Any] = []
        for container in level:
            children = container.values() if isinstance(container, dict) else container
            deeper.extend(child for child in children if isinstance(child, (dict, list)))
        level = deeper


def _check_surrogates(value: dict[str, Any]) -> None:
    # A lone surrogate parses, but cannot be written as UTF-8 again: it would break the answer.
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise JsonRefused("holds a lone surrogate") from None
