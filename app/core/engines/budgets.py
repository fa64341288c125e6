"""What an engine leaves for its cache, whichever engine it is: the parts, and how sure they are."""

from dataclasses import dataclass, replace
from math import sqrt

from app.core.budget import MemoryBudget

MIB, GIB = 2**20, 2**30


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    """Measured parts, bytes per GPU, that stand in place of the predicted ones; None is predicted.

    `gpu_memory_bytes` is the total that a process sees. `non_torch_bytes` is what is taken outside
    the engine's own allocator. `kv_budget_bytes` is the cache memory itself: the parts are then
    left as they are, and what they do not explain is a part of its own.
    """

    gpu_memory_bytes: int | None = None
    weight_bytes: int | None = None
    activation_bytes: int | None = None
    non_torch_bytes: int | None = None
    cuda_graph_bytes: int | None = None
    kv_budget_bytes: int | None = None


NOTHING_MEASURED = Calibration()


@dataclass(frozen=True, kw_only=True, slots=True)
class Band:
    """Budgets between which nine starts of ten fall."""

    low: int
    high: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Doubt:
    """How far a part may be off in nine starts of ten: it may take `more` or `less` bytes."""

    more: int = 0
    less: int = 0

    @classmethod
    def both(cls, size: float) -> "Doubt":
        """The same either way."""
        return cls(more=round(size), less=round(size))


def band_around(budget: int, doubts: tuple[Doubt, ...]) -> Band:
    """The parts are off independently of each other: squares add up."""
    return Band(
        low=budget - round(sqrt(sum(float(doubt.more) ** 2 for doubt in doubts))),
        high=budget + round(sqrt(sum(float(doubt.less) ** 2 for doubt in doubts))),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineBudget:
    """The budget of one GPU.

    Attributes:
        parts: Where its memory goes.
        kv_budget_bytes: What the parts leave for the cache; below zero where nothing is left.
        band: Around `kv_budget_bytes`.
        refusal: Why the engine does not start whatever the cache, or None.
        assumptions: What the figures take for granted, in words.
    """

    parts: MemoryBudget
    kv_budget_bytes: int
    band: Band
    refusal: str | None = None
    assumptions: tuple[str, ...] = ()

    def known_to_be(self, kv_budget_bytes: int | None) -> "EngineBudget":
        """The same with a budget that was given or measured; None leaves it as it is."""
        if kv_budget_bytes is None:
            return self
        unexplained = self.parts.kv_budget_bytes - kv_budget_bytes
        return replace(
            self,
            parts=replace(self.parts, unexplained_bytes=unexplained),
            kv_budget_bytes=kv_budget_bytes,
            band=Band(low=kv_budget_bytes, high=kv_budget_bytes),
        )
