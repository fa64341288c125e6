"""The header of a safetensors file: what is stored, without the tensors themselves.

Format: 8 bytes little-endian length N, then N bytes of JSON that name each tensor's dtype, shape
and byte range (https://github.com/huggingface/safetensors#format).
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

LENGTH_BYTES = 8
MAX_HEADER_BYTES = 25_000_000
MAX_DTYPE_NAME = 32
MAX_DTYPES = 64
MAX_NAMES = 300_000
"""Of an object: an entry of real names takes 85 bytes and more, so 25 MB hold no more of them."""
MAX_ENTRY = 1_024
"""Characters of one tensor's entry, its name aside: weights have five dimensions at most."""

DTYPE_BITS: Mapping[str, int] = {
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
    "BOOL": 8, "U8": 8, "I8": 8,
    "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "U16": 16, "I16": 16, "F16": 16, "BF16": 16,
    "U32": 32, "I32": 32, "F32": 32,
    "U64": 64, "I64": 64, "F64": 64, "C64": 64,
}  # fmt: skip

_BLANKS = re.compile(r"[ \t\n\r]*")
_JSON = json.JSONDecoder()
_NOT_JSON = "header is not the JSON of the format"


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
    is one element. Entries are read one at a time and none is kept: a header takes its own text,
    however many tensors it names.

    Raises:
        HeaderRefused: cut short, not JSON, a malformed entry, a range that contradicts shape and
            dtype, or ranges that overlap or leave holes.
    """
    if len(header) != length:
        raise HeaderRefused("ends inside its header")
    elements: dict[str, int] = {}
    taken: dict[str, int] = {}
    last = 0
    # Names are only read over, and all else is ASCII: one byte a character is enough.
    for entry in _entries(_Cursor(header.decode("latin-1"))):
        dtype, count, begin, end = _read_entry(entry)
        elements[dtype] = elements.get(dtype, 0) + count
        taken[dtype] = taken.get(dtype, 0) + end - begin
        last = max(last, end)
        if len(taken) > MAX_DTYPES:
            raise HeaderRefused(f"header has more than {MAX_DTYPES} dtypes")
    # The format allows no holes; a tensor named twice would make the sum too large.
    if sum(taken.values()) != last:
        raise HeaderRefused("header has byte ranges that overlap or leave holes")
    return {dtype: StoredTensors(elements=elements[dtype], bytes=taken[dtype]) for dtype in taken}


class _Cursor:
    """A place in JSON text, from which one small value is taken at a time."""

    __slots__ = ("position", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0

    def found(self, mark: str) -> bool:
        """Step over blanks, and over `mark` if it comes next."""
        blanks = _BLANKS.match(self.text, self.position)
        self.position = blanks.end() if blanks else self.position
        if not self.text.startswith(mark, self.position):
            return False
        self.position += len(mark)
        return True

    def expect(self, mark: str) -> None:
        """Step over `mark`."""
        if not self.found(mark):
            raise HeaderRefused(_NOT_JSON)

    def string(self) -> str:
        """The string that comes next."""
        self.expect('"')
        try:
            value, self.position = _JSON.raw_decode(self.text, self.position - 1)
        except ValueError:
            raise HeaderRefused(_NOT_JSON) from None
        return str(value)

    def entry(self) -> dict[str, Any]:
        """The object that comes next: it holds no other, so its first brace ends it."""
        self.expect("{")
        start = self.position - 1
        end = self.text.find("}", start, start + MAX_ENTRY) + 1
        if not end:
            raise HeaderRefused(f"header has an entry beyond {MAX_ENTRY} characters")
        self.position = end
        try:
            entry: dict[str, Any] = json.loads(self.text[start:end])
        except (ValueError, RecursionError):
            raise HeaderRefused(_NOT_JSON) from None
        return entry

    def names(self) -> Iterator[str]:
        """The names of an object's members; who iterates takes their values."""
        self.expect("{")
        if self.found("}"):
            return
        for _ in range(MAX_NAMES):
            name = self.string()
            self.expect(":")
            yield name
            if self.found("}"):
                return
            self.expect(",")
        raise HeaderRefused(f"header names more than {MAX_NAMES} things")


def _entries(cursor: _Cursor) -> Iterator[dict[str, Any]]:
    for name in cursor.names():
        if name != "__metadata__":
            yield cursor.entry()
            continue
        for _ in cursor.names():
            cursor.string()
    cursor.found("")
    if cursor.position != len(cursor.text):
        raise HeaderRefused(_NOT_JSON)


def _read_entry(entry: dict[str, Any]) -> tuple[str, int, int, int]:
    dtype, shape, offsets = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    if (
        not isinstance(dtype, str)
        or not 1 <= len(dtype) <= MAX_DTYPE_NAME
        or not (dtype.isascii() and dtype.isprintable())
    ):
        raise HeaderRefused("header has a tensor without a dtype")
    if not isinstance(shape, list) or not all(_is_count(side) for side in shape):
        raise HeaderRefused("header has a tensor without a shape")
    match offsets:
        case [begin, end] if _is_count(begin) and _is_count(end) and begin <= end:
            count = _elements(shape)
        case _:
            raise HeaderRefused("header has a tensor without a byte range")
    bits = DTYPE_BITS.get(dtype)
    if bits is not None and -(-count * bits // 8) != end - begin:
        raise HeaderRefused(f"header has a {dtype} tensor whose byte range contradicts its shape")
    return dtype, count, begin, end


def _elements(shape: list[int]) -> int:
    count = 1
    for side in shape:
        count *= side
        if count >= 2**63:
            raise HeaderRefused("header has a tensor of more than 2**63 elements")
    return count


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63
