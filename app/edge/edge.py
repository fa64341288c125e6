"""What happens to every request before and after routing, in one pure ASGI layer.

One layer and not five: each costs a call and two closures a request. In order of appearance: an
answer that is there already, ids, room for one more request, the limits on target and headers, the
deadline, the caller's key and its rate, the limits on the body, HEAD as GET without a body, the
answer for what nobody caught, ETag and 304, the headers of every answer, and a line in the journal.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.answers.kept import AnswerCache, Answered, key_of
from app.edge.exchange import Exchange, images_of, new_id
from app.edge.front import AGING_S, EXTENSION, Front, Known, lines, status_line
from app.edge.journal import Journal
from app.edge.keys import ALWAYS_OPEN, Gate
from app.errors import DeadlinePassed, KvmathError, Overloaded, TooLarge
from app.json_size import holds_more
from app.problems import Kind, problem, respond

_log = logging.getLogger("kvmath")
_KEPT = frozenset({"GET", "HEAD"})
_TARGET_TOO_LONG = Kind(status=414, slug="uri-too-long", title="URI too long")
_HEADERS_TOO_LARGE = Kind(status=431, slug="headers-too-large", title="Header fields too large")
_TOO_SLOW = Kind(status=408, slug="request-timeout", title="Request timeout")


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What a single request, and all together, may take.

    Attributes:
        body_bytes: Largest body.
        body_bytes_at: Largest body by path, where it differs.
        values: Most values in a JSON body.
        values_at: Most values by path, where it differs.
        bodies_bytes: All bodies in memory together.
        target_bytes: Path and query string together.
        header_bytes: Names and values of all header fields together.
        requests: Requests in flight.
        seconds: From a request's arrival to its answer.
    """

    body_bytes: int
    body_bytes_at: Mapping[str, int]
    values: int
    values_at: Mapping[str, int]
    bodies_bytes: int
    target_bytes: int
    header_bytes: int
    requests: int
    seconds: float


