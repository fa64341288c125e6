"""Figures out of a log in somebody's own words: a quoted line, a table row, a script's summary.

They fill what an engine's own lines leave open, and only of a short text: a whole log has them all.
"""

import re
from dataclasses import replace
from functools import cache
from typing import Any

from app.logs.arguments import whole_of
from app.logs.reading import Measured
from app.logs.templates import Size

MAX_NOTE = 4096
_N = r"(-?\d[\d,]{0,11}+(?:\.\d{1,6}+)?+)"
_W = r"(\d[\d,]{0,15}+[kKM]?+)"
_SIZES = {
    "weights": (rf"weight_memory_gib={_N}", rf"weights(?:/GPU)? {_N}", rf"{_N} GiB weights"),
    "activation": (
        rf"activation_memory_gib={_N}",
        rf"\bactivation {_N}",
        rf"{_N} GiB peak activation",
    ),
    "non_torch": (
        rf"non_torch_forward_memory_gib={_N}",
        rf"non-torch {_N}",
        rf"{_N} GiB non-torch",
    ),
    "graphs": (rf"CUDA graph {_N}", rf"{_N} GiB graph", rf"capturing took {_N} GiB"),
    "available_kv": (
        rf"kv_cache_memory_gib={_N}",
        rf"KV cache(?: memory)?:? {_N} GiB",
        rf"\bKV {_N} GiB",
        rf"available \({_N} GiB",
        rf"\butil [\d.]{{1,5}}: {_N} GiB",
        rf"KV pool ~?{_N} GiB",
        rf"{_N} GiB KV (?!cache is)",
    ),
    "needed_kv": (rf"{_N} GiB KV cache is needed",),
}
_WHOLES = {
    "kv_tokens": (
        rf"kv_cache_tokens={_W}",
        rf"KV cache size:? {_W} tokens",
        rf"KV tokens {_W}",
        rf"(?<!for )(?<!size to )\b{_W} tokens(?! per request|/request)",
    ),
    "num_blocks": (rf"GPU blocks:? {_W}",),
    "concurrency_len": (
        rf"oncurrency (?:for|@) ?{_W}",
        rf"\dx at {_W}",
        rf"oncurrency at {_W}",
        rf"^{_W}: \d",
    ),
}
_CONCURRENCY = (rf"max_concurrency={_N}", rf"{_N}x\b")
_EARLIER = re.compile(r"\d[\d,.]{0,20}+(?: \w{1,12}+){0,2}? before, (?=\d)")
_CHANGED = re.compile(
    r"\d[\d,.]{0,20}+ (tokens|blocks|GiB)\b(?:(?! \d)[^\n]){0,40}? (?:->|\u2192) "
    r"(\d[\d,.]{0,20}+)(?: \1\b)?+"
)
"""Two starts in one sentence: `A before, B after`, `A tokens -> B`. The later is the one read."""
_SHARE = re.compile(r"\butil(?:ization)? (0\.\d{1,4}|1)\b")
_TP = re.compile(r"\bTP ?(\d{1,3})\b")


def with_notes(text: str, measured: Measured) -> tuple[Measured, dict[str, Any]]:
    """`measured` with what a short text says besides, and the settings it mentions."""
    if len(text) > MAX_NOTE:
        return measured, {}
    text = _CHANGED.sub(r"\2 \1", _EARLIER.sub("", text))
    found: dict[str, Any] = {}
    for name, patterns in _SIZES.items():
        if (number := _first(patterns, text)) is not None:
            found[name] = Size(round(float(number) * 2**30), 2**30 // 200)
    for name, patterns in _WHOLES.items():
        if (number := _first(patterns, text)) is not None:
            found[name] = whole_of(number)
    if (number := _first(_CONCURRENCY, text)) is not None:
        found["max_concurrency"] = float(number)
    if "available_kv" in found:
        found["available_kv_least"] = found["available_kv"]
    gaps = {name: value for name, value in found.items() if getattr(measured, name) is None}
    settings: dict[str, Any] = {}
    if share := _SHARE.search(text):
        settings["gpu_memory_utilization"] = float(share[1])
    if ranks := _TP.search(text):
        settings["tensor_parallel_size"] = int(ranks[1])
    return replace(measured, **gaps), settings


def _first(patterns: tuple[str, ...], text: str) -> str | None:
    for pattern in patterns:
        if match := _compiled(pattern).search(text):
            return match[1].replace(",", "")
    return None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.MULTILINE)
