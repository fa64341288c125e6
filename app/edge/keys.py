"""Who may ask, and how often: API keys, and a rate for each.

With shared counts a caller has one rate, however many processes serve it. Without, or while they
are away, each process counts for itself, and a caller has the rate of each.
"""

import hmac
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Self

from app.edge.exchange import Exchange
from app.errors import KvmathError, NotAuthenticated, TooManyRequests
from app.settings import Settings

ALWAYS_OPEN = frozenset({"/livez", "/readyz", "/metrics"})
"""Asked by orchestrators and monitors: without a key, and however much else is under way."""


@dataclass(slots=True)
class _Window:
    ends_at: float
    used: int = 0


Share = Callable[[str], Awaitable[tuple[int, float] | None]]
"""Counts one more of a caller in all processes: which number it is in the window, and the seconds
that are left of that; None where the others cannot be told."""


class Gate:
    """Lets a request through, or says why not.

    Args:
        keys: Name of each caller by the SHA-256 of its key; empty where nobody needs one.
        limit: Requests of a caller in a window; None for no bound.
        window_s: Length of a window in seconds.

    Attributes:
        share: How the other processes are told; None where each counts for itself.
    """

    share: Share | None = None

    def __init__(
        self,
        keys: Mapping[bytes, str],
        *,
        limit: int | None,
        window_s: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._keys = tuple(keys.items())
        self._limit = limit
        self._window_s = window_s
        self._clock = clock
        # One entry a key: it cannot grow.
        self._windows: dict[str, _Window] = {}
        self._policy = b'"caller";q=%d;w=%d' % (limit or 0, window_s)

    @classmethod
    def of(cls, settings: Settings) -> Self | None:
        """The gate that the settings ask for; None where everybody may ask at will."""
        keys = {
            sha256(key.get_secret_value().encode()).digest(): name
            for name, key in settings.api_keys.items()
        }
        if not keys:
            return None
        return cls(keys, limit=settings.rate_limit, window_s=settings.rate_limit_window_s)

    async def admit(self, exchange: Exchange) -> KvmathError | None:
        """Why the request is refused, or None; tells the exchange who the caller is."""
        refused = self._known(exchange)
        if self._limit is None or not exchange.caller:
            return refused
        # One that is over needs no asking: it stays over until its window ends.
        if self.share is not None and self._window(exchange.caller).used < self._limit:
            count = await self.share(exchange.caller)
            if count is not None:
                number, left_s = count
                self._windows[exchange.caller] = _Window(self._clock() + left_s, number)
                return self._verdict(exchange, number, left_s)
        return self._count_here(exchange)

    def _known(self, exchange: Exchange) -> KvmathError | None:
        if exchange.scope["path"] in ALWAYS_OPEN:
            return None
        caller = self._caller(exchange.credentials)
        if caller is None:
            return NotAuthenticated()
        exchange.caller = caller
        return None

    def _caller(self, credentials: bytes | None) -> str | None:
        """The name that goes with a key. Every key is compared, each in constant time."""
        if credentials is None:
            return None
        scheme, _, rest = credentials.partition(b" ")
        given = sha256(rest.strip() if scheme.lower() == b"bearer" else credentials).digest()
        found = None
        for digest, name in self._keys:
            if hmac.compare_digest(digest, given):
                found = name
        return found

    def _window(self, caller: str) -> _Window:
        now = self._clock()
        window = self._windows.get(caller)
        if window is None or now >= window.ends_at:
            window = self._windows[caller] = _Window(now + self._window_s)
        return window

    def _count_here(self, exchange: Exchange) -> KvmathError | None:
        window = self._window(exchange.caller)
        window.used += 1
        return self._verdict(exchange, window.used, window.ends_at - self._clock())

    def _verdict(self, exchange: Exchange, number: int, left_s: float) -> KvmathError | None:
        limit = self._limit or 0
        # draft-ietf-httpapi-ratelimit-headers-10: the policy, and what is left of it.
        exchange.more_headers = (
            *exchange.more_headers,
            (b"ratelimit-policy", self._policy),
            (b"ratelimit", b'"caller";r=%d;t=%d' % (max(0, limit - number), left_s + 1)),
        )
        return TooManyRequests(limit, self._window_s, left_s) if number > limit else None
