"""A startup log read in one pass: which engine, which run, what it says.

The text is searched for words, never split into lines and tried against patterns, so the time is
linear in its length however it is made.
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from app.logs.arguments import MAX_LINE, command_at, read_command, read_repr, settings_from
from app.logs.cleaning import clean, line_at, source_of
from app.logs.engine import Engine
from app.logs.found import Found
from app.logs.llama_cpp import LLAMA_CPP
from app.logs.notes import with_notes
from app.logs.reading import Failure, LogSettings, Measured, RankReading, ReadLog
from app.logs.sglang import SGLANG
from app.logs.templates import Hit, Size, hits, places
from app.logs.tensorrt_llm import TENSORRT_LLM
from app.logs.vllm import VLLM

ENGINES = (TENSORRT_LLM, LLAMA_CPP, SGLANG, VLLM)
_SETTINGS = frozenset(setting.name for setting in fields(LogSettings))
_ABOUT = _SETTINGS | {"version", "gpu", "device"}
_STAGE = 10_000
_BEGINNING = 2**18
_MAX_STARTS = 4096
_LAST_STARTS = 64
_MAX_ARGUMENT_LINES = 16


def read_log(log: str | bytes) -> ReadLog | None:
    """Read a startup log; None where nothing of it is an engine's.

    Of several starts in one log, the last that measured something is read.
    """
    whole = clean(log)
    engine = _engine_of(whole)
    failures = _failures(whole, engine)
    text, hit_list, starts = _last_run(_startup(whole, engine), engine)
    found = Found()
    for hit in hit_list:
        found.add(source_of(text, hit.at), hit.values)
    settings = _settings(text, engine, hit_list)
    measured, noted = with_notes(text, engine.measured(found))
    settings = noted | settings
    if measured == Measured() and not failures and "model" not in settings:
        return None
    return ReadLog(
        engine=engine.name,
        version=found.first("version", str),
        gpu=found.first("gpu", str),
        settings=LogSettings(**settings),
        measured=measured,
        ranks=_ranks(found),
        failures=failures,
        missing=tuple(
            f"{names.partition('|')[0].replace('_', ' ')}: no line {line!r}"
            for names, line in engine.usual.items()
            if all(getattr(measured, name) is None for name in names.split("|"))
        ),
        warnings=tuple(_warnings(starts, measured)),
    )


def _engine_of(text: str) -> Engine:
    """The engine whose words occur, in the beginning or else anywhere; vLLM where none does."""
    for part in (text[:_BEGINNING], text):
        for engine in ENGINES:
            if any(word in part for word in engine.signatures):
                return engine
    return VLLM


def _startup(text: str, engine: Engine) -> str:
    """The text up to the last line that can be of a start, and some more; the rest is serving."""
    last = max(text.rfind(word) for word in engine.ends)
    return text[: last + MAX_LINE]


def _last_run(text: str, engine: Engine) -> tuple[str, list[Hit], int]:
    """The last start that measured something, what it says, and how many starts there are.

    Looked for from the end: a log of a thousand attempts is read no further back than it takes.
    Marks without a measurement between them are of one start.
    """
    kinds = (list(places(text, word, _MAX_STARTS)) for word in engine.starts)
    marks = next((marks for marks in kinds if marks), [])
    begins = sorted({0, *marks[-_LAST_STARTS:]})
    begin, end, said = 0, len(text), list[Hit]()
    for start, stop in zip(reversed(begins), reversed([*begins[1:], len(text)]), strict=True):
        found = hits(text[start:stop], engine.read)
        measures = any(not hit.values.keys() <= _ABOUT for hit in found)
        if measures and any(not hit.values.keys() <= _ABOUT for hit in said):
            break
        if measures:
            said, end = [], stop
        begin = start
        said = [Hit(hit.at + start, hit.values) for hit in found] + said
    return text[begin:end], [Hit(hit.at - begin, hit.values) for hit in said], len(marks)


def _settings(text: str, engine: Engine, found: list[Hit]) -> dict[str, Any]:
    """Settings: what the engine resolved, then what it was given, then the command."""
    settings: dict[str, Any] = {}
    for hit in found:
        settings |= {n: v for n, v in hit.values.items() if n in _SETTINGS and n not in settings}
    for arguments in _arguments(text, engine):
        for name, value in settings_from(arguments, engine.names):
            settings.setdefault(name, value)
    return settings


def _arguments(text: str, engine: Engine) -> Iterator[Mapping[str, str]]:
    for word in engine.reprs:
        for at in places(text, word, _MAX_ARGUMENT_LINES):
            yield read_repr(line_at(text, at + len(word), MAX_LINE))
    for word in engine.commands:
        for at in places(text, word, _MAX_ARGUMENT_LINES):
            yield _named(read_command(command_at(text, at), word))


def _named(arguments: Mapping[str, str]) -> Mapping[str, str]:
    """A command's own word as the model, where no flag names it."""
    alone = arguments.get("")
    return arguments if alone is None else {"model": alone, **arguments}


def _failures(text: str, engine: Engine) -> tuple[Failure, ...]:
    placed = {kind: at for kind, word in reversed(engine.failures) if (at := text.find(word)) >= 0}
    return tuple(sorted(placed, key=lambda kind: placed[kind]))


def _ranks(found: Found) -> tuple[RankReading, ...]:
    weights, pools = found.by_source("weights"), found.by_source("available")
    sources = sorted(weights.keys() | pools.keys())
    if len(sources) < 2:
        return ()
    return tuple(
        RankReading(
            stage=source[0] // _STAGE,
            rank=source[0] % _STAGE,
            weights=weights.get(source),
            available_kv=pools.get(source),
        )
        for source in sources[:256]
    )


def _warnings(starts: int, measured: Measured) -> Iterator[str]:
    if starts > 1:
        yield f"the log holds {starts} starts; the last that measured something is read"
    first, least = measured.available_kv, measured.available_kv_least
    if first is not None and least is not None and least.bytes < first.bytes:
        yield (
            f"ranks differ: the first has {_gib(first)} for the cache, the one with least "
            f"{_gib(least)}, and that one decides"
        )


def _gib(size: Size) -> str:
    return f"{size.bytes / 2**30:.2f} GiB"
