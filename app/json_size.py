"""How much a JSON text holds: a value takes two bytes as text and some seventy as an object."""

MAX_VALUES = 250_000
"""Of one object; the largest published config holds 67,000."""

MAX_BATCH_VALUES = 4 * MAX_VALUES
"""Of a batch, whose items are looked at one after the other."""


def holds_more(text: bytes, values: int = MAX_VALUES) -> bool:
    """Whether a text may hold more than so many values, by what stands before and between them."""
    if len(text) <= values:
        return False
    return sum(text.count(mark) for mark in (b",", b"[", b"{")) > values
