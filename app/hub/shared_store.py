"""Fetched files shared between replicas, through Redis or Valkey.

The server is a convenience: where it is away, slow or wrong, files are missed and fetched from the
hub. Only files at a commit are shared, which never change; where branches point, each process asks.
"""

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable
from typing import Self, TypeVar

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from app.hub.ask import Observer
from app.hub.store import Blob, BlobKey, BlobStore

T = TypeVar("T")

_FORMAT = b"kvmath-blob-1\n"
_MISSING, _PRESENT = b"-", b"+"
_DIGEST_BYTES = 32
_TROUBLE = (RedisError, OSError, TimeoutError, ValueError)
EXPIRY_S = 7 * 86_400
MAX_VALUE_BYTES = 8_000_000
MAX_PAUSE_S = 30.0


class SharedBlobStore:
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

    def __init__(
        self,
        url: str,
        *,
        namespace: str,
        observer: Observer,
        timeout_s: float = 0.25,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._space = hashlib.sha256(namespace.encode()).hexdigest()[:16]
        self._timeout_s = timeout_s
        self._observer = observer
        self._clock = clock
        self._pause_s = 0.0
        self._resumes_at = 0.0
        self._pool = BlockingConnectionPool.from_url(
            url,
            max_connections=16,
            timeout=timeout_s,
            socket_timeout=timeout_s,
            socket_connect_timeout=timeout_s,
            retry=Retry(NoBackoff(), 0),
        )
        self._redis = Redis.from_pool(self._pool)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._redis.aclose()

    async def get(self, key: BlobKey) -> Blob | None:
        """The file, or None; never raises."""
        name = self._name(key)
        value = await self._ask(lambda: self._redis.get(name))
        blob = None if not isinstance(value, bytes) else _unpack(name, value)
        if blob is not None:
            self._observer("shared_store", "hit")
        elif value is not None:
            self._observer("shared_store", "corrupt")
        return blob

    async def put(self, key: BlobKey, blob: Blob) -> None:
        """Keep the file for a week, unless it is too large; never raises."""
        name = self._name(key)
        value = _pack(name, blob)
        if len(value) <= MAX_VALUE_BYTES:
            await self._ask(lambda: self._redis.set(name, value, ex=EXPIRY_S))

    async def _ask(self, ask: Callable[[], Awaitable[T]]) -> T | None:
        """One operation; after a failure none for a while, twice as long each time."""
        if self._clock() < self._resumes_at:
            return None
        try:
            async with asyncio.timeout(self._timeout_s):
                answer = await ask()
        except _TROUBLE:
            self._observer("shared_store", "error")
            self._pause_s = min(MAX_PAUSE_S, max(0.5, 2 * self._pause_s))
            self._resumes_at = self._clock() + self._pause_s
            await self._hang_up()
            return None
        self._pause_s = 0.0
        return answer

    async def _hang_up(self) -> None:
        """Close what is idle: connections to a server that is gone would else wait to be used."""
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._pool.disconnect(inuse_connections=False)
        except _TROUBLE:
            self._observer("shared_store", "error")

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
