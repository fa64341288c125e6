"""Number formats and what one element of each takes.

Sizes are bits as `Fraction` so that packed formats with shared scales stay exact. A block-scaled
format counts its scales: OCP MX v1.0 gives MXFP4 one 8-bit scale per 32 elements; NVFP4 has one
8-bit scale per 16 elements.
"""

from dataclasses import dataclass
from fractions import Fraction

from app.errors import InputError


@dataclass(frozen=True, slots=True)
class Precision:
    """A number format: its canonical name and the bits one element takes, scales included."""

    name: str
    bits: Fraction

    @property
    def bytes_per_element(self) -> Fraction:
        """Bytes of one element."""
        return self.bits / 8


def _precision(name: str, bits: int | Fraction) -> Precision:
    return Precision(name, Fraction(bits))


FLOAT64 = _precision("float64", 64)
FLOAT32 = _precision("float32", 32)
BFLOAT16 = _precision("bfloat16", 16)
FLOAT16 = _precision("float16", 16)
FP8_E4M3 = _precision("fp8_e4m3", 8)
FP8_E5M2 = _precision("fp8_e5m2", 8)
INT8 = _precision("int8", 8)
INT4 = _precision("int4", 4)
MXFP4 = _precision("mxfp4", 4 + Fraction(8, 32))
MXFP8 = _precision("mxfp8", 8 + Fraction(8, 32))
NVFP4 = _precision("nvfp4", 4 + Fraction(8, 16))

_BY_NAME = {
    p.name: p
    for p in (
        FLOAT64,
        FLOAT32,
        BFLOAT16,
        FLOAT16,
        FP8_E4M3,
        FP8_E5M2,
        INT8,
        INT4,
        MXFP4,
        MXFP8,
        NVFP4,
    )
}
_SPELLINGS = {
    "bf16": BFLOAT16,
    "fp16": FLOAT16,
    "half": FLOAT16,
    "fp32": FLOAT32,
    "float": FLOAT32,
    "fp64": FLOAT64,
    "double": FLOAT64,
    "fp8": FP8_E4M3,
    "fp8e4nv": FP8_E4M3,
    "float8_e4m3fn": FP8_E4M3,
    "float8_e4m3fnuz": FP8_E4M3,
    "fp8_inc": FP8_E4M3,
    "float8_e5m2": FP8_E5M2,
}


def precision(name: str, *, field: str = "dtype") -> Precision:
    """The format called `name` in any of its usual spellings (`bf16`, `torch.bfloat16`, `fp8`).

    Raises `InputError` on `field` for a name nobody gave us a size for.
    """
    key = name.strip().lower().removeprefix("torch.")
    found = _BY_NAME.get(key) or _SPELLINGS.get(key)
    if found is None:
        known = ", ".join(sorted([*_BY_NAME, *_SPELLINGS]))
        raise InputError.of(field, f"unknown precision '{name[:40]}'; known: {known}")
    return found
