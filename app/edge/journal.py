"""What happened: a log line for each request, and numbers for Prometheus.

Each request is noted at once, in as few objects as possible, and told in batches: a call of the
logging module or of a metric for each would cost a tenth of an answer from memory.
"""

import asyncio
import json
import logging
import time
from collections.abc import Callable, Sequence
from typing import Protocol

WAIT_S = 0.005
"""How long a request's entry waits for others."""

_access = logging.getLogger("kvmath.access")
_JSON = {True: "true", False: "false"}
_quoted: Callable[[str], str] = json.encoder.encode_basestring_ascii


Entry = tuple[str, str, str, int, float, int, int, bytes, bool, str]
"""One request that is over: method, path, route, status (0 where it was broken off), seconds,
bytes received and sent, request id, whether it was answered from memory, and the caller's name."""


class Reader(Protocol):
    """Somebody who is interested in requests that are over."""

    def note(self, entry: Entry) -> None:
        """Take from an entry what is needed; to keep many would slow all others down."""

    def flush(self) -> None:
        """Tell what was noted."""


class Journal:
    """Hands each request that is over to its readers, and has them tell of it a little later."""

    def __init__(self, readers: Sequence[Reader]) -> None:
        self._readers = tuple(readers)
        self._notes = tuple(reader.note for reader in readers)
        self._waiting = False

    def write(self, entry: Entry) -> None:
        """Note that a request is over."""
        for note in self._notes:
            note(entry)
        if not self._waiting:
            self._waiting = True
            asyncio.get_running_loop().call_later(WAIT_S, self.flush)

    def flush(self) -> None:
        """Have everything told."""
        self._waiting = False
        for reader in self._readers:
            reader.flush()


class AccessLog:
    """One JSON line a request. Of the query, the body and the headers nothing is told."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._head = ""

    def note(self, entry: Entry) -> None:
        """Write the line down. Its time is that of the first line of its batch."""
        if not _access.isEnabledFor(logging.INFO):
            return
        method, path, _, status, took_s, received, sent, request_id, hit, caller = entry
        if not self._lines:
            now = time.time()
            at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
            self._head = (
                f'{{"time":"{at}.{int(now % 1 * 1000):03d}Z","level":"info",'
                '"logger":"kvmath.access","request_id":"'
            )
        tail = f',"caller":{_quoted(caller)}}}' if caller else "}"
        self._lines.append(
            f'{self._head}{request_id.decode()}","method":{_quoted(method)},'
            f'"path":{_quoted(path)},"status":{status},"duration_us":{int(took_s * 1e6)},'
            f'"received_bytes":{received},"sent_bytes":{sent},"cached":{_JSON[hit]}{tail}'
        )

    def flush(self) -> None:
        """Hand the lines to the logging module in one record."""
        if self._lines:
            _access.info("%s", "\n".join(self._lines))
            self._lines.clear()
