"""Counts that all processes of a fleet add up, through Redis or Valkey."""

import asyncio
import hashlib
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from app.hub.ask import Observer
from app.hub.shared_link import SharedLink

# Atomic, and mends a counter that lost its end. A window begins with the first that it counts.
_ADD = """
local counts = {}
for place, name in ipairs(KEYS) do
  local number = redis.call('INCRBY', name, ARGV[place + 1])
  local left = redis.call('PTTL', name)
  if left < 0 then
    left = tonumber(ARGV[1])
    redis.call('PEXPIRE', name, left)
  end
  counts[place] = {number, left}
end
return counts
"""


class Count(NamedTuple):
    """Which number one was in its window, and how many seconds are left of that."""

    number: int
    left_s: float


Asked = dict[str, int]
Counts = Mapping[str, Count]


class SharedCounts(SharedLink):
    """Counters that begin anew with each window.

    However many are to be counted at once, one question is under way: those who come meanwhile go
    together with the next.

    Args:
        url: `redis://`, `rediss://` or `unix://`.
        window_s: Length of a window in seconds.
        timeout_s: For one question, connection included.
        observer: Told of errors as `shared_counts`.
        clock: Seconds that only grow.
    """

    kind = "shared_counts"

    def __init__(
        self,
        url: str,
        *,
        window_s: int,
        observer: Observer,
        timeout_s: float = 0.25,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(url, observer=observer, timeout_s=timeout_s, clock=clock)
        self._window_s = window_s
        self._turn = asyncio.Lock()
        self._next: tuple[Asked, asyncio.Task[Counts | None]] | None = None

    async def __aexit__(self, *exc_info: object) -> None:
        async with self._turn:
            await super().__aexit__()

    async def count(self, name: str) -> Count | None:
        """One more under `name`; None while the server is away. Never raises.

        It takes as long as two questions at most.
        """
        if self._next is None:
            asked: Asked = {}
            self._next = asked, asyncio.create_task(self._go(asked))
        asked, trip = self._next
        place = asked[name] = asked.get(name, 0) + 1
        counts = await asyncio.shield(trip)
        if counts is None:
            return None
        last, left_s = counts[name]
        return Count(last - asked[name] + place, left_s)

    async def _go(self, asked: Asked) -> Counts | None:
        async with self._turn:
            self._next = None
            return await self._ask(lambda: self._add(asked))

    async def _add(self, asked: Asked) -> Counts:
        keys = [self._key(name) for name in asked]
        window_ms = self._window_s * 1000
        counts = await self._redis.eval(_ADD, len(keys), *keys, window_ms, *asked.values())
        return {
            name: Count(number, left_ms / 1e3)
            for name, (number, left_ms) in zip(asked, counts, strict=True)
        }

    def _key(self, name: str) -> str:
        what = hashlib.sha256(f"{self._window_s}\n{name}".encode()).hexdigest()
        return f"kvmath:1:rate:{what[:32]}"
