"""Formula (7): where reading the KV cache costs as much as reading the weights.

For a dense model with plain attention the curve is the hyperbola context x batch = weights /
KV per token. A mixture of experts reads more weights the larger the batch, and a windowed model's
cache is no straight line in the context; both are solved on their own terms.
"""

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Literal

from app.core.kv import KvProfile
from app.core.weights import StepWeights

MAX_BATCH = 2**40


class Dominance(StrEnum):
    """Which of the two a step spends more bytes on."""

    WEIGHTS = "weights"
    KV = "kv"


def crossover_token_slots(weight_bytes: int, kv_bytes_per_token: Fraction) -> int | None:
    """Formula (7): context x batch at which both are equal, fraction dropped.

    None for a model that adds nothing per token (recurrent, or all windows): no context reaches it.
    """
    if not kv_bytes_per_token:
        return None
    return weight_bytes * kv_bytes_per_token.denominator // kv_bytes_per_token.numerator


def crossover_context(weights: StepWeights, profile: KvProfile, batch: int) -> int | None:
    """The context at which a batch's cache equals the weights it reads, fraction dropped."""
    return profile.context_reaching(weights.bytes_for(batch), batch)


def crossover_batch(weights: StepWeights, profile: KvProfile, context: int) -> int | None:
    """The largest batch whose cache stays within the weights it reads, fraction dropped.

    Weights read are concave in the batch and the cache is a straight line through 0, so there is
    one crossing. 0 where one sequence's cache exceeds the weights; None where no cache is kept.
    """
    per_sequence = profile.bytes_per_sequence(context)
    if per_sequence == 0:
        return None
    if not weights.routed:
        return weights.always_bytes // per_sequence
    low, high = 0, max(1, min(MAX_BATCH, weights.all_bytes // per_sequence + 1))
    while low < high:
        middle = (low + high + 1) // 2
        if per_sequence * middle <= weights.bytes_for(middle):
            low = middle
        else:
            high = middle - 1
    return low


def dominance(weight_bytes: int, kv_bytes: int) -> Dominance:
    """The larger of the two; at equality the weights."""
    return Dominance.KV if kv_bytes > weight_bytes else Dominance.WEIGHTS


@dataclass(frozen=True, kw_only=True, slots=True)
class Speedup:
    """How much shorter a memory-bound step gets, as a factor."""

    weight_quantisation: float
    kv_quantisation: float

    @property
    def prioritise(self) -> Literal["weight_quantisation", "kv_quantisation"]:
        """The optimisation that gives more."""
        if self.kv_quantisation > self.weight_quantisation:
            return "kv_quantisation"
        return "weight_quantisation"


def quantisation_speedup(
    *, weight_bytes: int, kv_bytes: int, quantised_weight_bytes: int, quantised_kv_bytes: int
) -> Speedup:
    """Step bytes before over step bytes after, quantising one of the two."""
    before = weight_bytes + kv_bytes
    return Speedup(
        weight_quantisation=before / max(1, quantised_weight_bytes + kv_bytes),
        kv_quantisation=before / max(1, weight_bytes + quantised_kv_bytes),
    )
