"""Which modules a quantisation config means: names, names with wildcards, patterns.

The inventory names a module once for all layers and experts ("model.layers.{layer}.mlp.up_proj");
configs name each, often thousands of them. So names are kept with their numbers taken out
("layers.#.mlp.up_proj": 0, 1, 2, ...) and one look-up settles all layers.

Wrappers move between versions of the same model ("model.language_model.layers.0" and
"language_model.model.layers.0"), so they do not count; a name stands for all that is beneath it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from app.core.inventory import Weight
from app.core.patterns import Fuel, Matcher, compile_patterns, glob_pattern, refused

WRAPPERS = frozenset(
    ("model", "language_model", "text_model", "llm", "thinker", "transformer", "backbone")
)
LAYER = "{layer}"
EXPERT = "{expert}"
NUMBER = "#"
DIGITS = "0123456789"
REGEX = "re:"
MAX_LOOSE = 4_096

_COUNTED = re.compile(r"(?<![^.])(?:[0-9]{1,9}|\{layer\}|\{expert\})(?![^.])")
"""A component that is a number, or stands for one in the inventory."""

Copies = Mapping[int, frozenset[int] | None]
"""Copies of a weight: its layers (`OUTSIDE` for what stands outside them), and in each the
experts; None means all of them.
"""
OUTSIDE = -1
NOTHING: Copies = {}

_Numbers = tuple[int | str, ...]
_State = tuple[int, ...]


def all_copies(weight: Weight) -> Copies:
    """Every copy of a weight."""
    return dict.fromkeys(weight.layers if weight.layers is not None else (OUTSIDE,))


@dataclass(frozen=True, slots=True)
class _Template:
    """An inventory name: without wrappers and numbers, and what stood in the numbers' places."""

    text: str
    slots: _Numbers
    spelled: tuple[str, ...]
    """The name as published, and as other versions wrap it."""
    beginnings: tuple[str, ...]
    """`text` cut after each of its components."""


@lru_cache(maxsize=4096)
def _template(name: str) -> _Template:
    bare = _unwrapped(name)
    text, slots = _numbers_out(bare)
    components = text.split(".")
    spelled = [name]
    if bare != name or name.startswith("layers."):
        wraps = ("model.", "language_model.model.", "model.language_model.", "")
        spelled += [wrap + bare for wrap in wraps if wrap + bare != name]
    return _Template(
        text,
        slots,
        tuple(spelled),
        tuple(".".join(components[:end]) for end in range(1, len(components) + 1)),
    )


def _unwrapped(name: str) -> str:
    """The name from where its wrappers end; at least its last component is kept."""
    start = 0
    while (end := name.find(".", start)) >= 0 and name[start:end] in WRAPPERS:
        start = end + 1
    return name[start:]


def _numbers_out(name: str) -> tuple[str, _Numbers]:
    numbers = _COUNTED.findall(name)
    if not numbers:
        return name, ()
    return _COUNTED.sub(NUMBER, name), tuple(int(n) if n[0] != "{" else n for n in numbers)


def _merged(weight: Weight) -> tuple[_Template, ...]:
    """The engine's merged parameter, by whose name some configs call its parts ("qkv_proj")."""
    if weight.fused is None:
        return ()
    before, _, last = weight.name.rpartition(".")
    return () if last == weight.fused else (_template(f"{before}.{weight.fused}"),)


class ModuleNames:
    """A set of modules.

    `names` are entries of a config: plain names; names with `*` and `?`; patterns behind "re:".
    With `anywhere`, a plain name without numbers ("lm_head", "visual", "mlp.gate") also means
    modules that have it further down in their own name.
    """

    __slots__ = ("_anywhere", "_matchers", "_named", "_prefixes")

    def __init__(
        self, names: Iterable[str], *, anywhere: bool = False, fuel: Fuel | None = None
    ) -> None:
        self._named: dict[str, list[_Numbers]] = {}
        self._prefixes: dict[str, list[_Numbers]] = {}
        loose: dict[str, None] = {}
        patterns: list[str] = []
        for name in names:
            if name.startswith(REGEX):
                patterns.append(name.removeprefix(REGEX))
                continue
            head = name.rstrip("*")
            if "*" in head or "?" in head or "[" in head:
                patterns.append(glob_pattern(name))
                continue
            bare = _unwrapped(head)
            if head and not bare:  # "model.*" does not mean the head beside it.
                patterns.append(glob_pattern(name))
                continue
            if head != name:
                self._add_prefix(bare)
                continue
            text, numbers = _numbers_out(bare)
            self._named.setdefault(text, []).append(numbers)
            if anywhere and not numbers:
                loose[f".{text}."] = None
        self._anywhere = tuple(loose)
        if len(loose) + len(self._prefixes) > MAX_LOOSE:
            raise refused(f"more than {MAX_LOOSE} names are to be looked for within others")
        self._matchers: tuple[Matcher, ...] = ()
        if patterns:
            self._matchers = compile_patterns(dict.fromkeys(patterns), fuel or Fuel())

    def _add_prefix(self, bare: str) -> None:
        """`layers.3.mlp*`; in `layers.3*` the 3 may be the beginning of 30."""
        text, numbers = _numbers_out(bare)
        if text.endswith(NUMBER):
            numbers = (*numbers[:-1], str(numbers[-1]))
        self._prefixes.setdefault(text, []).append(numbers)

    def copies_of(self, weight: Weight) -> Copies | None:
        """The copies of a weight that are in the set; None for all of them."""
        template = _template(weight.name)
        found: dict[int, frozenset[int] | None] = {}
        for form in (template, *_merged(weight)):
            for numbers in self._entries(form):
                if not numbers:
                    return None
                _join(found, _numbered(numbers, form.slots, weight))
        for spelled in template.spelled if self._matchers else ():
            for matcher in self._matchers:
                _join(found, _matched(matcher, spelled, weight))
            if len(found) == weight.occurrences and not any(found.values()):
                return None
        return found

    def _entries(self, template: _Template) -> Iterator[list[_Numbers] | None]:
        for beginning in template.beginnings:
            named = self._named.get(beginning)
            if named is not None:
                yield named if named[0] else None
        for prefix, numbers in self._prefixes.items():
            if template.text.startswith(prefix):
                yield numbers if numbers[0] else None
        if self._anywhere:
            within = f".{template.text}."
            for text in self._anywhere:
                if text in within:
                    yield None


