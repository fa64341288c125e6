"""The header of a GGUF file: its metadata and its list of tensors, from the file's first bytes.

Layout: `GGUF`, u32 version, u64 tensor count, u64 key count; then keys with typed values; then
tensors with name, dimensions, ggml type and offset; all little-endian
(https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). Pure: bytes in, facts out.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from app.hub.ggml_types import GGML_TYPES

MAX_KEYS = 65_536
MAX_TENSORS = 65_536
"""Experts are stacked: the largest files published name some two thousand."""
MAX_KEY_BYTES = 65_535
MAX_TENSOR_NAME_BYTES = 255
"""llama.cpp reads names of up to 63."""
MAX_DIMENSIONS = 4
MAX_KEPT_ELEMENTS = 4_096
MAX_KEPT_TEXT = 4_096
MAX_KEPT_BYTES = 1_000_000
"""Of all keys and values that are kept, as the file writes them; an object takes up to 36 times that."""

_STRING, _ARRAY = 8, 9
_SCALARS = {
    0: struct.Struct("<B"), 1: struct.Struct("<b"), 2: struct.Struct("<H"), 3: struct.Struct("<h"),
    4: struct.Struct("<I"), 5: struct.Struct("<i"), 6: struct.Struct("<f"), 7: struct.Struct("<?"),
    10: struct.Struct("<Q"), 11: struct.Struct("<q"), 12: struct.Struct("<d"),
}  # fmt: skip
_U32, _U64 = _SCALARS[4], _SCALARS[10]

Scalar = int | float | bool | str


class GgufRefused(ValueError):
    """The bytes are no GGUF header we can read; the message says why."""


class GgufCutShort(Exception):
    """The header goes on beyond the bytes given: read more of the file and parse again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GgufTensor:
    """One stored tensor."""

    name: str
    shape: tuple[int, ...]
    """In ggml's order: the fastest-running dimension first."""
    dtype: str
    elements: int
    bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class GgufHeader:
    """What a GGUF file says about its model."""

    version: int
    metadata: Mapping[str, Scalar | tuple[Scalar, ...]]
    """Scalars, short texts and short arrays; tokenizer tables are read over and left out."""
    tensors: tuple[GgufTensor, ...]
    header_bytes: int

    @property
    def architecture(self) -> str | None:
        """`general.architecture`, the prefix of the model's own keys."""
        value = self.metadata.get("general.architecture")
        return value if isinstance(value, str) else None

    @property
    def tensor_bytes(self) -> int:
        """Bytes of all tensors together (without the alignment between them)."""
        return sum(tensor.bytes for tensor in self.tensors)

    @property
    def bytes_by_dtype(self) -> dict[str, int]:
        """Tensor bytes per ggml type name."""
        totals: dict[str, int] = {}
        for tensor in self.tensors:
            totals[tensor.dtype] = totals.get(tensor.dtype, 0) + tensor.bytes
        return totals


def parse_gguf(data: bytes | bytearray) -> GgufHeader:
    """The header at the start of `data`.

    Raises:
        GgufCutShort: `data` ends inside the header.
        GgufRefused: not GGUF, a version other than 2 and 3, or a count beyond its bound.
    """
    reader = _Reader(data)
    if reader.take(4) != b"GGUF":
        raise GgufRefused("does not begin with GGUF")
    version = reader.number(_U32)
    if version not in (2, 3):
        raise GgufRefused(f"is GGUF version {version}; versions 2 and 3 are read")
    tensor_count = _bounded(reader.number(_U64), MAX_TENSORS, "tensors")
    key_count = _bounded(reader.number(_U64), MAX_KEYS, "keys")
    metadata: dict[str, Scalar | tuple[Scalar, ...]] = {}
    kept = 0
    for _ in range(key_count):
        start = reader.position
        key = reader.text(MAX_KEY_BYTES)
        value = _read_value(reader, reader.number(_U32))
        if value is None:
            continue
        metadata[key] = value
        kept += reader.position - start
        if kept > MAX_KEPT_BYTES:
            raise GgufRefused(f"has more than {MAX_KEPT_BYTES} bytes of keys and short values")
    tensors = tuple(_read_tensor(reader) for _ in range(tensor_count))
    return GgufHeader(
        version=version, metadata=metadata, tensors=tensors, header_bytes=reader.position
    )


