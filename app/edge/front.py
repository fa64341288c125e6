"""Answers to requests that have come before in the very same bytes.

A caller that polls sends the same bytes each time. What they were answered with is kept under them,
so that they need not be parsed and routed again: of the time that an answer from memory takes, the
server's own share is most.
"""

import time
from collections.abc import Callable, Sequence
from http import HTTPStatus
from operator import attrgetter

from app.answers.kept import Headers
from app.answers.second_chance import SecondChance
from app.edge.exchange import FROM_MEMORY, new_id

EXTENSION = "kvmath.request"
"""Of a request's scope: its `bytes`, where they came alone and whole."""
MAX_REQUEST_BYTES = 2048
AGING_S = 1
"""How long an answer that ages is known: what it says of its age is then said anew."""
_ENTRY_BYTES = 1024
"""Objects and the container's own share of an entry, rounded up."""

_HARMLESS = frozenset(
    {b"host", b"user-agent", b"accept", b"accept-encoding", b"accept-language", b"if-none-match"}
)
"""Headers that mean the same each time they come, whatever their values."""


class Known:
    """The answer to a request for `path`, but for the date and the id that each has of its own.

    It is one until the clock reads `until`; for good where that is None.
    """

    __slots__ = ("asked", "begin", "body", "path", "rest", "size", "status", "until")

    def __init__(
        self, path: str, until: float | None, status: int, headers: Headers, body: bytes
    ) -> None:
        self.until = until
        self.asked = False
        self.path = path
        self.status = status
        self.begin = status_line(status)
        self.rest = b"%bx-request-id: " % lines([*headers, FROM_MEMORY])
        self.body = body
        self.size = len(self.rest) + len(body) + _ENTRY_BYTES


class Front:
    """The answers, bounded by bytes; none that depends on who asks."""

    def __init__(self, max_bytes: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: SecondChance[bytes, Known] = SecondChance(max_bytes, attrgetter("size"))
        self._general: Sequence[tuple[bytes, bytes]] = ()
        self._general_lines = b""

    def learn(self, request: bytes, given: Headers, known: Known) -> None:
        """Keep what a request with these header fields was answered with.

        Unless it may mean something else when it comes again, or takes too much of the room.
        """
        known.size += len(request)
        if len(request) <= MAX_REQUEST_BYTES and all(_harmless(*header) for header in given):
            self._known.put(request, known)

    @property
    def size(self) -> int:
        """Bytes held, at most."""
        return self._known.size

    def answer(
        self, request: bytes, general: Sequence[tuple[bytes, bytes]]
    ) -> tuple[Known, bytes, bytes] | None:
        """What is known of these bytes, the id of this answer, and what to send; or None.

        `general` are the fields that the server gives every answer; a new object where they change.
        """
        known = self._known.find(request)
        if known is None:
            return None
        if known.until is not None and self._clock() >= known.until:
            self._known.forget(request)
            return None
        if general is not self._general:
            self._general, self._general_lines = general, lines(general)
        request_id = new_id()
        parts = known.begin, self._general_lines, known.rest, request_id, known.body
        return known, request_id, b"%b%b%b%b\r\n\r\n%b" % parts


def status_line(status: int) -> bytes:
    """The first line of an answer."""
    return b"HTTP/1.1 %d %b\r\n" % (status, HTTPStatus(status).phrase.encode())


def lines(headers: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Header fields as they are sent."""
    return b"".join([b"%b: %b\r\n" % header for header in headers])


def _harmless(name: bytes, value: bytes) -> bool:
    return name in _HARMLESS or (name == b"connection" and value.lower() == b"keep-alive")
