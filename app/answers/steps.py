"""Arithmetic written out: one `Step` a line, with the numbers put in as on paper."""

from fractions import Fraction

from app.schemas.answer import Step

GB = 10**9


def step(name: str, formula: str, substituted: str, value: float, unit: str = "bytes") -> Step:
    """One line."""
    return Step(name=name, formula=formula, substituted=substituted, value=value, unit=unit)


def n(value: float | Fraction) -> str:
    """A number for people: thousands separated, at most six decimals."""
    if isinstance(value, Fraction):
        value = int(value) if value.denominator == 1 else float(value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.6f}".rstrip("0").rstrip(".")


def number(value: Fraction) -> int | float:
    """A fraction as JSON has it: whole where it is whole."""
    return value.numerator if value.denominator == 1 else float(value)


def gb(value: float) -> str:
    """Bytes as decimal GB for people."""
    return f"{value / GB:,.3f} GB"
