"""Who may ask, and how often: API keys, and a rate for each.

Rates are counted in this process: with several workers or replicas a caller has the rate of each.
"""

import hmac
import time
from collections.abc import Callable, Mapping
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


class Gate:
    """Lets a request through, or says why not.

    Args:
        keys: Name of each caller by the SHA-256 of its key; empty where nobody needs one.
        limit: Requests of a caller in a window; None for no bound.
        window_s: Length of a window in seconds.
    """

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

    def check(self, exchange: Exchange) -> KvmathError | None:
        """Why the request is refused, or None; tells the exchange who the caller is."""
        if exchange.scope["path"] in ALWAYS_OPEN:
            return None
        caller = self._caller(exchange.credentials)
        if caller is None:
            return NotAuthenticated()
        exchange.caller = caller
        return None if self._limit is None else self._count(exchange, caller, self._limit)

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

    def _count(self, exchange: Exchange, caller: str, limit: int) -> KvmathError | None:
        now = self._clock()
        window = self._windows.get(caller)
        if window is None or now >= window.ends_at:
            window = self._windows[caller] = _Window(now + self._window_s)
        window.used += 1
        left_s = window.ends_at - now
        # draft-ietf-httpapi-ratelimit-headers-10: the policy, and what is left of it.
        remaining = max(0, limit - window.used)
        exchange.more_headers = (
            *exchange.more_headers,
            (b"ratelimit-policy", self._policy),
            (b"ratelimit", b'"caller";r=%d;t=%d' % (remaining, left_s + 1)),
        )
        if window.used > limit:
            return TooManyRequests(limit, self._window_s, left_s)
        return None
