"""One request and its answer: what was read from its headers, and where the answer stands."""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from time import perf_counter

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from app.answers.kept import Answered, Headers, Key, etag_of, key_of
from app.edge.journal import Entry

_SAFE_ID = re.compile(rb"[A-Za-z0-9._-]{1,128}")
# https://www.w3.org/TR/trace-context/#traceparent-header
_TRACEPARENT = re.compile(rb"00-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-([0-9a-f]{2})")
_DETERMINISTIC = frozenset({"GET", "HEAD", "POST"})
FROM_MEMORY = (b"server-timing", b"memory")
_NOT_IN_304 = frozenset({b"content-length", b"content-type"})


def _noise() -> Iterator[bytes]:
    """Random hexadecimal digits, 32 at a time, drawn from the system by the thousand."""
    while True:
        pool = os.urandom(16 * 256).hex().encode()
        for start in range(0, len(pool), 32):
            yield pool[start : start + 32]


new_id = _noise().__next__
"""A random id: 32 hexadecimal digits."""


def images_of(given: Mapping[bytes, bytes]) -> bytes:
    """The Accept header where it is one that another answer may be given for, else nothing."""
    accept = given.get(b"accept", b"").lower()
    return accept if accept.startswith(b"image/") else b""


class Exchange:
    """What one request needs on its way in and out."""

    # What most requests leave as it is.
    hit = False
    caller = ""
    took_s = 0.0
    status = 0
    sent_bytes = 0
    held_bytes = 0
    body_read = False
    body = b""
    request_id = b""
    more_headers: tuple[tuple[bytes, bytes], ...] = ()
    _start: Message | None = None

    def __init__(
        self,
        scope: Scope,
        send: Send,
        given: Mapping[bytes, bytes],
        key: Key | None,
        *,
        cache_control: bytes,
        clock: Callable[[], float],
    ) -> None:
        self._started_at = perf_counter()
        self._send = send
        self._given = given
        self._clock = clock
        self.key = key
        self.cache_control = cache_control
        self.method: str = scope["method"]
        self.scope = scope
        if self.method == "HEAD":  # a copy, since the server goes by its own scope's method
            self.scope = {**scope, "method": "GET"}

    def identify(self) -> None:
        """Take over the caller's ids, where it sends sound ones; else make them."""
        given = self._given
        self.request_id = new_id()
        if b"traceparent" in given:
            flags = b"00"
            if match := _TRACEPARENT.fullmatch(given[b"traceparent"]):
                self.request_id, flags = match.groups()
            own = b"00-%b-%b-%b" % (self.request_id, new_id()[:16], flags)
            self.more_headers = (*self.more_headers, (b"traceparent", own))
        if b"x-request-id" in given and _SAFE_ID.fullmatch(given[b"x-request-id"]):
            self.request_id = given[b"x-request-id"]
        self.scope["request_id"] = self.request_id.decode()

    @property
    def started(self) -> bool:
        """Whether something of the answer has left."""
        return self.status != 0

    @property
    def path(self) -> str:
        """What was asked for, without the query."""
        path: str = self.scope["path"]
        return path

    def entry(self) -> Entry:
        """What the journal is told."""
        return (
            self.method,
            self.path,
            self.route,
            self.status,
            self.took_s,
            self.held_bytes,
            self.sent_bytes,
            self.request_id,
            self.hit,
            self.caller,
        )

    @property
    def route(self) -> str:
        """The pattern of the path: of these there are few."""
        return self.path if self.hit else getattr(self.scope.get("route"), "path", "other")

    @property
    def header_bytes(self) -> int:
        """Names and values of the header fields together."""
        return sum([len(name) + len(value) for name, value in self.scope["headers"]])

    @property
    def has_body(self) -> bool:
        """Whether a body comes with the request."""
        return b"content-length" in self._given or b"transfer-encoding" in self._given

    @property
    def content_length(self) -> int:
        """Bytes of the body as declared, or 0."""
        length = self._given.get(b"content-length", b"")
        return int(length) if length.isdigit() else 0

    @property
    def is_json(self) -> bool:
        """Whether the body is declared as JSON in the usual words."""
        return self._given.get(b"content-type") == b"application/json"

    @property
    def says_json(self) -> bool:
        """Whether the body is declared as JSON in any words."""
        return b"json" in self._given.get(b"content-type", b"").lower()

    @property
    def credentials(self) -> bytes | None:
        """What the caller sends to be known by."""
        return self._given.get(b"authorization") or self._given.get(b"x-api-key")

    def know_body(self, body: bytes) -> None:
        """The whole body is there: what was asked can be named."""
        self.body_read = True
        self.body = body
        if self.is_json and not self.scope["query_string"] and self.method == "POST":
            self.key = key_of("body", self.scope["path"], body, images_of(self._given))

    def as_asked(self, answer: Answered, ahead_s: int = 0) -> tuple[int, Headers, bytes]:
        """Status, header fields and body of an answer to this request, sent within `ahead_s`
        seconds; 304 where the caller has it.

        The fields without those that each answer has of its own: ids and timing.
        """
        plain = answer.fresh_until is None and not answer.stale
        cache_control = self.cache_control if plain else self._keep_for(answer, ahead_s)
        headers = [*answer.headers, (b"cache-control", cache_control)]
        wanted = self._given.get(b"if-none-match")
        if wanted is not None and _names(wanted, answer.etag):
            return 304, [field for field in headers if field[0] not in _NOT_IN_304], b""
        return 200, headers, b"" if self.method == "HEAD" else answer.body

    async def give(self, answer: Answered) -> None:
        """Send an answer that is whole."""
        if not self.request_id:
            self.identify()
        self.status, headers, body = self.as_asked(answer)
        headers += (
            (b"x-request-id", self.request_id),
            FROM_MEMORY if self.hit else self._timing(),
            *self.more_headers,
        )
        self.sent_bytes = len(body)
        start = {"type": "http.response.start", "status": self.status, "headers": headers}
        await self._send(start)
        await self._send({"type": "http.response.body", "body": body})
        self.took_s = perf_counter() - self._started_at

    async def send(self, message: Message) -> None:
        """Pass the answer on; its start waits for the first piece of its body, for the ETag."""
        if message["type"] == "http.response.start":
            self._start = message
            return
        start, self._start = self._start, None
        if start is not None:
            body = None if message.get("more_body", False) else message.get("body")
            if self._finish(start, body):
                message = {"type": "http.response.body", "body": b""}
            self.status = start["status"]
            await self._send(start)
        if self.method == "HEAD" and message["type"] == "http.response.body":
            message = {**message, "body": b""}
        self.sent_bytes += len(message.get("body", b""))
        await self._send(message)

    async def replace(self, response: Response, receive: Receive) -> None:
        """Answer with `response` in place of what was begun and not yet sent."""
        self._start = None
        await response(self.scope, receive, self.send)

    def over(self) -> None:
        """The answer has been sent, in however many pieces."""
        self.took_s = perf_counter() - self._started_at

    def _keep_for(self, answer: Answered, ahead_s: int) -> bytes:
        """Cache-Control of an answer that ages: for what is left of the name's freshness."""
        if answer.stale:
            return b"no-cache"
        shared, _, longest = self.cache_control.partition(b"=")
        left = (answer.fresh_until or 0) - self._clock() - ahead_s
        return b"%b=%d" % (shared, max(0, min(int(longest), int(left))))

    def _finish(self, start: Message, body: bytes | None) -> bool:
        """Complete the headers in place; True where the answer became a 304 without a body.

        ``body`` is the whole body, or None where it comes in pieces and so has no ETag of ours.
        """
        headers: Headers = list(start["headers"])
        unchanged = False
        if start["status"] == 200 and self.scope["method"] in _DETERMINISTIC:
            given = {name: value for name, value in headers if name in {b"cache-control", b"etag"}}
            if b"cache-control" not in given:
                headers.append((b"cache-control", self.cache_control))
            if body is not None and b"no-store" not in given.get(b"cache-control", b""):
                etag = given.get(b"etag")
                if etag is None:
                    etag = etag_of(body)
                    headers.append((b"etag", etag))
                if (wanted := self._given.get(b"if-none-match")) is not None and _names(
                    wanted, etag
                ):
                    unchanged = True
                    start["status"] = 304
                    headers = [header for header in headers if header[0] not in _NOT_IN_304]
        headers += ((b"x-request-id", self.request_id), self._timing(), *self.more_headers)
        start["headers"] = headers
        return unchanged

    def _timing(self) -> tuple[bytes, bytes]:
        took_ms = (perf_counter() - self._started_at) * 1e3
        return b"server-timing", b"app;dur=%.3f" % took_ms


class AnsweredResponse(Response):
    """A whole answer, for a route to return."""

    background = None
    status_code = 200

    def __init__(self, answer: Answered) -> None:
        # Not the base's: the headers it would make are not those that are sent.
        self.answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it as the exchange sends answers from memory."""
        exchange: Exchange = scope["exchange"]
        await exchange.give(self.answer)


def _names(if_none_match: bytes, etag: bytes) -> bool:
    """Whether an If-None-Match field names the entity tag, by weak comparison (RFC 9110, 13.1.2)."""
    bare = etag.removeprefix(b"W/")
    return any(tag.strip().removeprefix(b"W/") in {bare, b"*"} for tag in if_none_match.split(b","))
