"""Texts that are no logs, or made to hurt: no error, and work in step with their length."""

import re
import sys
from collections.abc import Callable
from re import _constants, _parser
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.logs import arguments, cleaning
from app.logs.reader import ENGINES, read_log
from tests.logs import samples

SIZE = 400_000
LINES = [line for text in (samples.VLLM_V1, samples.SGLANG, samples.LLAMA_CPP, samples.TENSORRT_LLM)
         for line in text.splitlines()]  # fmt: skip


def _repeat(piece: str, size: int) -> str:
    return piece * (size // len(piece))


MADE: dict[str, Callable[[int], str]] = {
    "one line": lambda size: "x" * size,
    "nulls": lambda size: "\x00" * size,
    "line ends": lambda size: "\r\n" * (size // 2),
    "escapes": lambda size: _repeat("\x1b[", size),
    "an endless title": lambda size: "\x1b]" + "a" * size,
    "digits": lambda size: "GPU KV cache size: " + "9" * size,
    "groups of digits": lambda size: "GPU KV cache size: 1" + _repeat(",999", size),
    "spaces": lambda size: "Available KV cache memory:" + " " * size,
    "a word again and again": lambda size: _repeat("Available KV cache memory: ", size),
    "a figure again and again": lambda size: _repeat("Available KV cache memory: 1 GiB ", size),
    "openings": lambda size: "non-default args: " + "{" * size,
    "keys": lambda size: "non-default args: " + _repeat("'a': ", size),
    "argument lines": lambda size: _repeat("non-default args: {'model': 'a/b'}\n", size),
    "a command that goes on": lambda size: "vllm serve " + _repeat("\\\n", size),
    "commands": lambda size: _repeat("vllm serve a/b --x 'q\n", size),
    "starts": lambda size: _repeat("server_args=\nLoad weight begin. avail mem=1.0 GB\n", size),
    "buffers": lambda size: _repeat("load_tensors: CUDA0 model buffer size = 1.0 MiB\n", size),
    "a skip that never ends": lambda size: "Load weight end. " + "avail mem=" * (size // 10),
    "format strings": lambda size: _repeat("%s%n%x{0}{a.b}${jndi:x} Model loading took ", size),
}


@pytest.mark.parametrize("name", MADE)
def test_nothing_made_to_hurt_does(name: str) -> None:
    log = read_log(MADE[name](SIZE))
    assert log is None or len(log.ranks) <= 256


@pytest.mark.parametrize("name", MADE)
def test_work_grows_no_faster_than_the_text(name: str) -> None:
    """Calls, of Python and of C, counted: of twice the text there are at most twice as many."""

    def calls(size: int) -> int:
        text, count = MADE[name](size), 0

        def see(_frame: object, event: str, _argument: object) -> None:
            nonlocal count
            count += event in {"call", "c_call"}

        sys.setprofile(see)
        try:
            read_log(text)
        finally:
            sys.setprofile(None)
        return count

    calls(1000)  # what is made once
    assert calls(60_000) <= 2.1 * calls(30_000) + 200


def test_a_hundred_thousand_lines() -> None:
    text = samples.VLLM_V1 + "\n".join(f"line {number}" for number in range(100_000))
    log = read_log(text)
    assert log is not None
    assert log.measured.kv_tokens == 1_868_432


def _most_tries(pattern: Any) -> int:
    """Ways in which a pattern's repeats that can give back may be tried one after another."""
    tries = 1
    for kind, value in pattern:
        if kind in {_constants.MAX_REPEAT, _constants.MIN_REPEAT}:
            low, high, inside = value
            tries *= (high - low + 1) * _most_tries(inside)
        elif kind is _constants.SUBPATTERN:
            tries *= _most_tries(value[3])
        elif kind is _constants.BRANCH:
            tries *= sum(_most_tries(branch) for branch in value[1])
        elif kind is _constants.ATOMIC_GROUP:
            tries *= _most_tries(value)
    return tries


PATTERNS = [template.pattern for engine in ENGINES for template in engine.read] + [
    value for module in (arguments, cleaning) for value in vars(module).values()
    if isinstance(value, re.Pattern)
]  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.pattern[:50])
def test_no_pattern_can_try_for_long(pattern: re.Pattern[str]) -> None:
    """A pattern is tried only where its words stand; there, so many ways at most."""
    assert _most_tries(_parser.parse(pattern.pattern, pattern.flags)) <= 2_000_000


@settings(deadline=None)
@given(st.text(max_size=2000) | st.binary(max_size=2000))
def test_any_text(text: str | bytes) -> None:
    read_log(text)


@settings(deadline=None)
@given(st.lists(st.sampled_from(LINES) | st.text(max_size=40), max_size=30))
def test_any_order_of_lines(lines: list[str]) -> None:
    read_log("\n".join(lines))


@settings(deadline=None)
@given(st.sampled_from([samples.VLLM_V1, samples.SGLANG, samples.LLAMA_CPP]), st.data())
def test_any_damage(text: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text)))
    upto = data.draw(st.integers(at, min(at + 300, len(text))))
    log = read_log(text[:at] + data.draw(st.text(max_size=20)) + text[upto:])
    if log is not None:
        assert log.engine in {"vllm", "sglang", "llama.cpp", "tensorrt-llm"}
