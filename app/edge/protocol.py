"""uvicorn's protocol, which lets the front look at a request's bytes before it parses them."""

from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from app.edge.front import EXTENSION, Front


class FrontProtocol(HttpToolsProtocol):
    """One connection. What the front does not know goes the usual way."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._front: Front | None = getattr(self.config.loaded_app, "front", None)
        self._between_requests = True
        self._alone: bytes | None = None

    def data_received(self, data: bytes) -> None:
        """Answer a request that is known, or parse what came."""
        if self._between_requests and self._front is not None:
            free = not self.flow.write_paused and not self.transport.is_closing()
            if free and _is_over(self.cycle):
                answer = self._front.answer(data, self.server_state.default_headers)
                if answer is not None:
                    self.transport.write(answer)
                    self.on_response_complete()
                    return
            # One head and nothing else: no body, no other request, and no part of one.
            if data.startswith(b"GET ") and data.find(b"\r\n\r\n") == len(data) - 4:
                self._alone = data
        super().data_received(data)
        self._alone = None

    def on_message_begin(self) -> None:
        """The parser has met the first byte of a request."""
        super().on_message_begin()
        self._between_requests = False
        if self._alone is not None:
            self.scope["extensions"] = {EXTENSION: {"bytes": self._alone}}

    def on_message_complete(self) -> None:
        """The parser has met the last byte of a request."""
        super().on_message_complete()
        self._between_requests = True


def _is_over(cycle: RequestResponseCycle | None) -> bool:
    """Whether no answer is under way on the connection, before which another may not be sent."""
    return cycle is None or cycle.response_complete