def _join(found: dict[int, frozenset[int] | None], more: Copies) -> None:
    for layer, experts in more.items():
        present = found.get(layer, frozenset())
        found[layer] = None if present is None or experts is None else present | experts


def _numbered(entries: list[_Numbers], slots: _Numbers, weight: Weight) -> Copies:
    """The copies whose numbers, as far as an entry gives them, are those of the entry."""
    layers = weight.layers if weight.layers is not None else (OUTSIDE,)
    places = {slot: place for place, slot in enumerate(slots)}
    layer_at, expert_at = places.get(LAYER), places.get(EXPERT)
    fixed = [(place, slot) for place, slot in enumerate(slots) if isinstance(slot, int)]
    whole: set[int] = set()
    some: dict[int, set[int]] = {}
    known = set(layers)
    for numbers in entries:
        if fixed and any(
            place < len(numbers) and slot not in _meant(numbers[place], (slot,))
            for place, slot in fixed
        ):
            continue
        at = numbers[layer_at] if layer_at is not None and layer_at < len(numbers) else None
        meant = layers if at is None else (at,) if isinstance(at, int) else _meant(at, layers)
        if expert_at is None or expert_at >= len(numbers):
            whole.update(meant)
            continue
        expert = numbers[expert_at]
        experts = (expert,) if isinstance(expert, int) else _meant(expert, range(weight.experts))
        for layer in meant:
            if layer in known:
                some.setdefault(layer, set()).update(experts)
    found: dict[int, frozenset[int] | None] = dict.fromkeys(whole & known)
    for layer, members in some.items():
        if layer not in found:
            found[layer] = None if len(members) >= weight.experts else frozenset(members)
    return found


def _meant(number: int | str, among: Iterable[int]) -> Iterable[int]:
    """The number an entry gives, or those of `among` that begin with its digits."""
    if isinstance(number, int):
        return (number,)
    return [index for index in among if str(index).startswith(number)]


def _matched(matcher: Matcher, spelled: str, weight: Weight) -> Copies:
    """The copies whose names a matcher takes: numbers are run through it, not whole names."""
    before, layered, after = spelled.partition(LAYER)
    if not layered:
        experts = _experts(matcher, matcher.start, before, weight)
        return NOTHING if experts == frozenset() else {OUTSIDE: experts}
    start = matcher.run(matcher.start, before)
    found: dict[int, frozenset[int] | None] = {}
    for state, layers in _after_numbers(matcher, start, weight.layers or ()).items():
        experts = _experts(matcher, state, after, weight)
        if experts != frozenset():
            found.update(dict.fromkeys(layers, experts))
    return found


def _after_numbers(
    matcher: Matcher, start: _State, numbers: Iterable[int]
) -> dict[_State, list[int]]:
    """Numbers by the state that reading them leads to."""
    reached = {matcher.run(start, digit) for digit in DIGITS}
    if len(reached) == 1:  # Most patterns do not look at numbers: one digit is like another.
        (state,) = reached
        if all(matcher.run(state, digit) == state for digit in DIGITS):
            return {state: list(numbers)}
    found: dict[_State, list[int]] = {}
    for number in numbers:
        found.setdefault(matcher.run(start, str(number)), []).append(number)
    return found


def _experts(matcher: Matcher, state: _State, rest: str, weight: Weight) -> frozenset[int] | None:
    """The experts taken where `rest` follows; None for all of them."""
    before, each, after = rest.partition(EXPERT)
    state = matcher.run(state, before)
    if not each:
        return None if matcher.accepts(matcher.run(state, after)) else frozenset()
    taken: list[int] = []
    for here, experts in _after_numbers(matcher, state, range(weight.experts)).items():
        if matcher.accepts(matcher.run(here, after)):
            taken += experts
    return None if len(taken) == weight.experts else frozenset(taken)
