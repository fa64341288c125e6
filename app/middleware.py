"""What happens to every request before and after routing, in one pure ASGI layer.

One layer and not five: each costs a call and two closures a request. In order of appearance:
room for one more request, the ids, the limits on target, headers and body, HEAD as GET without
a body, the answer for what nobody caught, ETag and 304, and the headers of every answer.
"""

import hashlib
import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.errors import KvmathError, Overloaded, TooLarge
from app.problems import Kind, problem, respond

_log = logging.getLogger("kvmath")
_SAFE_ID = re.compile(rb"[A-Za-z0-9._-]{1,128}")
# https://www.w3.org/TR/trace-context/#traceparent-header
_TRACEPARENT = re.compile(rb"00-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-([0-9a-f]{2})")
_DETERMINISTIC = frozenset({"GET", "HEAD", "POST"})
_NOT_IN_304 = frozenset({b"content-length", b"content-type"})
_TARGET_TOO_LONG = Kind(status=414, slug="uri-too-long", title="URI too long")
_HEADERS_TOO_LARGE = Kind(status=431, slug="headers-too-large", title="Header fields too large")


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What a single request, and all together, may take.

    Attributes:
        body_bytes: Largest body.
        body_bytes_at: Largest body by path, where it differs.
        target_bytes: Path and query string together.
        header_bytes: Names and values of all header fields together.
        requests: Requests in flight.
    """

    body_bytes: int
    body_bytes_at: Mapping[str, int]
    target_bytes: int
    header_bytes: int
    requests: int


class Edge:
    """The layer. Everything that FastAPI routes passes through it once."""

    def __init__(self, app: ASGIApp, *, limits: Limits, max_age_s: int) -> None:
        self.app = app
        self.limits = limits
        self.cache_control = f"public, max-age={max_age_s}".encode()
        self.in_flight = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request; lifespan events pass untouched."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        exchange = _Exchange(scope, send, self.cache_control)
        scope = exchange.scope
        self.in_flight += 1
        try:
            if (refusal := self._refusal(exchange)) is not None:
                await refusal(scope, receive, exchange.send)
                return
            if exchange.has_body:
                receive = await self._bounded_body(scope, receive, exchange)
            await self.app(scope, receive, exchange.send)
        except KvmathError as error:
            await exchange.replace(respond(scope, error), receive)
        except Exception as error:
            _log.exception("request %s failed", exchange.request_id)
            if exchange.started:
                raise
            await exchange.replace(respond(scope, error), receive)
        finally:
            self.in_flight -= 1

    def _refusal(self, exchange: "_Exchange") -> Response | None:
        """Why this request is not even looked at, or None."""
        limits, scope = self.limits, exchange.scope
        path: str = scope["path"]
        if self.in_flight > limits.requests and path not in {"/livez", "/readyz"}:
            return respond(scope, Overloaded())
        if len(path) + len(scope["query_string"]) > limits.target_bytes:
            detail = f"Path and query string are over {limits.target_bytes} bytes; use POST."
            return problem(scope, _TARGET_TOO_LONG, detail)
        if exchange.header_bytes > limits.header_bytes:
            detail = f"The header fields are over {limits.header_bytes} bytes."
            return problem(scope, _HEADERS_TOO_LARGE, detail)
        return None

    async def _bounded_body(self, scope: Scope, receive: Receive, exchange: "_Exchange") -> Receive:
        """Read the body up to its limit and hand it on in one piece.

        Raises:
            TooLarge: by the declared length before a byte is read, or while reading.
        """
        limit = self.limits.body_bytes_at.get(scope["path"], self.limits.body_bytes)
        if exchange.content_length > limit:
            raise TooLarge(f"The body is over {limit} bytes.", extra={"limit_bytes": limit})
        message = await receive()
        if message.get("more_body", False):
            body = bytearray(message.get("body", b""))
            while message.get("more_body", False):
                if len(body) > limit:
                    break
                message = await receive()
                body += message.get("body", b"")
            if message["type"] == "http.request":
                message = {"type": "http.request", "body": bytes(body), "more_body": False}
        if len(message.get("body", b"")) > limit:
            raise TooLarge(f"The body is over {limit} bytes.", extra={"limit_bytes": limit})
        first: Message | None = message

        async def replay() -> Message:
            nonlocal first
            if first is None:
                return await receive()
            message, first = first, None
            return message

        return replay


class _Exchange:
    """One request and its answer: what was read from its headers, and where the answer stands."""

    __slots__ = (
        "_cache_control",
        "_head",
        "_if_none_match",
        "_parent",
        "_send",
        "_start",
        "_started_at",
        "content_length",
        "has_body",
        "header_bytes",
        "request_id",
        "scope",
        "started",
    )

    def __init__(self, scope: Scope, send: Send, cache_control: bytes) -> None:
        self._started_at = perf_counter()
        self.scope = scope
        self._send = send
        self._cache_control = cache_control
        self._start: Message | None = None
        self.started = False
        self._if_none_match: bytes | None = None
        self.content_length = 0
        self.has_body = False
        given_id: bytes | None = None
        given_parent: bytes | None = None
        size = 0
        for name, value in scope["headers"]:
            size += len(name) + len(value)
            if name == b"content-length":
                self.content_length = int(value) if value.isdigit() else 0
                self.has_body = True
            elif name == b"transfer-encoding":
                self.has_body = True
            elif name == b"if-none-match":
                self._if_none_match = value
            elif name == b"x-request-id":
                given_id = value
            elif name == b"traceparent":
                given_parent = value
        self.header_bytes = size
        noise = os.urandom(24).hex().encode()
        trace, flags = noise[:32], b"00"
        if given_parent and (match := _TRACEPARENT.fullmatch(given_parent)):
            trace, flags = match.groups()
        self._parent = b"00-%b-%b-%b" % (trace, noise[32:], flags)
        usable = given_id if given_id and _SAFE_ID.fullmatch(given_id) else trace
        self.request_id = scope["request_id"] = usable.decode()
        self._head = scope["method"] == "HEAD"
        if self._head:  # a copy, since the server goes by its own scope's method
            self.scope = {**scope, "method": "GET"}

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
            self.started = True
            await self._send(start)
        if self._head and message["type"] == "http.response.body":
            message = {**message, "body": b""}
        await self._send(message)

    async def replace(self, response: Response, receive: Receive) -> None:
        """Answer with ``response`` in place of what was begun and not yet sent."""
        self._start = None
        await response(self.scope, receive, self.send)

    def _finish(self, start: Message, body: bytes | None) -> bool:
        """Complete the headers in place; True where the answer became a 304 without a body.

        ``body`` is the whole body, or None where it comes in pieces and so has no ETag of ours.
        """
        headers: list[tuple[bytes, bytes]] = list(start["headers"])
        unchanged = False
        if start["status"] == 200 and self.scope["method"] in _DETERMINISTIC:
            given = {name: value for name, value in headers if name in {b"cache-control", b"etag"}}
            if b"cache-control" not in given:
                headers.append((b"cache-control", self._cache_control))
            if body is not None and b"no-store" not in given.get(b"cache-control", b""):
                etag = given.get(b"etag")
                if etag is None:
                    etag = b'"%b"' % hashlib.sha256(body).hexdigest()[:32].encode()
                    headers.append((b"etag", etag))
                if self._if_none_match is not None and _names(self._if_none_match, etag):
                    unchanged = True
                    start["status"] = 304
                    headers = [header for header in headers if header[0] not in _NOT_IN_304]
        took_ms = (perf_counter() - self._started_at) * 1e3
        headers += (
            (b"x-request-id", self.request_id.encode()),
            (b"traceparent", self._parent),
            (b"server-timing", b"app;dur=%.3f" % took_ms),
        )
        start["headers"] = headers
        return unchanged


def _names(if_none_match: bytes, etag: bytes) -> bool:
    """Whether an If-None-Match field names the entity tag, by weak comparison (RFC 9110, 13.1.2)."""
    bare = etag.removeprefix(b"W/")
    return any(tag.strip().removeprefix(b"W/") in {bare, b"*"} for tag in if_none_match.split(b","))
