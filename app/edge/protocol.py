"""uvicorn's protocol, but for two things: a request that is known is answered before it is parsed, and
what comes before and beside a body is bounded in bytes and in time.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from app.edge.edge import Edge
from app.edge.front import EXTENSION

LINGER_S = 1.0
"""How long a caller that was cut off may take to notice."""


class EdgeProtocol(HttpToolsProtocol):
    """One connection of a service that has an `Edge`.

    The parser gathers the request line and all fields before the service sees any of them: without
    a bound here one caller could fill the memory. What frames a body in chunks may be as long as
    the body.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._edge: Edge = self.config.loaded_app.edge
        self._between_requests = True
        self._alone: bytes | None = None
        self._beside_body = 0
        self._head_begun = False
        self._late: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self._cut_off = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn's
        """Somebody is there; what is wanted has to follow."""
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is there any more."""
        super().connection_lost(exc)
        self._has_head()
        if self._stalled is not None:
            self._stalled.cancel()

    def data_received(self, data: bytes) -> None:
        """Answer a request that is known; else parse what came."""
        if self._cut_off:
            return
        if self._between_requests:
            free = not self.flow.write_paused and not self.transport.is_closing()
            if free and _is_over(self.cycle):
                answer = self._edge.known_answer(data, self.server_state.default_headers)
                if answer is not None:
                    self._has_head()
                    self.transport.write(answer)
                    self.on_response_complete()
                    return
            # One head and nothing else: no body, no other request, and no part of one.
            if data.startswith(b"GET ") and data.find(b"\r\n\r\n") == len(data) - 4:
                self._alone = data
        self._beside_body += len(data)
        super().data_received(data)
        self._alone = None
        if self._beside_body > self._edge.most_beside_body and not self.transport.is_closing():
            self._hang_up(late=False)
        elif self._head_begun or (self._between_requests and _is_over(self.cycle)):
            self._expect_head()

    def pause_writing(self) -> None:
        """The caller does not read as fast as it is answered."""
        super().pause_writing()
        self._stalled = self.loop.call_later(self._edge.limits.seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """The caller has read on."""
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def on_message_begin(self) -> None:
        """The parser has met the first byte of a request."""
        super().on_message_begin()
        self._between_requests, self._head_begun = False, True
        if self._alone is not None:
            self.scope["extensions"] = {EXTENSION: {"bytes": self._alone}}

    def on_headers_complete(self) -> None:
        """The parser has met the end of a head."""
        super().on_headers_complete()
        self._head_begun = False
        self._has_head()

    def on_body(self, body: bytes) -> None:
        """The parser has met a piece of a body."""
        super().on_body(body)
        self._beside_body -= 2 * len(body)

    def on_message_complete(self) -> None:
        """The parser has met the last byte of a request."""
        super().on_message_complete()
        self._between_requests = True
        self._beside_body = 0

    def _expect_head(self) -> None:
        """From now on a whole head has a request's time to come; later bytes do not prolong it."""
        if self._late is None:
            self._late = self.loop.call_later(self._edge.limits.seconds, self._on_late)

    def _has_head(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _on_late(self) -> None:
        self._late = None
        if not _is_over(self.cycle):  # the rest may wait for us: read on only after an answer
            self._expect_head()
        elif self._head_begun:
            self._hang_up(late=True)
        else:
            self.transport.close()

    def _hang_up(self, *, late: bool) -> None:
        """Say why, unless an answer is under way, and read no more.

        Closed at once, what is still on its way would have the system take the words back.
        """
        self._cut_off = True
        self._has_head()
        if not _is_over(self.cycle):
            self.transport.close()
            return
        self.transport.write(self._edge.cut_off(late=late))
        self.transport.write_eof()
        self.loop.call_later(LINGER_S, self.transport.close)


def _is_over(cycle: RequestResponseCycle | None) -> bool:
    """Whether no answer is under way on the connection, before which another may not be sent."""
    return cycle is None or cycle.response_complete
