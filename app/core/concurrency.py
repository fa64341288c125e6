"""Formula (5): how many sequences a KV budget holds, and what to do when that is too few."""

from dataclasses import dataclass
from fractions import Fraction

from app.core.load import ReplicaLoad, Stage


def max_concurrency(kv_budget_bytes: int, kv_bytes_per_sequence: int) -> Fraction:
    """Formula (5): budget / bytes of one sequence, the fraction kept; 0 without a budget.

    Both in bytes of the same GPU. Raises ZeroDivisionError for a model that keeps nothing, which
    callers exclude (nothing limits its concurrency but the engine).
    """
    return Fraction(max(kv_budget_bytes, 0), kv_bytes_per_sequence)


@dataclass(frozen=True, kw_only=True, slots=True)
class Capacity:
    """What one replica holds at one context, on the GPU that holds least.

    Bytes are that GPU's. `sequences` is None where the model keeps nothing per sequence.
    """

    context: int
    kv_budget_bytes: int
    kv_bytes_per_sequence: int
    weight_bytes: int
    sequences: Fraction | None

    @property
    def whole_sequences(self) -> int | None:
        """Whole sequences; the fraction is dropped."""
        return None if self.sequences is None else int(self.sequences)


def capacity_at(load: ReplicaLoad, context: int, budgets: tuple[int, ...]) -> Capacity:
    """The capacity of the stage with the least room; `budgets` are bytes per GPU, one a stage."""
    capacities = [
        _capacity(stage, context, budget)
        for stage, budget in zip(load.stages, budgets, strict=True)
    ]
    return min(capacities, key=_room)


def _capacity(stage: Stage, context: int, kv_budget_bytes: int) -> Capacity:
    per_sequence = stage.profile.bytes_per_sequence(context)
    return Capacity(
        context=context,
        kv_budget_bytes=kv_budget_bytes,
        kv_bytes_per_sequence=per_sequence,
        weight_bytes=stage.weight_bytes,
        sequences=max_concurrency(kv_budget_bytes, per_sequence) if per_sequence else None,
    )


def _room(capacity: Capacity) -> tuple[bool, Fraction, int]:
    sequences = capacity.sequences
    return (sequences is None, sequences or Fraction(0), capacity.kv_budget_bytes)


def longest_context(load: ReplicaLoad, budgets: tuple[int, ...], *, at_most: int) -> int:
    """The longest context of which one sequence fits on every stage, 0 where none does."""
    return min(
        stage.profile.longest_context(budget, at_most=at_most)
        for stage, budget in zip(load.stages, budgets, strict=True)
    )
