"""Arithmetic written out: one `Step` a line, with the numbers put in as on paper."""

from fractions import Fraction

from app.schemas.answer import Step


def step(
    name: str, formula: str, substituted: str, value: float | None, unit: str = "bytes"
) -> Step:
    """One line; `value` None where there is no such number."""
    return Step(name=name, formula=formula, substituted=substituted, value=value, unit=unit)


def n(value: float | Fraction) -> str:
    """A number for people: thousands separated, fractions to seven significant digits."""
    if isinstance(value, Fraction):
        value = int(value) if value.denominator == 1 else float(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.7g}"


def rounded_up(written: str, times: int = 1) -> str:
    """A quotient that a line rounds up, and how often it then counts."""
    return written if times == 1 else f"ceil({written}) x {times}"


def number(value: Fraction) -> int | float:
    """A fraction as JSON has it: whole where it is whole."""
    return value.numerator if value.denominator == 1 else float(value)
