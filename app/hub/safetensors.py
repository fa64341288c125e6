"""The header of a safetensors file: what is stored, without the tensors themselves.

Format: 8 bytes little-endian length N, then N bytes of JSON that name each tensor's dtype, shape
and byte range (https://github.com/huggingface/safetensors#format).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from app.hub.strict_json import JsonRefused, parse_object

LENGTH_BYTES = 8
MAX_HEADER_BYTES = 25_000_000
MAX_DTYPE_NAME = 32

DTYPE_BITS: Mapping[str, int] = {
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
    "BOOL": 8, "U8": 8, "I8": 8,
    "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "U16": 16, "I16": 16, "F16": 16, "BF16": 16,
    "U32": 32, "I32": 32, "F32": 32,
    "U64": 64, "I64": 64, "F64": 64, "C64": 64,
}  # fmt: skip


class HeaderRefused(ValueError):
    """The bytes are no safetensors header; the message says which rule they break."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredTensors:
    """What tensors of one dtype take together."""

    elements: int
    """Elements as stored: a packed format counts its containers, not the weights inside."""
    bytes: int


def header_length(first_bytes: bytes) -> int:
    """The length N of the JSON part, in bytes, from a file's first 8 bytes.

    Raises:
        HeaderRefused: too few bytes, or a length beyond the format's own 25 MB limit.
    """
    if len(first_bytes) < LENGTH_BYTES:
        raise HeaderRefused("ends before its header's length")
    length = int.from_bytes(first_bytes[:LENGTH_BYTES], "little")
    if not len(b"{}") <= length <= MAX_HEADER_BYTES:
        raise HeaderRefused(f"claims a header of {length} bytes")
    return length


def stored_by_dtype(header: bytes, length: int) -> dict[str, StoredTensors]:
    """Elements and bytes per dtype name, from the JSON part of the header, `length` bytes long.

    Any dtype name is accepted: the byte ranges say what its tensors take. A scalar (shape `[]`)
    is one element.

    Raises:
        HeaderRefused: cut short, not JSON, a malformed entry, or a range that contradicts shape and dtype.
    """
    if len(header) != length:
        raise HeaderRefused("ends inside its header")
    try:
        entries = parse_object(header)
    except JsonRefused as refused:
        raise HeaderRefused(f"header {refused}") from None
    elements: dict[str, int] = {}
    taken: dict[str, int] = {}
    for name, entry in entries.items():
        if name == "__metadata__":
            continue
        dtype, count, size = _read_entry(entry)
        elements[dtype] = elements.get(dtype, 0) + count
        taken[dtype] = taken.get(dtype, 0) + size
    return {dtype: StoredTensors(elements=elements[dtype], bytes=taken[dtype]) for dtype in taken}


def _read_entry(entry: Any) -> tuple[str, int, int]:
    if not isinstance(entry, dict):
        raise HeaderRefused("header has an entry that is no object")
    dtype, shape, offsets = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    if (
        not isinstance(dtype, str)
        or not 1 <= len(dtype) <= MAX_DTYPE_NAME
        or not dtype.isprintable()
    ):
        raise HeaderRefused("header has a tensor without a dtype")
    if not isinstance(shape, list) or not all(_is_count(side) for side in shape):
        raise HeaderRefused("header has a tensor without a shape")
    match offsets:
        case [begin, end] if _is_count(begin) and _is_count(end) and begin <= end:
            count, size = prod(shape), end - begin
        case _:
            raise HeaderRefused("header has a tensor without a byte range")
    bits = DTYPE_BITS.get(dtype)
    if bits is not None and -(-count * bits // 8) != size:
        raise HeaderRefused(f"header has a {dtype} tensor whose byte range contradicts its shape")
    return dtype, count, size


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63
