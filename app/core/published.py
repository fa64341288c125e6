"""A checkpoint's own total against the inventory: the total wins, the difference is reported.

A published total counts what a server does not load: multi-token-prediction modules, and a head
that is tied but stored all the same. Which of these it counts is told by which comes nearest.
"""

from dataclasses import dataclass, replace
from fractions import Fraction

from app.core.inventory import Weight
from app.core.model import ModelShape
from app.core.precision import FLOAT32
from app.core.weights import (
    Stored,
    StoredBytes,
    inventory_bytes,
    loaded_bytes,
    tied_head_bytes,
)

TOLERANCE = Fraction(1, 1000)
"""Differences above it are reported."""
SAME_MODEL = Fraction(2, 100)
"""How far a checkpoint in another precision may be from the inventory, but for the precision."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Published:
    """Weights as loaded, scaled to the published total, and what there is to say about it."""

    stored: StoredBytes
    notes: tuple[str, ...]


def published_storage(
    model: ModelShape, in_file: StoredBytes, loaded: StoredBytes, total: int, *, recast: bool
) -> Published:
    """`loaded` scaled so that its total follows from the checkpoint's.

    `in_file` is how the checkpoint should store the weights, `loaded` how an engine holds them.
    With `recast` the engine converts what it reads, so that a checkpoint of twice the size (half,
    where 32 bits are stated) is one in another precision, not one of other weights.
    """
    stated = model.checkpoint_dtype or model.dtype
    other = Fraction(2 if stated.bits < FLOAT32.bits else Fraction(1, 2))
    factors = (Fraction(1), other) if recast else (Fraction(1),)
    readings = [
        (Fraction(total) / (counted * factor), counted, factor)
        for counted in _could_be_stored(model, in_file)
        for factor in factors
        if counted
    ]
    if not readings:
        return Published(stored=loaded, notes=())
    ratio, counted, factor = min(readings, key=lambda reading: abs(reading[0] - 1))
    notes: list[str] = []
    if factor != 1 and abs(ratio - 1) > SAME_MODEL:
        ratio, factor = ratio * factor, Fraction(1)
    if factor != 1:
        notes.append(
            f"the checkpoint takes {total} bytes, {float(factor):g} times what its stated "
            "precision does: it is counted in the precision that engines load it in"
        )
    if abs(ratio - 1) > TOLERANCE:
        notes.append(
            f"the checkpoint's own total ({total} bytes) is {float(ratio - 1):+.2%} from the "
            f"{counted} bytes that its description comes to; the total is used"
        )
    return Published(stored=loaded if ratio == 1 else _scaled(loaded, ratio), notes=tuple(notes))


def _could_be_stored(model: ModelShape, in_file: StoredBytes) -> list[int]:
    """The totals a checkpoint of this model may have."""
    whole = inventory_bytes(model, in_file)
    served = loaded_bytes(model, in_file)
    tied = tied_head_bytes(model, in_file) if model.tie_word_embeddings else 0
    return [size + extra for size in (whole, served) for extra in (0, tied)]


def _scaled(stored: StoredBytes, factor: Fraction) -> StoredBytes:
    known: dict[int, tuple[Weight, tuple[Stored, ...]]] = {}

    def scaled(weight: Weight) -> tuple[Stored, ...]:
        kept = known.get(id(weight))
        if kept is None or kept[0] is not weight:
            runs = tuple(
                replace(run, size=run.size * factor, bias=run.bias * factor)
                for run in stored(weight)
            )
            kept = known[id(weight)] = (weight, runs)
        return kept[1]

    return scaled
