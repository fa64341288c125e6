"""Fetched files shared between replicas, through Redis or Valkey.

The server is a convenience: where it is away, slow or wrong, files are missed and fetched from the
hub. Only files at a commit are shared, which never change; where branches point, each process asks.
"""

import hashlib
import time
from collections.abc import Callable

from app.hub.ask import Observer
from app.hub.shared_link import SharedLink
from app.hub.store import Blob, BlobKey, BlobStore

_FORMAT = b"kvmath-blob-1\n"
_MISSING, _PRESENT = b"-", b"+"
_DIGEST_BYTES = 32
EXPIRY_S = 7 * 86_400
MAX_VALUE_BYTES = 8_000_000


class SharedBlobStore(SharedLink):
    """A `BlobStore` over Redis' protocol.

    A value holds its format, whether the file exists, a SHA-256 over its key and content, and the
    content: one that was cut, mixed up or written by somebody else is a miss.

    Args:
        url: `redis://`, `rediss://` or `unix://`.
        namespace: What sets these files apart from others: the hub, and the token that may see
            them. Only its hash is sent.
        timeout_s: For one operation, connection included.
        observer: Told of hits, misses and errors as `shared_store`.
        clock: Seconds that only grow.
    """

    kind = "shared_store"

    def __init__(
        self,
        url: str,
        *,
        namespace: str,
        observer: Observer,
        timeout_s: float = 0.25,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(url, observer=observer, timeout_s=timeout_s, clock=clock)
        self._space = hashlib.sha256(namespace.encode()).hexdigest()[:16]

    async def get(self, key: BlobKey) -> Blob | None:
        """The file, or None; never raises."""
        name = self._name(key)
        value = await self._ask(lambda: self._redis.get(name))
        blob = None if not isinstance(value, bytes) else _unpack(name, value)
        if blob is not None:
            self._observer(self.kind, "hit")
        elif value is not None:
            self._observer(self.kind, "corrupt")
        return blob

    async def put(self, key: BlobKey, blob: Blob) -> None:
        """Keep the file for a week, unless it is too large; never raises."""
        name = self._name(key)
        value = _pack(name, blob)
        if len(value) <= MAX_VALUE_BYTES:
            await self._ask(lambda: self._redis.set(name, value, ex=EXPIRY_S))

    def _name(self, key: BlobKey) -> str:
        file = hashlib.sha256("\n".join(key).encode()).hexdigest()
        return f"kvmath:1:{self._space}:{file}"


class LayeredBlobStore:
    """A near store in front of a far one: what the far one knows comes to be in the near one."""

    def __init__(self, near: BlobStore, far: BlobStore) -> None:
        self._near = near
        self._far = far

    async def get(self, key: BlobKey) -> Blob | None:
        """The file, or None."""
        blob = await self._near.get(key)
        if blob is None:
            blob = await self._far.get(key)
            if blob is not None:
                await self._near.put(key, blob)
        return blob

    async def put(self, key: BlobKey, blob: Blob) -> None:
        """Keep the file in both."""
        await self._near.put(key, blob)
        await self._far.put(key, blob)


def _pack(name: str, blob: Blob) -> bytes:
    content = (_MISSING if blob.content is None else _PRESENT) + (blob.content or b"")
    return _FORMAT + _digest(name, content) + content


def _unpack(name: str, value: bytes) -> Blob | None:
    body = value.removeprefix(_FORMAT)
    digest, content = body[:_DIGEST_BYTES], body[_DIGEST_BYTES:]
    if len(body) == len(value) or digest != _digest(name, content):
        return None
    return Blob(None if content[:1] == _MISSING else content[1:])


def _digest(name: str, content: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\n" + content).digest()
