"""What a log leaves open: what is assumed in its place, and what another value would change.

A setting that nobody states is predicted with other values too; the one that comes nearest to the
log's own figures is named beside what it would give.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from math import inf, log
from typing import Any

from app.answers.room import EngineRoom, Room, room_of
from app.answers.verify_measured import LARGEST_BLOCK
from app.answers.verify_parts import PARTS, PoolParts, parts_of
from app.answers.verify_rows import Row, capacity_rows, rows_of
from app.answers.verify_words import figure
from app.errors import InputError
from app.logs.reading import ReadLog
from app.resolve.gpu import ResolvedGpu
from app.resolve.model import ResolvedModel
from app.schemas.request import ConcurrencyBody

RANKS = (2, 4, 8, 16)
SEQUENCES = (256, 1024, 128, 64, 512, 32, 16, 8)
"""In the order of how usual they are: the first of equals is named."""
DRAFTED = (1, 2, 3, 4)
NEARER = 0.9
"""Another value than the assumed one is named where it is off by less than this share."""
_SILENT = dict.fromkeys(PARTS, "")


@dataclass(frozen=True, kw_only=True, slots=True)
class Start:
    """One prediction of the start that a log is of, held against it."""

    request: ConcurrencyBody
    room: Room
    parts: PoolParts
    rows: dict[str, Row]

    def predicts(self, quantity: str) -> float:
        """A predicted figure, 0 where there is none."""
        row = self.rows.get(quantity)
        return 0 if row is None or row.predicted is None else row.predicted

    @property
    def block_size(self) -> int | None:
        """Tokens a block, as planned."""
        return self.room.reserve(1).plan.block_size if isinstance(self.room, EngineRoom) else None


@dataclass(frozen=True, kw_only=True, slots=True)
class LeftOpen:
    """A setting that the log does not state.

    Attributes:
        name: Its name in a request.
        assumed: What the prediction takes.
        other: Of all other values the one that comes nearest to the log, in words; `with_other` is
            the start with it, None where the engine takes no other.
        nearer: Whether it comes nearer than the assumed one.
        affects: The quantities that it changes.
    """

    name: str
    assumed: str
    other: str
    with_other: Start | None
    nearer: bool
    affects: frozenset[str]

    @property
    def assumption(self) -> str:
        """For the answer's list."""
        return f"not in the log: {self.name}, taken as {self.assumed}"

    def added_to(self, row: Row) -> Row:
        """The row with the reason that this setting may be, where it differs or is not printed."""
        fits = row.as_laid_out if row.of_logged_memory else row.agrees
        printed = row.measured is not None
        if row.quantity not in self.affects or self.with_other is None or (printed and fits):
            return row
        words = f"; the log does not state {self.name}, taken as {self.assumed}: "
        if printed and not self.nearer:
            words += "no other value comes nearer"
        else:
            would = self.with_other.predicts(row.quantity)
            words += f"{self.other} would give {figure(would, row.unit)}"
        return replace(row, reason=row.reason + words)


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """A log and what is predicted of it; `given` are the fields that the sender states."""

    read: ReadLog
    request: ConcurrencyBody
    model: ResolvedModel
    gpu: ResolvedGpu
    context: int
    given: frozenset[str]

    def start(self, room: Room, request: ConcurrencyBody) -> Start:
        """A prediction as rows without reasons."""
        parts = parts_of(self.read, room, request)
        rows = [*rows_of(parts, _SILENT), *capacity_rows(self.read, room, parts, self.context)]
        return Start(
            request=request, room=room, parts=parts, rows={row.quantity: row for row in rows}
        )

    def with_others(self, values: Iterable[dict[str, Any]]) -> Iterator[Start]:
        """The prediction with other settings, where the engine takes them."""
        for value in values:
            request = self.request.model_copy(update=value)
            try:
                room = room_of(request, self.model, self.gpu, self.context)
                yield self.start(room, request)
            except InputError:
                continue

    def states(self, name: str) -> bool:
        """Whether log or sender state a setting."""
        return name in self.given or getattr(self.read.settings, name) is not None


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """A setting that may be left open.

    Attributes:
        name: Its name in a request, and `assumed` what is taken where nobody states it.
        values: Others that it may have had.
        parts: The parts of the memory that it decides, beside what the logged memory holds.
        off: How far a start is from the log, in what this setting decides.
    """

    name: str
    assumed: str
    values: tuple[dict[str, Any], ...]
    parts: tuple[str, ...]
    off: Callable[[Start], float]


def left_open(asked: Asked, room: Room) -> Iterator[LeftOpen]:
    """Settings that neither log nor sender states, and that decide what the log measures."""
    if asked.read.engine == "llama.cpp":
        return
    base = asked.start(room, asked.request)
    for setting in _settings(asked, base):
        others = list(asked.with_others(setting.values))
        best = min(others, key=setting.off, default=None)
        yield LeftOpen(
            name=setting.name,
            assumed=setting.assumed,
            other="" if best is None else _in_words(setting.name, best.request),
            with_other=best,
            nearer=best is not None and setting.off(best) < NEARER * setting.off(base),
            affects=frozenset(
                quantity
                for quantity, row in base.rows.items()
                if quantity in setting.parts or row.of_logged_memory
                if any(other.predicts(quantity) != base.predicts(quantity) for other in others)
            ),
        )


def _settings(asked: Asked, base: Start) -> Iterator[Setting]:
    def layout(start: Start) -> float:
        return _layout_off(asked, start)

    if not asked.states("tensor_parallel_size") and asked.request.tensor_parallel_size == 1:
        yield Setting(
            name="tensor_parallel_size",
            assumed="1",
            values=tuple({"tensor_parallel_size": ranks} for ranks in RANKS),
            parts=("weights",),
            off=lambda start: _off(start, "weights") + layout(start),
        )
    if not isinstance(base.room, EngineRoom):
        return
    if not asked.states("max_num_seqs"):
        most = base.room.reserve(asked.context).plan.settings.max_num_seqs
        yield Setting(
            name="max_num_seqs",
            assumed=f"the default of {most:,}",
            values=tuple({"max_num_seqs": other} for other in SEQUENCES if other != most),
            parts=PARTS,
            off=_profile_off,
        )
    if asked.states("kv_cache_dtype") or not layout(base):
        return
    caches: tuple[dict[str, Any], ...] = ({"kv_cache_dtype": "fp8"},)
    if not asked.model.shape.draft_groups or asked.states("speculative_method"):
        yield Setting(name="kv_cache_dtype", assumed="auto", values=caches, parts=(), off=layout)
        return
    drafts = tuple(
        {"kv_cache_dtype": cache, "speculative_method": "mtp", "num_speculative_tokens": drafted}
        for cache in ("auto", "fp8")
        for drafted in DRAFTED
    )
    yield Setting(
        name="kv_cache_dtype and speculation",
        assumed="auto and none",
        values=caches + drafts,
        parts=(),
        off=layout,
    )


def _in_words(name: str, request: ConcurrencyBody) -> str:
    if name in ConcurrencyBody.model_fields:
        value = getattr(request, name)
        return f"{value:,}" if isinstance(value, int) else value
    drafted = request.num_speculative_tokens
    return f"{request.kv_cache_dtype} and {f'{drafted} tokens of mtp' if drafted else 'none'}"


def _off(start: Start, quantity: str) -> float:
    """How many times a figure is more or less than the log's, as a logarithm; 0 where the log has
    none.
    """
    row = start.rows.get(quantity)
    if row is None or not row.measured or row.predicted is None or row.agrees:
        return 0.0
    return abs(log(row.predicted / row.measured)) if row.predicted * row.measured > 0 else inf


def _profile_off(start: Start) -> float:
    if "activation" in start.parts.measured:
        return _off(start, "activation")
    return start.parts.unexplained


def _layout_off(asked: Asked, start: Start) -> float:
    """How far the cache's layout is from the log's: counts in its memory, and blocks of states."""
    counted = [row for row in start.rows.values() if row.of_logged_memory and not row.as_laid_out]
    off = max((_off(start, row.quantity) for row in counted), default=0.0)
    stated, planned = asked.read.settings.block_size, start.block_size
    if stated is not None and planned is not None and stated > LARGEST_BLOCK:
        off += abs(log(planned / stated))
    return off