class _Reader:
    """A cursor over bytes that never reads beyond them."""

    __slots__ = ("_data", "_size", "position")

    def __init__(self, data: bytes | bytearray) -> None:
        self._data = data
        self._size = len(data)
        self.position = 0

    def skip(self, count: int) -> int:
        start = self.position
        if count > self._size - start:
            raise GgufCutShort
        self.position = start + count
        return start

    def take(self, count: int) -> bytes | bytearray:
        start = self.skip(count)
        return self._data[start : start + count]

    def number(self, kind: struct.Struct) -> int:
        value: int = kind.unpack_from(self._data, self.skip(kind.size))[0]
        return value

    def scalar(self, kind: struct.Struct) -> Scalar:
        value: Scalar = kind.unpack_from(self._data, self.skip(kind.size))[0]
        return value

    def text(self, limit: int) -> str:
        length = _bounded(self.number(_U64), limit, "bytes of a name")
        try:
            return self.take(length).decode("utf-8")
        except UnicodeDecodeError:
            raise GgufRefused("has a name that is not UTF-8") from None

    def skip_texts(self, count: int) -> None:
        # The hot loop of the parser: a tokenizer holds some hundred thousand strings.
        unpack, data, size, position = _U64.unpack_from, self._data, self._size, self.position
        for _ in range(count):
            if size - position < _U64.size:
                raise GgufCutShort
            position += _U64.size + unpack(data, position)[0]
        self.position = position
        self.skip(0)


def _read_value(reader: _Reader, kind: int) -> Scalar | tuple[Scalar, ...] | None:
    if kind in _SCALARS:
        return reader.scalar(_SCALARS[kind])
    if kind == _STRING:
        return _read_text(reader)
    if kind == _ARRAY:
        return _read_array(reader)
    raise GgufRefused(f"has a value of unknown type {kind}")


def _read_text(reader: _Reader) -> str | None:
    raw = reader.take(reader.number(_U64))
    # Long texts (chat templates) decide nothing here, and neither do texts in other encodings.
    return raw.decode("utf-8", "replace") if len(raw) <= MAX_KEPT_TEXT else None


def _read_array(reader: _Reader) -> tuple[Scalar, ...] | None:
    kind, count = reader.number(_U32), reader.number(_U64)
    if kind == _STRING:
        reader.skip_texts(count)
        return None
    if kind not in _SCALARS:
        raise GgufRefused(f"has an array of type {kind}")
    scalar = _SCALARS[kind]
    if count > MAX_KEPT_ELEMENTS:
        reader.skip(count * scalar.size)
        return None
    return tuple(reader.scalar(scalar) for _ in range(count))


def _read_tensor(reader: _Reader) -> GgufTensor:
    name = reader.text(MAX_TENSOR_NAME_BYTES)
    dimensions = _bounded(reader.number(_U32), MAX_DIMENSIONS, "dimensions of a tensor")
    shape = tuple(reader.number(_U64) for _ in range(dimensions))
    number = reader.number(_U32)
    reader.skip(_U64.size)
    dtype = GGML_TYPES.get(number)
    if dtype is None:
        raise GgufRefused(f"stores a tensor as ggml type {number}, whose size is not known")
    elements = prod(shape)
    if elements % dtype.block_elements or elements >= 2**63:
        raise GgufRefused(f"has a {dtype.name} tensor of {elements} elements")
    return GgufTensor(
        name=name,
        shape=shape,
        dtype=dtype.name,
        elements=elements,
        bytes=elements // dtype.block_elements * dtype.block_bytes,
    )


def _bounded(value: int, limit: int, what: str) -> int:
    if value > limit:
        raise GgufRefused(f"claims {value} {what}; at most {limit} are read")
    return value
