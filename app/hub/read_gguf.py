"""A GGUF file read through its source: as much of its beginning as the header takes."""

import asyncio
import re
from dataclasses import dataclass

from app.hub.facts import GgufFile
from app.hub.gguf import GgufCutShort, GgufHeader, GgufRefused, parse_gguf
from app.hub.source import FileSource

FIRST_READ_BYTES = 1_000_000
MAX_PARTS = 64

_PART = re.compile(r"(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")
_ASIDE = re.compile(r"mmproj|imatrix", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class GgufLimits:
    """How much of GGUF files may be held: `max_bytes` of each, `slots` of them at once."""

    max_bytes: int
    slots: asyncio.Semaphore


async def read_gguf(source: FileSource, filename: str, limits: GgufLimits) -> GgufFile | None:
    """The file's header, and the tensors of all its parts where it is split.

    None where there is no such file.

    Raises:
        KvmathError: the source's own, or its refusal of a file that is no GGUF.
    """
    names = _parts(filename)
    if len(names) > MAX_PARTS:
        raise source.refuse(f"{filename} is split into more than {MAX_PARTS} parts")
    headers: list[GgufHeader] = []
    # One part after the other: headers may be large, and memory is bounded by one of them.
    async with limits.slots:
        for name in names:
            header = await _header(source, name, limits.max_bytes)
            if header is not None:
                headers.append(header)
            elif headers:
                raise source.refuse(f"{filename} lacks its part {name}")
            else:
                return None
    by_dtype: dict[str, int] = {}
    for header in headers:
        for dtype, size in header.bytes_by_dtype.items():
            by_dtype[dtype] = by_dtype.get(dtype, 0) + size
    return GgufFile(
        filename=names[0],
        header=headers[0],
        tensor_bytes=sum(by_dtype.values()),
        bytes_by_dtype=by_dtype,
    )


def gguf_models(files: tuple[str, ...]) -> list[str]:
    """The GGUF files that hold a model, by the name of their first part."""
    models = (name for name in files if name.endswith(".gguf") and not _ASIDE.search(name))
    return list(dict.fromkeys(_parts(name)[0] for name in models))


def _parts(filename: str) -> list[str]:
    match = _PART.fullmatch(filename)
    if match is None:
        return [filename]
    count = min(max(int(match["count"]), 1), MAX_PARTS + 1)
    return [f"{match['stem']}-{part:05}-of-{match['count']}.gguf" for part in range(1, count + 1)]


async def _header(source: FileSource, name: str, max_bytes: int) -> GgufHeader | None:
    data = bytearray()
    want = min(FIRST_READ_BYTES, max_bytes)
    while True:
        more = await source.span(name, len(data), want - 1)
        if more is None:
            return None
        data += more
        try:
            # Off the event loop: a header of many megabytes takes a while to walk through.
            return await asyncio.to_thread(parse_gguf, data)
        except GgufRefused as refused:
            raise source.refuse(f"{name} {refused}") from None
        except GgufCutShort:
            if len(data) < want:
                raise source.refuse(f"{name} ends inside its header") from None
        if want >= max_bytes:
            raise source.refuse(f"{name} has a header beyond {max_bytes} bytes")
        want = min(2 * want, max_bytes)
