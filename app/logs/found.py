"""What templates found in one run of an engine, by name and by process."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from app.logs.templates import Size, Value

Source = tuple[int, int]
"""Rank (its stage times 10,000 added) and process id, 0 where a line's prefix has none."""

T = TypeVar("T", Size, int, float, str)


@dataclass(frozen=True, slots=True)
class Line:
    """What one line says, and who wrote it."""

    source: Source
    values: Mapping[str, Value]


@dataclass(slots=True)
class Found:
    """Lines by the names of what they say, in the order of the log."""

    lines: dict[str, list[Line]] = field(default_factory=dict)

    def add(self, source: Source, values: Mapping[str, Value]) -> None:
        """Keep what a line says."""
        line = Line(source, values)
        for name in values:
            self.lines.setdefault(name, []).append(line)

    def first(self, name: str, kind: type[T]) -> T | None:
        """The value of the lowest rank, of its first line."""
        return next(iter(self.every(name, kind)), None)

    def last(self, name: str, kind: type[T]) -> T | None:
        """The value of the lowest rank, of its last line."""
        return next(iter(reversed(self.every(name, kind))), None)

    def every(self, name: str, kind: type[T], *, but_on: Collection[str] = ()) -> list[T]:
        """All values of the first process of the lowest rank; without those of some devices."""
        lines = self.lines.get(name, [])
        lowest = min((line.source[0] for line in lines), default=0)
        first = next((line.source for line in lines if line.source[0] == lowest), None)
        return [
            value
            for line in lines
            if line.source == first and line.values.get("device") not in but_on
            if isinstance(value := line.values[name], kind)
        ]

    def by_source(self, name: str) -> dict[Source, Size]:
        """The first size that each process gives."""
        sizes: dict[Source, Size] = {}
        for line in self.lines.get(name, []):
            value = line.values[name]
            if isinstance(value, Size):
                sizes.setdefault(line.source, value)
        return sizes

    def least(self, *names: str) -> Size | None:
        """The least over processes of the first of these that is given at all."""
        given = (self.by_source(name).values() for name in names if name in self.lines)
        return min(next(given, ()), key=lambda size: size.bytes, default=None)


def total_of(sizes: Iterable[Size]) -> Size | None:
    """The sum, with the roundings added up; None of nothing."""
    held = list(sizes)
    if not held:
        return None
    return Size(sum(s.bytes for s in held), sum(s.rounding for s in held))


def difference(left: Size | None, right: Size | None) -> Size | None:
    """`left - right`, with the roundings added up; None where one is missing."""
    if left is None or right is None:
        return None
    return Size(left.bytes - right.bytes, left.rounding + right.rounding)
