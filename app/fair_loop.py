"""An event loop for one of several workers that listen on one socket: it leaves some for the rest,
and it ends when their parent is gone.

Whichever worker wakes first would take every connection that waits, and then answer one after the
other while its siblings idle. Here it takes one, gives them a moment, and takes what then still
waits: by that time they are busy too.
"""

import asyncio
import multiprocessing
import signal
import socket
from collections.abc import Callable
from typing import Any

import uvloop

MOMENT_S = 0.005
NO_ROOM_S = 1.0
_MOST_AT_ONCE = 256


class FairLoop(uvloop.Loop):
    """uvloop, but for how it accepts connections from a socket that is handed to it."""

    async def create_server(  # type: ignore[override] # as uvicorn calls it
        self, protocol_factory: Callable[[], Any], *, sock: socket.socket, backlog: int, ssl: Any
    ) -> "FairServer":
        """Listen on a socket that others listen on as well."""
        if ssl is not None:
            raise NotImplementedError("workers behind a proxy speak plain HTTP")
        sock.setblocking(False)
        sock.listen(backlog)
        parent = multiprocessing.parent_process()
        if parent is not None:
            self.add_reader(parent.sentinel, self._orphaned, parent.sentinel)
        return FairServer(self, sock, protocol_factory)

    def _orphaned(self, sentinel: int) -> None:
        """The parent was killed: nobody is left who would pass SIGTERM on."""
        self.remove_reader(sentinel)
        signal.raise_signal(signal.SIGTERM)


class FairServer:
    """What uvicorn takes for a server: it is closed, and waited for."""

    def __init__(
        self, loop: FairLoop, sock: socket.socket, protocol_factory: Callable[[], Any]
    ) -> None:
        self._loop = loop
        self._sock = sock
        self._protocol_factory = protocol_factory
        self._tasks: set[asyncio.Task[Any]] = set()
        self._later: asyncio.TimerHandle | None = None
        loop.add_reader(sock, self._ready)

    def close(self) -> None:
        """Take no further connection."""
        self._loop.remove_reader(self._sock)
        if self._later is not None:
            self._later.cancel()

    async def wait_closed(self) -> None:
        """Wait for the connections that are being taken."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _ready(self) -> None:
        self._pause(MOMENT_S if self._take() else 0)

    def _rest(self) -> None:
        self._later = None
        for _ in range(_MOST_AT_ONCE):
            if not self._take():
                break
        if self._later is None:
            self._loop.add_reader(self._sock, self._ready)

    def _pause(self, seconds: float) -> None:
        if seconds and self._later is None:
            self._loop.remove_reader(self._sock)
            self._later = self._loop.call_later(seconds, self._rest)

    def _take(self) -> bool:
        try:
            connection, _ = self._sock.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return False  # a sibling was quicker, or the caller is gone
        except OSError:  # no files or memory left: what waits would wake us at once, and again
            self._pause(NO_ROOM_S)
            return False
        taking = self._loop.create_task(
            self._loop.connect_accepted_socket(self._protocol_factory, connection)
        )
        self._tasks.add(taking)
        taking.add_done_callback(self._tasks.discard)
        return True
