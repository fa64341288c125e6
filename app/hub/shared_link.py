"""The connection to Redis or Valkey, which may be away, slow or wrong at any time."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Self, TypeVar

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from app.hub.ask import Observer
from app.settings import BadSettings

T = TypeVar("T")

_TROUBLE = (RedisError, OSError, TimeoutError, TypeError, ValueError)
MAX_PAUSE_S = 30.0


def connections(url: str, timeout_s: float) -> BlockingConnectionPool:
    """Connections to be; none is opened.

    Raises:
        BadSettings: an address that every connection would fail at.
    """
    try:
        pool = BlockingConnectionPool.from_url(
            url,
            max_connections=16,
            timeout=timeout_s,
            socket_timeout=timeout_s,
            socket_connect_timeout=timeout_s,
            retry=Retry(NoBackoff(), 0),
        )
        pool.make_connection()  # type: ignore[no-untyped-call]
    except (RedisError, TypeError, ValueError):
        fault = "KVMATH_REDIS_URL: should have a port, and a query, that Redis' client takes"
        raise BadSettings([fault]) from None
    return pool


class SharedLink:
    """What all that is shared has in common: bounded waits, and pauses after a failure.

    Args:
        url: `redis://`, `rediss://` or `unix://`.
        timeout_s: For one operation, connection included.
        observer: Told of errors, by `kind`.
        clock: Seconds that only grow.
    """

    kind = "shared"

    def __init__(
        self,
        url: str,
        *,
        observer: Observer,
        timeout_s: float = 0.25,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._timeout_s = timeout_s
        self._observer = observer
        self._clock = clock
        self._pause_s = 0.0
        self._resumes_at = 0.0
        self._pool = connections(url, timeout_s)
        self._redis = Redis.from_pool(self._pool)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._redis.aclose()

    async def _ask(self, ask: Callable[[], Awaitable[T]]) -> T | None:
        """One operation; after a failure none for a while, twice as long each time."""
        if self._clock() < self._resumes_at:
            return None
        try:
            async with asyncio.timeout(self._timeout_s):
                answer = await ask()
        except _TROUBLE:
            self._observer(self.kind, "error")
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
            self._observer(self.kind, "error")
