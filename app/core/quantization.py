"""A quantisation scheme: which matrices of a model are stored how.

A scheme is a list of rules, of which the first that takes a copy of a weight decides; what none
takes stays in the model's own precision. Embeddings, norms, routers and everything else that is no
matrix of a linear layer is never touched, unless a rule says so.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import prod

from app.core.formats import Format
from app.core.inventory import Part, Weight
from app.core.module_names import NOTHING, OUTSIDE, Copies, ModuleNames, all_copies
from app.core.precision import Precision
from app.core.weights import Stored, StoredBytes, plainly_stored

LANGUAGE = frozenset(Part) - {Part.VISION, Part.AUDIO, Part.PROJECTOR, Part.MTP}
"""What quantisers see that work on the language model alone."""
MATRIX_DIMS = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """Matrices that are stored as `format`, or left as they are where it is None.

    `names` and `parts` say which, None meaning all; `in_layers` leaves out what stands outside the
    layers (the head); `also` are parts whose matrices are taken though they are no linear layers
    (embedding tables, routers).
    """

    format: Format | None
    names: ModuleNames | None = None
    parts: frozenset[Part] | None = None
    in_layers: bool = False
    also: frozenset[Part] = frozenset()

    def copies_of(self, weight: Weight) -> Copies | None:
        """The copies of a weight that the rule takes; None for all of them."""
        if not (weight.linear or weight.part in self.also) or len(weight.shape) < MATRIX_DIMS:
            return NOTHING
        if self.parts is not None and weight.part not in self.parts:
            return NOTHING
        if self.in_layers and weight.layers is None:
            return NOTHING
        if self.format is not None and not self.format.takes(*_matrix(weight)):
            return NOTHING
        return None if self.names is None else self.names.copies_of(weight)


@dataclass(frozen=True, kw_only=True, slots=True)
class Scheme:
    """How a checkpoint is quantised.

    `name` is its method in the ecosystem's words. `stores_prediction` is false where the tool that
    wrote the checkpoint loads models without their multi-token prediction, which is then lost.
    """

    name: str
    rules: tuple[Rule, ...]
    stores_prediction: bool = True
    assumptions: tuple[str, ...] = ()


def scheme_storage(scheme: Scheme, precision: Precision) -> StoredBytes:
    """Bytes under a scheme, with `precision` for what it leaves alone.

    Weights with a precision of their own (fp32 biases, experts in MXFP4) keep that.
    """
    known: dict[int, tuple[Weight, tuple[Stored, ...]]] = {}

    def stored(weight: Weight) -> tuple[Stored, ...]:
        kept = known.get(id(weight))
        if kept is None or kept[0] is not weight:
            kept = known[id(weight)] = (weight, _stored(scheme, weight, precision))
        return kept[1]

    return stored


def _stored(scheme: Scheme, weight: Weight, precision: Precision) -> tuple[Stored, ...]:
    if weight.part is Part.MTP and not scheme.stores_prediction:
        return ()
    plain = plainly_stored(weight, precision)
    if weight.dtype is not None:
        return (plain,)
    runs: list[Stored] = []
    for form, copies in _assigned(scheme.rules, weight):
        kind = plain
        if form is not None:
            kind = replace(plain, size=form.size(*_matrix(weight)), format=form.name)
        runs += [kind] if copies is None else _by_count(kind, copies)
    return tuple(runs)


def _matrix(weight: Weight) -> tuple[int, int]:
    return prod(weight.shape[:-1]), weight.shape[-1]


def _assigned(rules: Iterable[Rule], weight: Weight) -> list[tuple[Format | None, Copies | None]]:
    """Every copy of a weight once, with the format of the first rule that takes it."""
    left: Copies | None = None
    assigned: list[tuple[Format | None, Copies | None]] = []
    for rule in rules:
        taken = rule.copies_of(weight)
        if taken is None:
            return [*assigned, (rule.format, left)]
        if not taken:
            continue
        now, left = _divided(all_copies(weight) if left is None else left, taken, weight.experts)
        if now:
            assigned.append((rule.format, now))
        if not left:
            return assigned
    return [*assigned, (None, left)]


def _divided(left: Copies, taken: Copies, experts: int) -> tuple[Copies, Copies]:
    """What of `left` is in `taken`, and what is not."""
    now: dict[int, frozenset[int] | None] = {}
    rest: dict[int, frozenset[int] | None] = {}
    for layer, present in left.items():
        chosen = taken.get(layer, frozenset())
        if chosen is None:
            now[layer] = present
            continue
        have = frozenset(range(experts)) if present is None else present
        if have & chosen:
            now[layer] = have & chosen
        if have - chosen:
            rest[layer] = present if have.isdisjoint(chosen) else have - chosen
    return now, rest


def _by_count(kind: Stored, copies: Copies) -> list[Stored]:
    """`kind` for layers that have as many experts of it."""
    counted: dict[int, list[int]] = {}
    for layer, members in copies.items():
        counted.setdefault(kind.experts if members is None else len(members), []).append(layer)
    return [
        replace(kind, experts=count, layers=None if OUTSIDE in layers else tuple(layers))
        for count, layers in counted.items()
    ]
