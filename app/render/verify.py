"""A startup log's explanation for people, as plain text."""

import sys
import textwrap
from collections.abc import Iterator, Sequence

from app.answers.verify_words import NAMES
from app.render.tables import new_console, print_steps
from app.schemas.verify import Split, VerifyAnswer, VerifyRow

GIB = 2**30
WIDTH = 80
ENGINES = {"vllm": "vLLM", "sglang": "SGLang", "tensorrt-llm": "TensorRT-LLM"}


def print_verify(found: VerifyAnswer) -> None:
    """What the log shows, figure by figure."""
    sys.stdout.writelines(f"{line}\n" for line in explanation(found))
    if found.steps:
        print_steps(new_console(), found.steps)


def explanation(found: VerifyAnswer) -> Iterator[str]:
    """The same, line by line."""
    yield _title(found)
    for sentence in found.summary:
        yield from _wrapped(sentence)
    yield ""
    yield from _figures(found.table)
    if found.kv_pool is not None and any(part.bytes for part in found.kv_pool.parts):
        yield ""
        yield "From the prediction to the log, in GiB:"
        yield from _walk(found.kv_pool, "predicted memory for the cache", "in the log")
    if found.from_formula is not None:
        yield ""
        yield "From the calculator (memory - weights - 4 GB) to what holds tokens, in GiB:"
        yield from _walk(found.from_formula, "by the formula", "bytes of tokens")
    yield ""
    if found.sequences is not None:
        yield from _wrapped(f"Blocks as sequences: {found.sequences.working}.")
    for refuted in found.refuted:
        yield from _wrapped(f"The log refutes: {refuted.assumption}. It has {refuted.log}.")
    for heading, lines in (
        ("Mind:", found.warnings),
        ("Not in the log:", found.missing),
        ("Assumed:", found.assumptions),
    ):
        if lines:
            yield heading
        for line in lines:
            yield from _wrapped(line, "  - ")


def _title(found: VerifyAnswer) -> str:
    read = found.read
    engine = ENGINES.get(read.engine, read.engine)
    version = f" {read.engine_version}" if read.engine_version else ""
    model = read.settings.model or "a model that is not named"
    if found.model is not None:
        model = found.model.id or found.model.architecture or found.model.model_type
    gpu = f" on {found.gpu.name}" if found.gpu is not None else ""
    ranks = read.settings.tensor_parallel_size or 1
    return f"{engine}{version}: {model}{gpu}" + (f", TP {ranks}" if ranks > 1 else "")


def _figures(rows: Sequence[VerifyRow]) -> Iterator[str]:
    cells = [("", "predicted", "in the log", "difference")]
    for row in rows:
        gap = row.difference
        same = gap is not None and abs(gap) <= row.rounding
        cells.append(
            (
                NAMES.get(row.quantity, row.quantity),
                _number(row.predicted, row.unit),
                _number(row.measured, row.unit),
                "none" if same else _number(gap, row.unit, signed=True),
            )
        )
    name, *widths = (max(map(len, column)) for column in zip(*cells, strict=True))
    for first, *others in cells:
        numbers = (f"  {cell:>{width}}" for cell, width in zip(others, widths, strict=True))
        yield f"  {first:<{name}}{''.join(numbers)}"


def _number(value: float | None, unit: str, *, signed: bool = False) -> str:
    if value is None:
        return "-"
    sign = "+" if signed else ""
    if unit == "bytes":
        return f"{value / GIB:{sign},.2f} GiB"
    if unit == "sequences":
        return f"{value:{sign},.2f}"
    return f"{value:{sign},.0f}"


def _walk(split: Split, begin: str, end: str) -> Iterator[str]:
    steps = [(NAMES.get(p.part, p.part), f"{p.bytes / GIB:+,.3f}", p.reason) for p in split.parts]
    told = [step for step, part in zip(steps, split.parts, strict=True) if part.bytes]
    rows = [
        (begin, f"{split.from_bytes / GIB:,.3f}", ""),
        *told,
        (end, f"{split.to_bytes / GIB:,.3f}", ""),
    ]
    name, number = (max(len(row[column]) for row in rows) for column in (0, 1))
    for words, size, reason in rows:
        yield from _wrapped(reason, f"  {words:<{name}}  {size:>{number}}  ")


def _wrapped(text: str, before: str = "") -> list[str]:
    """Text within the width, after `before` on its first line and under it on the others."""
    lines = textwrap.wrap(text, WIDTH - len(before), break_on_hyphens=False) or [""]
    return [
        ((before if index == 0 else " " * len(before)) + line).rstrip()
        for index, line in enumerate(lines)
    ]
