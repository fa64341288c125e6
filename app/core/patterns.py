"""Regular expressions out of somebody else's config, in time that is bounded.

A pattern is read into an automaton whose states are made as names need them: no backtracking, so
no pattern takes exponential time, and what patterns cost together is limited by `Fuel`. The subset
covers what quantisation configs hold: literals, `.`, classes, groups, alternatives, repetition,
`^`, `$`, and looks ahead at the start of a pattern. Anything else is refused by name.

As with `re.match`, a pattern has to match from the start of a name, and what follows is free.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NoReturn

from app.errors import InputError

END = "\0"
MAX_PATTERN = 512
MAX_REPEAT = 32
MAX_DEPTH = 16
NODE_COST = 16
SHOWN = 60
FUEL = 1_000_000

_DIGITS = frozenset("0123456789")
_WORD = _DIGITS | frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
_SPACE = frozenset(" \t\n\r\f\v")
_CLASSES = {"d": _DIGITS, "w": _WORD, "s": _SPACE}
REPEATS: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
QUANTIFIERS = "*+?{"
_BOUNDS = re.compile(r"([0-9]{1,2})(,([0-9]{0,2}))?\}")


def refused(why: str) -> InputError:
    """The error of a pattern that is not read here, or of patterns that cost too much."""
    return InputError.of("config.quantization_config", why, type="pattern")


@dataclass(frozen=True, slots=True)
class Chars:
    """A set of characters, or everything but it."""

    members: frozenset[str]
    negated: bool = False

    def __contains__(self, char: str) -> bool:
        return (char in self.members) != self.negated


ANY = Chars(frozenset(END), True)
ACCEPT = 0


class Fuel:
    """What all patterns together may cost, in visits to nodes."""

    __slots__ = ("left",)

    def __init__(self, left: int = FUEL) -> None:
        self.left = left

    def burn(self, amount: int) -> None:
        """Take `amount`; `InputError` when nothing is left."""
        self.left -= amount
        if self.left < 0:
            raise refused("the patterns are too intricate to be matched in bounded time")


class _Nodes:
    """The automaton's nodes: each either reads one of `chars` and goes on, or forks for free."""

    def __init__(self, fuel: Fuel) -> None:
        self._fuel = fuel
        self.chars: list[Chars | None] = [None]
        self.next: list[list[int]] = [[]]

    def add(self, chars: Chars | None, *targets: int) -> int:
        self._fuel.burn(NODE_COST)
        self.chars.append(chars)
        self.next.append(list(targets))
        return len(self.chars) - 1


class Automaton:
    """Patterns of which any may match, run together. State 0 means that one has matched."""

    def __init__(self, patterns: "Iterable[Build]", fuel: Fuel) -> None:
        nodes = self._nodes = _Nodes(fuel)
        self._fuel = fuel
        self._ids: dict[frozenset[int], int] = {frozenset((ACCEPT,)): ACCEPT}
        self._sets: list[frozenset[int]] = [frozenset((ACCEPT,))]
        self._steps: dict[tuple[int, str], int] = {}
        self.start = self._state([build(nodes, ACCEPT) for build in patterns])

    def run(self, state: int, text: str) -> int:
        """The state after `text`."""
        steps = self._steps
        for char in text:
            if state == ACCEPT:
                return ACCEPT
            following = steps.get((state, char))
            state = self._step(state, char) if following is None else following
        return state

    def accepts(self, state: int) -> bool:
        """Whether a name that ends in this state is matched."""
        return self.run(state, END) == ACCEPT

    def _step(self, state: int, char: str) -> int:
        nodes, members = self._nodes, self._sets[state]
        self._fuel.burn(len(members) + 1)
        reached: list[int] = []
        for node in members:
            chars = nodes.chars[node]
            if chars is not None and char in chars:
                reached += nodes.next[node]
        following = self._steps[state, char] = self._state(reached)
        return following

    def _state(self, nodes: Iterable[int]) -> int:
        """The state of these nodes and of all that is reached from them for free."""
        seen: set[int] = set()
        stack = list(nodes)
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            if self._nodes.chars[node] is None:
                stack += self._nodes.next[node]
        self._fuel.burn(len(seen) + 1)
        if ACCEPT in seen:
            return ACCEPT
        members = frozenset(seen)
        known = self._ids.get(members)
        if known is None:
            known = self._ids[members] = len(self._sets)
            self._sets.append(members)
        return known


