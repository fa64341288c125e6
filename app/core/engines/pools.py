"""Engines that keep tokens in pools: what one pool arrangement holds at a context."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, Protocol

from app.errors import InputError

SIXTEEN_BITS = ("bfloat16", "bf16", "float16", "fp16", "half")


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolFit:
    """What a budget holds of sequences of one length.

    Attributes:
        sequences: Sequences at once, as a fraction; None where a sequence takes nothing.
        bytes_per_sequence: What one sequence is charged.
        tokens: Tokens of the pool, as the engine prints them.
        ceiling: The engine's own limit on sequences, or None.
        ceiling_is: What sets the ceiling.
        refusal: Why the engine does not start though a sequence may fit, or None.
        counted: Tokens of the pool that runs out first and those of a sequence in it, where they
            are counted; None where `sequences` are the budget over `bytes_per_sequence`.
    """

    sequences: Fraction | None
    bytes_per_sequence: int
    tokens: int
    ceiling: int | None
    ceiling_is: Literal["max_num_seqs", "state_slots"] = "max_num_seqs"
    refusal: str | None = None
    counted: tuple[int, int] | None = None


class Pools(Protocol):
    """A model's pools in an engine, on one GPU."""

    def fit(self, budget: int, context: int) -> PoolFit:
        """What `budget` bytes hold of sequences of `context` tokens."""
        ...


def padded(tokens: int, multiple: int) -> int:
    """Tokens rounded up to whole pages."""
    return -(-tokens // multiple) * multiple


def check_cache_type(name: str, engine: str, known: tuple[str, ...]) -> None:
    """Whether an engine has a type of cache; `auto` it always has.

    Raises:
        InputError: on `kv_cache_dtype` for one that it does not have.
    """
    said = name.strip().lower().removeprefix("torch.")
    if said != "auto" and said not in known:
        rule = f"{engine} has no cache of type {name[:40]!r}; known: auto, {', '.join(known)}"
        raise InputError.of("kv_cache_dtype", rule, type="engine_refuses")
