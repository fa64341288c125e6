"""JSON from strangers: parsed within bounds, or refused with the reason in words."""

import json
import math
import re
from typing import Any

from app.json_size import MAX_VALUES, holds_more

MAX_DEPTH = 64
_STRINGS_AND_MARKS = re.compile(rb'"(?:[^"\\]|\\.)*"?|[][{},]', re.DOTALL)


class JsonRefused(ValueError):
    """The bytes are not the JSON we accept; the message says why, without quoting them."""


class JsonTooLarge(JsonRefused):
    """There is more of it, in bytes or in values, than is read; nothing else is wrong with it yet."""


def parse_object(data: bytes) -> dict[str, Any]:
    """The JSON object in `data`.

    Strict where the standard library is lax: UTF-8 only, no NaN, no infinity by overflow, at most `MAX_DEPTH` levels and `MAX_VALUES` values, no lone surrogates. A
    key given twice keeps its last value, as everywhere. `Infinity` spelled out is read: published
    configs of state-space models state an open time step limit so.

    Raises:
        JsonTooLarge: it holds too many values.
        JsonRefused: with the rule that was broken.
    """
    if holds_more(data):
        raise JsonTooLarge(f"holds more than {MAX_VALUES} values")
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


def parse_beginning(data: bytes) -> dict[str, Any]:
    """The members that are whole in `data`, the first bytes of a JSON object; as `parse_object`.

    The last one is whole once it is followed by a comma or, being an object or a list, closed.

    Raises:
        JsonRefused: up to the last whole member, it breaks a rule.
    """
    if not data.strip():
        return {}
    depth = end = 0
    for found in _STRINGS_AND_MARKS.finditer(data):
        mark = found[0]
        depth += (mark in (b"{", b"[")) - (mark in (b"}", b"]"))
        if depth == 1 and not mark.startswith(b'"'):
            end = found.start() if mark == b"," else found.end()
    return parse_object(data[:end] + b"}")


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