Build = Callable[[_Nodes, int], int]
"""Adds the nodes of a piece of a pattern before a given node; returns where the piece starts."""


@dataclass(slots=True)
class _Reader:
    """Recursive descent over one pattern."""

    text: str
    at: int = 0
    depth: int = 0

    def fail(self, why: str) -> NoReturn:
        shown = self.text if len(self.text) <= SHOWN else f"{self.text[:SHOWN]}..."
        raise refused(f"pattern {shown!r}: {why}")

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def take(self) -> str:
        char = self.peek()
        self.at += 1
        return char

    def close_group(self) -> None:
        if self.take() != ")":
            self.fail("a group is not closed")


def _chars(chars: Chars) -> Build:
    return lambda nodes, follow: nodes.add(chars, follow)


def _alternatives(reader: _Reader) -> Build:
    reader.depth += 1
    if reader.depth > MAX_DEPTH:
        reader.fail(f"is nested deeper than {MAX_DEPTH}")
    branches = [_sequence(reader)]
    while reader.peek() == "|":
        reader.take()
        branches.append(_sequence(reader))
    reader.depth -= 1
    if len(branches) == 1:
        return branches[0]
    return lambda nodes, follow: nodes.add(None, *[build(nodes, follow) for build in branches])


def _sequence(reader: _Reader) -> Build:
    items: list[Build] = []
    while reader.peek() and reader.peek() not in "|)":
        if reader.peek() == "^":
            if items:
                reader.fail("'^' stands after something")
            reader.take()
            continue
        items.append(_repeated(reader, _atom(reader)))

    def build(nodes: _Nodes, follow: int) -> int:
        for item in reversed(items):
            follow = item(nodes, follow)
        return follow

    return build


def _atom(reader: _Reader) -> Build:
    char = reader.take()
    if char == "(":
        if reader.peek() == "?":
            if not reader.text.startswith("?:", reader.at):
                reader.fail("of the groups that begin with '?' only '(?:' is read here")
            reader.at += 2
        inner = _alternatives(reader)
        reader.close_group()
        return inner
    if char == "[":
        return _chars(_char_class(reader))
    if char == ".":
        return _chars(ANY)
    if char == "$":
        if reader.peek() and reader.peek() not in "|)":
            reader.fail("'$' stands before something")
        return _chars(Chars(frozenset(END)))
    if char == "\\":
        return _chars(_escape(reader))
    if char in QUANTIFIERS:
        reader.fail(f"nothing stands before {char!r}")
    return _chars(Chars(frozenset(char)))


def _escape(reader: _Reader) -> Chars:
    char = reader.take()
    members = _CLASSES.get(char.lower())
    if members is not None:
        return Chars(members | {END}, True) if char.isupper() else Chars(members)
    if not char or char.isalnum():
        reader.fail(f"the escape '\\{char}' is not read here")
    return Chars(frozenset(char))


def _char_class(reader: _Reader) -> Chars:
    negated = reader.peek() == "^"
    if negated:
        reader.take()
    members: set[str] = set()
    first = True
    while first or reader.peek() != "]":
        first = False
        char = reader.take()
        if not char:
            reader.fail("a class is not closed")
        if char == "\\":
            found = _escape(reader)
            if found.negated:
                reader.fail("a negated class inside a class is not read here")
            members |= found.members
        elif reader.peek() == "-" and reader.text[reader.at + 1 : reader.at + 2] not in ("]", ""):
            reader.take()
            members.update(_span(reader, char, reader.take()))
        else:
            members.add(char)
    reader.take()
    return Chars(frozenset(members | {END}), True) if negated else Chars(frozenset(members))


def _span(reader: _Reader, low: str, high: str) -> Iterable[str]:
    if not low.isascii() or not high.isascii() or low > high or high == "\\":
        reader.fail(f"the range {low}-{high} is not read here")
    return (chr(code) for code in range(ord(low), ord(high) + 1))


