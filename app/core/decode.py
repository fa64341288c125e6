"""Formula (6) and the time of a decode step: bytes read over bandwidth, and what to expect."""

from fractions import Fraction
from functools import lru_cache

DEFAULT_EFFICIENCY = 0.70
"""Share of the roofline a real system reaches: 60 to 75 % (the text, section 7)."""

DEFAULT_TP_OVERHEAD = 0.30
"""Time that the AllReduces of tensor parallelism add (the text, section 8, step 4)."""


def decode_bytes_per_step(weight_bytes: int, kv_bytes_per_sequence: int, batch: int) -> int:
    """Formula (6): weights once and every sequence's cache, in bytes."""
    return weight_bytes + kv_bytes_per_sequence * batch


def step_seconds(step_bytes: int, memory_bandwidth_bytes_per_s: int) -> float:
    """Roofline time of one decode step on one GPU, in seconds: bytes / bandwidth."""
    return step_bytes / memory_bandwidth_bytes_per_s


def inter_token_seconds(
    roofline_seconds: float, *, efficiency: float, tp_overhead: float, tensor_parallel_size: int
) -> float:
    """Inter-token latency to expect, in seconds: roofline x (1 + overhead) / efficiency.

    The overhead is that of tensor parallelism and is left out on one GPU.
    """
    communication = 1 + tp_overhead if tensor_parallel_size > 1 else 1.0
    return roofline_seconds * communication / efficiency


@lru_cache(maxsize=256)
def step_bytes_within(
    seconds: float,
    memory_bandwidth_bytes_per_s: int,
    *,
    efficiency: float,
    tp_overhead: float,
    tensor_parallel_size: int,
) -> int:
    """The most bytes a step may read on one GPU for its inter-token latency to stay in `seconds`.

    The inverse of `inter_token_seconds`, in exact fractions of the decimals given.
    """
    communication = 1 + decimal(tp_overhead) if tensor_parallel_size > 1 else Fraction(1)
    roofline = decimal(seconds) * decimal(efficiency) / communication
    return int(roofline * memory_bandwidth_bytes_per_s)


@lru_cache(maxsize=256)
def decimal(value: float) -> Fraction:
    """The fraction a person means by a decimal: 0.3 is 3/10, not the nearest binary."""
    return Fraction(repr(value))
