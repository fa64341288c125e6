"""Engines that keep tokens in pools: what one pool arrangement holds at a context."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, Protocol


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolFit:
    """What a budget holds of sequences of one length.

    Attributes:
        sequences: Sequences at once, as a fraction; None where a sequence takes nothing.
        bytes_per_sequence: What one sequence is charged.
        tokens: Tokens of the pool, as the engine prints them.
        ceiling: The engine's own limit on sequences, or None.
        ceiling_is: What sets the ceiling.
    """

    sequences: Fraction | None
    bytes_per_sequence: int
    tokens: int
    ceiling: int | None
    ceiling_is: Literal["max_num_seqs", "state_slots"] = "max_num_seqs"


class Pools(Protocol):
    """A model's pools in an engine, on one GPU."""

    def fit(self, budget: int, context: int) -> PoolFit:
        """What `budget` bytes hold of sequences of `context` tokens."""
        ...


def padded(tokens: int, multiple: int) -> int:
    """Tokens rounded up to whole pages."""
    return -(-tokens // multiple) * multiple
