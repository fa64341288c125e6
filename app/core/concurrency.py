"""Formula (5): how many sequences a KV budget holds."""

from fractions import Fraction


def max_concurrency(kv_budget_bytes: int, kv_bytes_per_sequence: int) -> Fraction:
    """Formula (5): budget / bytes of one sequence, the fraction kept; 0 without a budget.

    Both in bytes of the same GPU. Raises ZeroDivisionError for a model that keeps nothing, which
    callers exclude (nothing limits its concurrency but the engine).
    """
    return Fraction(max(kv_budget_bytes, 0), kv_bytes_per_sequence)
