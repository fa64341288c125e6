"""Templates of an engine's log lines: patterns that are anchored and bounded.

A template is the engine's own sentence with holes: `Model loading took {weights:GiB} GiB`. A hole
is `{name:kind}`; `{...}` passes over a short stretch of the line. A space stands for any white
space, a line's end included, since terminals wrap. A template is looked for by its words before
the first hole, and its pattern tried only there: the time is linear in the text.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cache

MAX_HITS = 4096
"""Places of one template that are looked at; a log that has more is no startup log."""

MOST_BYTES, MOST_COUNTED = 2**50, 10**15
_COUNT = r"\d{1,19}+(?:[,_]\d{3}){0,6}+(?:\.\d{1,12}+)?+"
_NUMBER = "-?" + _COUNT
_SKIP = r"[^\n]{0,600}?"
_HOLE = re.compile(r"\{(?:\.\.\.|(?P<name>[a-z_0-9]+):(?P<kind>[A-Za-z]+))\}")


@dataclass(frozen=True, slots=True)
class Size:
    """Bytes as a log prints them.

    Attributes:
        bytes: The printed figure, to the nearest byte.
        rounding: Half of its last digit: the true figure is no further away than this.
    """

    bytes: int
    rounding: int = 0


Value = Size | int | float | str


def _size(unit: int) -> Callable[[str], Size]:
    def read(text: str) -> Size:
        number = _decimal(text)
        exponent = number.as_tuple().exponent
        decimals = max(2, -exponent if isinstance(exponent, int) else 0)
        return Size(round(number * unit), round(Decimal(unit) / 2 / 10**decimals))

    return read


def _decimal(text: str) -> Decimal:
    return Decimal(text.replace(",", "").replace("_", ""))


def _possible(value: Value) -> bool:
    if isinstance(value, Size):
        return abs(value.bytes) <= MOST_BYTES
    return isinstance(value, str) or abs(value) <= MOST_COUNTED


_KINDS: dict[str, tuple[str, Callable[[str], Value]]] = {
    # Engines that print GB and MB divide by powers of two all the same.
    "GiB": (_NUMBER, _size(2**30)),
    "GB": (_NUMBER, _size(2**30)),
    "MiB": (_NUMBER, _size(2**20)),
    "MB": (_NUMBER, _size(2**20)),
    "int": (_COUNT, lambda text: int(_decimal(text))),
    "float": (_NUMBER, lambda text: float(_decimal(text))),
    "word": (r"[\w./:+-]{1,200}+", str),
    "text": (r"[^\n]{1,200}?", str),
}


@dataclass(frozen=True, slots=True)
class Template:
    """A template, whose pattern is compiled when a text has its words.

    Attributes:
        needle: The words before the first hole.
        source: The whole as a pattern, to be matched where the needle stands.
        kinds: What the holes hold.
    """

    needle: str
    source: str
    kinds: tuple[tuple[str, str], ...]

    @property
    def pattern(self) -> re.Pattern[str]:
        """The pattern, compiled once."""
        return _compiled(self.source)

    def values(self, match: re.Match[str]) -> dict[str, Value] | None:
        """What stands in the holes; None where a figure is beyond any machine."""
        values = {name: _KINDS[kind][1](match[name]) for name, kind in self.kinds}
        return values if all(map(_possible, values.values())) else None


@dataclass(frozen=True, slots=True)
class Hit:
    """What a template that fits says, and where."""

    at: int
    values: dict[str, Value]


@cache
def _compiled(source: str) -> re.Pattern[str]:
    return re.compile(source)


def template(line: str) -> Template:
    """Read a template.

    Raises:
        ValueError: without words before its first hole.
    """
    pattern, kinds, end = "", [], 0
    for hole in _HOLE.finditer(line):
        pattern += _literal(line[end : hole.start()])
        if name := hole["name"]:
            kinds.append((name, hole["kind"]))
            pattern += f"(?P<{name}>{_KINDS[hole['kind']][0]})"
        else:
            pattern += _SKIP
        end = hole.end()
    pattern += _literal(line[end:])
    # Signs of equality stand in columns, with any number of spaces before them.
    needle = _HOLE.split(line, maxsplit=1)[0].partition(" =")[0].rstrip()
    if not needle:
        raise ValueError(f"nothing to look for in {line!r}")
    return Template(needle, pattern, tuple(kinds))


def templates(*lines: str) -> tuple[Template, ...]:
    """Read several."""
    return tuple(map(template, lines))


def _literal(text: str) -> str:
    return re.sub(r"(?:\\ )+", r"\\s{0,40}+", re.escape(text))


def hits(text: str, wanted: tuple[Template, ...]) -> list[Hit]:
    """Where the templates fit, in the order of the text."""
    by_needle: dict[str, list[Template]] = {}
    for one in wanted:
        by_needle.setdefault(one.needle, []).append(one)
    found = [
        Hit(at, values)
        for needle, alike in by_needle.items()
        for at in places(text, needle, MAX_HITS)
        for fitting in alike
        if (match := fitting.pattern.match(text, at)) and (values := fitting.values(match))
    ]
    return sorted(found, key=lambda hit: hit.at)


def places(text: str, word: str, most: int) -> Iterator[int]:
    """Where a word stands, so many times at most."""
    at = text.find(word)
    while at >= 0 and most > 0:
        most -= 1
        yield at
        at = text.find(word, at + len(word))
