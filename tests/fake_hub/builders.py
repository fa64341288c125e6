"""Files of the formats that the hub holds, made by hand from their descriptions."""

import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any

GGUF_KINDS = {
    "u32": (4, "<I"),
    "i32": (5, "<i"),
    "f32": (6, "<f"),
    "bool": (7, "<?"),
    "u64": (10, "<Q"),
}


def safetensors_bytes(tensors: Mapping[str, tuple[str, list[int], int]], padding: int = 0) -> bytes:
    """A file whose header lists (dtype, shape, bytes) by name; the tensors' bytes are zeros."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt", "padding": " " * padding}}
    offset = 0
    for name, (dtype, shape, size) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(min(offset, 4096))


def gguf_bytes(
    metadata: Sequence[tuple[str, str, Any]],
    tensors: Sequence[tuple[str, list[int], int]],
    version: int = 3,
) -> bytes:
    """A header with (key, kind, value) metadata and (name, shape, ggml type) tensors.

    A kind is one of `GGUF_KINDS`, "str", or "[kind]" for an array of it.
    """
    out = [b"GGUF", struct.pack("<IQQ", version, len(tensors), len(metadata))]
    for key, kind, value in metadata:
        out += [_text(key), _typed(kind, value)]
    for name, shape, number in tensors:
        out += [_text(name), struct.pack("<I", len(shape))]
        out += [struct.pack("<Q", side) for side in shape]
        out.append(struct.pack("<IQ", number, 0))
    return b"".join(out)


def _typed(kind: str, value: Any) -> bytes:
    if kind.startswith("["):
        inner = kind[1:-1]
        number = 8 if inner == "str" else GGUF_KINDS[inner][0]
        items = b"".join(_plain(inner, item) for item in value)
        return struct.pack("<IIQ", 9, number, len(value)) + items
    number = 8 if kind == "str" else GGUF_KINDS[kind][0]
    return struct.pack("<I", number) + _plain(kind, value)


def _plain(kind: str, value: Any) -> bytes:
    return _text(value) if kind == "str" else struct.pack(GGUF_KINDS[kind][1], value)


def _text(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw
