"""Formula (5): how many sequences a KV budget holds.

Both arguments are bytes of the same GPU; a budget below zero holds nothing. A model that keeps
nothing raises ZeroDivisionError: callers exclude it, since nothing limits its concurrency but the
engine.
"""


def max_concurrency(kv_budget_bytes: int, kv_bytes_per_sequence: int) -> int:
    """Formula (5): budget / bytes of one sequence, the fraction dropped."""
    return max(kv_budget_bytes, 0) // kv_bytes_per_sequence


def max_concurrency_exact(kv_budget_bytes: int, kv_bytes_per_sequence: int) -> float:
    """Formula (5) with its fraction, correctly rounded."""
    return max(kv_budget_bytes, 0) / kv_bytes_per_sequence
