"""The hub's rate limits, obeyed across all callers of the process.

Every answer of the hub says what is left: `RateLimit: "api";r=0;t=55`. A bucket that is empty is
left alone until its window ends, whoever asks.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import urlsplit

MAX_WAIT_S = 900.0
_MAX_BUCKETS = 16
_RATE_LIMIT = re.compile(r'\s*"([\w-]{1,32})"\s*;\s*r=(\d{1,9})\s*;\s*t=(\d{1,9})\s*')
_SECONDS = re.compile(r"\d{1,9}")
_RETRY_AFTER_STATUS = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)


@dataclass(slots=True)
class _Bucket:
    remaining: int | None = None
    resets_at: float = 0.0
    blocked_until: float = 0.0
    in_flight: int = 0


class Budget:
    """What the hub still grants, by bucket; shared by everything that asks one hub."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: dict[str, _Bucket] = {}
        self._names: dict[str, str] = {}

    def wait_s(self, url: str) -> float:
        """Seconds to wait before `url` may be asked; 0 where it may be asked now."""
        now = self._clock()
        bucket = self._bucket(url)
        if bucket.remaining is not None and now >= bucket.resets_at:
            bucket.remaining = None
        waits = [bucket.blocked_until - now]
        if bucket.remaining is not None and bucket.remaining <= bucket.in_flight:
            waits.append(bucket.resets_at - now)
        return max(0.0, *waits)

    @contextmanager
    def under_way(self, url: str) -> Iterator[None]:
        """Count a request to `url` against its bucket until its answer has been observed."""
        bucket = self._bucket(url)
        bucket.in_flight += 1
        try:
            yield
        finally:
            bucket.in_flight -= 1

    def observe(self, url: str, status: int, headers: Mapping[str, str]) -> None:
        """Take over what an answer to `url` says about its limits."""
        now = self._clock()
        told = _RATE_LIMIT.match(headers.get("ratelimit", ""))
        if told:
            bucket = self._learn(url, told[1])
            remaining, reset_s = int(told[2]), int(told[3]) + 1
            bucket.remaining = remaining
            bucket.resets_at = now + min(reset_s, MAX_WAIT_S)
            if status == HTTPStatus.TOO_MANY_REQUESTS and remaining == 0:
                return
        after = retry_after_s(headers)
        if after is not None and status in _RETRY_AFTER_STATUS:
            bucket = self._bucket(url)
            bucket.blocked_until = max(bucket.blocked_until, now + after)

    def left(self) -> dict[str, int]:
        """Requests left in each bucket whose window is running."""
        now = self._clock()
        return {
            name: bucket.remaining
            for name, bucket in self._buckets.items()
            if bucket.remaining is not None and now < bucket.resets_at
        }

    def _bucket(self, url: str) -> _Bucket:
        kind = _kind(url)
        return self._buckets.setdefault(self._names.get(kind, kind), _Bucket())

    def _learn(self, url: str, name: str) -> _Bucket:
        # Which bucket a kind of path draws on is the hub's choice: its header names it.
        if name not in self._buckets and len(self._buckets) >= _MAX_BUCKETS:
            return self._bucket(url)
        self._names[_kind(url)] = name
        return self._bucket(url)


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Seconds of a Retry-After header, at most `MAX_WAIT_S`; None without one (or with a date)."""
    text = headers.get("retry-after", "").strip()
    return min(float(text), MAX_WAIT_S) if _SECONDS.fullmatch(text) else None


def _kind(url: str) -> str:
    path = urlsplit(url).path
    if path.startswith("/api/resolve-cache/"):
        return "resolve-cache"
    if path.startswith("/api/"):
        return "api"
    return "resolvers" if "/resolve/" in path else "pages"
