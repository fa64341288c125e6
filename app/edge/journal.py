"""What happened, told in batches: a log line for each request, and numbers for Prometheus.

A request only leaves itself behind. Formatting and counting it would cost a tenth of an answer
from memory, so that is done for all requests of some milliseconds at once.
"""

import asyncio
import json
import logging
import time
from collections.abc import Callable, Sequence

from app.edge.exchange import Exchange

WAIT_S = 0.02
"""How long a request's entry waits for others."""

_access = logging.getLogger("kvmath.access")
_quoted: Callable[[str], str] = json.encoder.encode_basestring_ascii


class Journal:
    """Collects the requests that are over and hands them on in batches.

    Args:
        readers: Called with each batch.
    """

    def __init__(self, readers: Sequence[Callable[[Sequence[Exchange]], None]]) -> None:
        self._readers = tuple(readers)
        self._over: list[Exchange] = []

    def write(self, exchange: Exchange) -> None:
        """Note that a request was answered, or broken off (its status is then 0)."""
        if not self._over:
            asyncio.get_running_loop().call_later(WAIT_S, self.flush)
        self._over.append(exchange)

    def flush(self) -> None:
        """Hand on what there is."""
        over, self._over = self._over, []
        if over:
            for read in self._readers:
                read(over)


def log_requests(over: Sequence[Exchange]) -> None:
    """One JSON line a request. Of the query, the body and the headers nothing is told."""
    if _access.isEnabledFor(logging.INFO):
        now = time.time()
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
        moment = f"{at}.{int(now % 1 * 1000):03d}Z"
        _access.info("%s", "\n".join([_line(exchange, moment) for exchange in over]))


def _line(exchange: Exchange, moment: str) -> str:
    text = (
        f'{{"time":"{moment}","level":"info","logger":"kvmath.access",'
        f'"request_id":"{exchange.request_id.decode()}","method":{_quoted(exchange.method)},'
        f'"path":{_quoted(exchange.path)},"status":{exchange.status},'
        f'"duration_ms":{exchange.took_s * 1e3:.3f},'
        f'"received_bytes":{exchange.content_length or exchange.held_bytes},'
        f'"sent_bytes":{exchange.sent_bytes},"cached":{"true" if exchange.hit else "false"}'
    )
    return f'{text},"caller":{_quoted(exchange.caller)}}}' if exchange.caller else f"{text}}}"
