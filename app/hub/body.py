"""A body read within its bound, however it is encoded and whatever its length claims."""

import zlib
from collections.abc import AsyncIterator, Callable, Mapping

from app.hub.classify import printable

_GZIP_OR_ZLIB = zlib.MAX_WBITS | 32
MAX_MEMBERS = 4_096
"""Of one gzip body: some compressors begin a new one every 64 kB."""


class WrongAnswer(Exception):
    """The answer breaks a rule; asking again would not help."""


class BodyRefused(WrongAnswer):
    """The body is too large or encoded as we did not ask for; the message says which."""


class BodyTooLarge(BodyRefused):
    """The body is larger than is read of it."""


async def read_body(
    chunks: AsyncIterator[bytes], headers: Mapping[str, str], *, limit: int, cut: bool = False
) -> bytes:
    """The decoded body, at most `limit` bytes; memory never exceeds that by more than a chunk.

    Args:
        chunks: The body as it arrives, still encoded.
        headers: The answer's headers by lower-case name.
        limit: Bytes allowed after decoding.
        cut: Take the first `limit` bytes and leave the rest unread, instead of refusing.

    Raises:
        BodyTooLarge: a longer body.
        BodyRefused: a content-encoding other than gzip and deflate, or gzip that is none.
    """
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding == "identity":
        declared = headers.get("content-length", "")
        if not cut and declared.isdecimal() and int(declared[:20]) > limit:
            raise _too_large(limit)
        decode: Callable[[bytes, int], bytes | bytearray] = _as_is
    elif encoding in ("gzip", "x-gzip", "deflate"):
        decode = _Inflate()
    else:
        raise BodyRefused(f"is encoded as {printable(encoding)!r}")
    body = bytearray()
    async for chunk in chunks:
        # One byte beyond the limit tells a body that is too long from one that just fits.
        body += decode(chunk, limit + 1 - len(body))
        if len(body) > limit:
            if cut:
                break
            raise _too_large(limit)
    del body[limit:]
    return bytes(body)


class _Inflate:
    """Decompression that gives out no more than was asked for: a bomb stays in its shell."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(wbits=_GZIP_OR_ZLIB)
        self._members = 1

    def __call__(self, chunk: bytes, room: int) -> bytearray:
        out = bytearray()
        while chunk and len(out) < room:
            if self._stream.eof:
                self._begin_member()
            try:
                out += self._stream.decompress(chunk, room - len(out))
            except zlib.error:
                raise BodyRefused("is not the gzip it claims to be") from None
            chunk = self._stream.unused_data
        return out

    def _begin_member(self) -> None:
        if self._members == MAX_MEMBERS:
            raise BodyRefused(f"is gzip of more than {MAX_MEMBERS} members")
        self._members += 1
        self._stream = zlib.decompressobj(wbits=_GZIP_OR_ZLIB)


def _as_is(chunk: bytes, room: int) -> bytes:
    return chunk[:room]


def _too_large(limit: int) -> BodyTooLarge:
    return BodyTooLarge(f"is larger than {limit} bytes")