def _repeated(reader: _Reader, item: Build) -> Build:
    char = reader.take() if reader.peek() and reader.peek() in QUANTIFIERS else ""
    if not char:
        return item
    low, high = _bounds(reader) if char == "{" else REPEATS[char]
    if reader.peek() == "?":  # The shortest match first: all the same here.
        reader.take()
    if reader.peek() and reader.peek() in QUANTIFIERS:
        reader.fail("a repetition is repeated")

    def build(nodes: _Nodes, follow: int) -> int:
        if high is None:
            loop = nodes.add(None)
            nodes.next[loop] += [item(nodes, loop), follow]
            follow = loop
        else:
            for _ in range(high - low):
                follow = nodes.add(None, item(nodes, follow), follow)
        for _ in range(low):
            follow = item(nodes, follow)
        return follow

    return build


def _bounds(reader: _Reader) -> tuple[int, int | None]:
    found = _BOUNDS.match(reader.text, reader.at)
    if found is None:
        reader.fail("a repetition in braces is not read here")
    reader.at = found.end()
    low = int(found[1])
    high = low if found[2] is None else int(found[3]) if found[3] else None
    if max(low, high or 0) > MAX_REPEAT or (high is not None and high < low):
        reader.fail(f"a repetition is not within 0 to {MAX_REPEAT}")
    return low, high


@dataclass(frozen=True, kw_only=True, slots=True)
class Matcher:
    """Patterns, any of which may match, unless one of `unless` does; all of `given` have to."""

    main: Automaton
    given: tuple[Automaton, ...] = ()
    unless: tuple[Automaton, ...] = ()

    @property
    def start(self) -> tuple[int, ...]:
        """The state before the first character."""
        return (self.main.start, *(a.start for a in (*self.given, *self.unless)))

    def run(self, state: tuple[int, ...], text: str) -> tuple[int, ...]:
        """The state after `text`."""
        automata = (self.main, *self.given, *self.unless)
        return tuple(a.run(s, text) for a, s in zip(automata, state, strict=True))

    def accepts(self, state: tuple[int, ...]) -> bool:
        """Whether a name that ends in this state is matched."""
        must = 1 + len(self.given)
        automata = (self.main, *self.given, *self.unless)
        verdicts = [a.accepts(s) for a, s in zip(automata, state, strict=True)]
        return all(verdicts[:must]) and not any(verdicts[must:])

    def matches(self, text: str) -> bool:
        """Whether `text` is matched."""
        return self.accepts(self.run(self.start, text))


def compile_patterns(patterns: Iterable[str], fuel: Fuel) -> tuple[Matcher, ...]:
    """Matchers for patterns: one for all plain ones, one each for those that look ahead.

    Raises `InputError` for one outside the subset.
    """
    plain: list[Build] = []
    found: list[Matcher] = []
    for pattern in patterns:
        if len(pattern) > MAX_PATTERN:
            raise refused(f"a pattern is longer than {MAX_PATTERN} characters")
        if "(?=" in pattern or "(?!" in pattern:
            found.append(_looking_ahead(pattern, fuel))
        else:
            plain.append(_whole(_Reader(pattern)))
    if plain:
        found.insert(0, Matcher(main=Automaton(plain, fuel)))
    return tuple(found)


def _whole(reader: _Reader) -> Build:
    build = _alternatives(reader)
    if reader.peek():
        reader.fail("a group is closed that was not opened")
    return build


def _looking_ahead(pattern: str, fuel: Fuel) -> Matcher:
    """A pattern that begins with looks ahead: `^(?!.*experts).*proj`."""
    reader = _Reader(pattern)
    if reader.peek() == "^":
        reader.take()
    asides: dict[str, list[Automaton]] = {"(?=": [], "(?!": []}
    while (kind := pattern[reader.at : reader.at + 3]) in asides:
        reader.at += 3
        asides[kind].append(Automaton([_alternatives(reader)], fuel))
        reader.close_group()
    return Matcher(
        main=Automaton([_whole(reader)], fuel),
        given=tuple(asides["(?="]),
        unless=tuple(asides["(?!"]),
    )


def glob_pattern(glob: str) -> str:
    """A shell pattern as one of ours, for a module's whole name or that of one above it."""
    kept = {"*": ".*", "?": "."}
    escaped = (kept.get(c) or (c if c.isalnum() or c == "_" else f"\\{c}") for c in glob)
    return "".join(escaped) + r"(\..*)?$"