class Edge:
    """The layer. Everything that FastAPI routes passes through it once."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        limits: Limits,
        max_age_s: int,
        answers: AnswerCache,
        front: Front,
        journal: Journal,
        gate: Gate | None,
    ) -> None:
        self.app = app
        self.limits = limits
        self.answers = answers
        self.front = front
        self.journal = journal
        self.gate = gate
        shared = b"private" if gate is not None else b"public"
        self.cache_control = b"%b, max-age=%d" % (shared, max_age_s)
        self.in_flight = 0
        self.bodies_bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request; lifespan events pass untouched."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        given = dict(scope["headers"])
        key = kept = None
        if scope["method"] in _KEPT:
            key = key_of("query", scope["path"], scope["query_string"], images_of(given))
            kept = self.answers.get(key)
        exchange = Exchange(
            scope, send, given, key, cache_control=self.cache_control, clock=self.answers.clock
        )
        try:
            if kept is not None and self.gate is None:
                await self._give(exchange, kept)
                self._learn(exchange, kept)
            else:
                await self._serve(exchange, kept, receive)
        finally:
            self.journal.write(exchange.entry())

    def known_answer(self, request: bytes, general: Sequence[tuple[bytes, bytes]]) -> bytes | None:
        """What to send to a caller that asks in bytes that the front knows, or None.

        `general` are the fields that the server gives every answer.
        """
        began = perf_counter()
        found = self.front.answer(request, general)
        if found is None:
            return None
        known, request_id, answer = found
        path, status, took_s = known.path, known.status, perf_counter() - began
        self.journal.write(
            ("GET", path, path, status, took_s, 0, len(known.body), request_id, True, "")
        )
        return answer

    @property
    def most_beside_body(self) -> int:
        """Bytes of a request that are no body, separators between its fields and all: a bound for
        who cannot tell them apart yet."""
        return 4 * (self.limits.header_bytes + self.limits.target_bytes)

    def cut_off(self, *, late: bool) -> bytes:
        """What to send to a caller whose header fields have no end, or do not come, before it is
        hung up on."""
        request_id = new_id()
        scope: Scope = {"path": "", "request_id": request_id.decode()}
        if late:
            detail = f"The header fields did not arrive within {self.limits.seconds:g} s."
            refusal = problem(scope, _TOO_SLOW, detail)
        else:
            refusal = self._headers_too_large(scope)
        status, body = refusal.status_code, bytes(refusal.body)
        self.journal.write(("", "", "other", status, 0.0, 0, len(body), request_id, False, ""))
        own = [(b"x-request-id", request_id), (b"connection", b"close")]
        return b"%b%b\r\n%b" % (status_line(status), lines([*refusal.raw_headers, *own]), body)

    def _learn(self, exchange: Exchange, kept: Answered) -> None:
        """Have the next such request answered before it is parsed."""
        scope = exchange.scope
        request = scope.get("extensions", {}).get(EXTENSION)
        if request is None or scope["http_version"] != "1.1":
            return
        until = None
        if kept.fresh_until is not None:
            until = min(kept.fresh_until, self.answers.clock() + AGING_S)
        known = Known(exchange.path, until, *exchange.as_asked(kept, ahead_s=AGING_S))
        self.front.learn(request["bytes"], scope["headers"], known)

    async def _serve(self, exchange: Exchange, kept: Answered | None, receive: Receive) -> None:
        """Answer a caller that may ask: from memory, perhaps once the body is known, else by routing.

        All within the limits.
        """
        scope = exchange.scope
        exchange.identify()
        scope["exchange"] = exchange
        self.in_flight += 1
        deadline = asyncio.timeout(self.limits.seconds)
        try:
            if (refusal := self._refusal(exchange)) is not None:
                await refusal(scope, receive, exchange.send)
                return
            async with deadline:
                await self._admit(exchange)
                if kept is None and exchange.has_body:
                    receive = await self._read_body(exchange, receive)
                    kept = None if exchange.key is None else self.answers.get(exchange.key)
                if kept is not None:
                    await self._give(exchange, kept)
                else:
                    await self.app(scope, receive, exchange.send)
        except KvmathError as error:
            await exchange.replace(respond(scope, error), receive)
        except Exception as error:
            if isinstance(error, TimeoutError) and deadline.expired():
                if exchange.started:  # the server hangs up on an answer that has no end
                    _log.warning("request %s broken off: its time is up", scope["request_id"])
                else:
                    await exchange.replace(self._too_late(exchange), receive)
                return
            _log.exception("request %s failed", scope["request_id"])
            if exchange.started:
                raise
            await exchange.replace(respond(scope, error), receive)
        finally:
            exchange.over()
            del scope["exchange"]  # else the two would keep each other alive until collected
            self.in_flight -= 1
            self.bodies_bytes -= exchange.held_bytes

    async def _admit(self, exchange: Exchange) -> None:
        refused = None if self.gate is None else await self.gate.admit(exchange)
        if refused is not None:
            raise refused

    async def _give(self, exchange: Exchange, kept: Answered) -> None:
        exchange.hit = True
        await exchange.give(kept)

    def _refusal(self, exchange: Exchange) -> Response | None:
        """Why this request is not even looked at, or None."""
        limits, scope = self.limits, exchange.scope
        path: str = scope["path"]
        if self.in_flight > limits.requests and path not in ALWAYS_OPEN:
            return respond(scope, Overloaded())
        target = scope.get("raw_path") or path  # ASGI lets a server leave it out
        if len(target) + len(scope["query_string"]) > limits.target_bytes:
            detail = f"Path and query string are over {limits.target_bytes} bytes; use POST."
            return problem(scope, _TARGET_TOO_LONG, detail)
        if exchange.header_bytes > limits.header_bytes:
            return self._headers_too_large(scope)
        return None

    def _headers_too_large(self, scope: Scope) -> Response:
        detail = f"The header fields are over {self.limits.header_bytes} bytes."
        return problem(scope, _HEADERS_TOO_LARGE, detail)

    def _too_late(self, exchange: Exchange) -> Response:
        seconds = self.limits.seconds
        if exchange.has_body and not exchange.body_read:
            detail = f"The body did not arrive within {seconds:g} s."
            return problem(exchange.scope, _TOO_SLOW, detail)
        return respond(exchange.scope, DeadlinePassed(seconds))

    async def _read_body(self, exchange: Exchange, receive: Receive) -> Receive:
        """Read the body up to its limit and hand it on in one piece.

        Raises:
            TooLarge: by the declared length before a byte is read, or while reading.
            Overloaded: there is no room for it beside the other bodies.
        """
        path: str = exchange.scope["path"]
        limit = self.limits.body_bytes_at.get(path, self.limits.body_bytes)
        if exchange.content_length > limit:
            raise _too_large(limit)
        self._hold(exchange, exchange.content_length)
        message = await receive()
        body = message.get("body", b"")
        if message.get("more_body", False):
            pieces = bytearray(body)
            while message.get("more_body", False):
                if len(pieces) > limit:
                    break
                message = await receive()
                pieces += message.get("body", b"")
                self._hold(exchange, len(pieces) - exchange.held_bytes)
            body = bytes(pieces)
        if len(body) > limit:
            raise _too_large(limit)
        values = self.limits.values_at.get(path, self.limits.values)
        if exchange.says_json and holds_more(body, values):
            raise TooLarge(f"The body holds over {values} values.", extra={"limit_values": values})
        exchange.know_body(body)
        whole = {"type": "http.request", "body": body, "more_body": False}
        first: Message | None = whole if message["type"] == "http.request" else message

        async def replay() -> Message:
            nonlocal first
            if first is None:
                return await receive()
            message, first = first, None
            return message

        return replay

    def _hold(self, exchange: Exchange, more: int) -> None:
        """Count bytes of a body in memory, until the request is over."""
        if more <= 0:
            return
        if self.bodies_bytes + more > self.limits.bodies_bytes:
            raise Overloaded("Too many bytes of request bodies at once.")
        self.bodies_bytes += more
        exchange.held_bytes += more


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"The body is over {limit} bytes.", extra={"limit_bytes": limit})
