"""How a worker takes connections from the socket that it shares with its siblings."""

import asyncio
import os
import resource
import socket
import struct
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from app import fair_loop
from app.fair_loop import FairLoop, FairServer

HANG_UP = struct.pack("ii", 1, 0)  # SO_LINGER: a reset, and at once


class Listening(socket.socket):
    """A socket that listens on loopback, and counts how often it is asked for a connection."""

    accepts = 0

    def accept(self) -> Any:
        self.accepts += 1
        return super().accept()


class Echo(asyncio.Protocol):
    """A connection that was taken; says back what it is told."""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


class Worker:
    """A server on a socket of its own, and the connections that it took."""

    def __init__(self) -> None:
        self.taken: list[Echo] = []
        self.callers: list[socket.socket] = []
        self.server: FairServer | None = None
        self.socket = Listening()
        self.socket.bind(("127.0.0.1", 0))
        self.socket.listen()

    def run(self, test: Callable[[], Awaitable[None]]) -> None:
        """On its loop, with all that is open closed at the end: a loop with readers never closes."""

        async def main() -> None:
            try:
                await test()
            finally:
                if self.server is not None:
                    self.server.close()
                    await asyncio.gather(*self.server._tasks)
                for each in self.taken:
                    each.transport.close()
                await asyncio.sleep(0)

        with asyncio.Runner(loop_factory=FairLoop) as runner:
            runner.run(main())

    async def serve(self) -> FairServer:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, FairLoop)
        self.server = await loop.create_server(self._take, sock=self.socket, backlog=100, ssl=None)
        return self.server

    def _take(self) -> Echo:
        self.taken.append(Echo())
        return self.taken[-1]

    def call(self) -> socket.socket:
        """A connection that is open for its caller, whether somebody has taken it or not."""
        self.callers.append(socket.create_connection(self.socket.getsockname(), timeout=5))
        return self.callers[-1]

    async def took(self, number: int) -> None:
        """Wait until so many connections were taken in all."""
        async with asyncio.timeout(5):
            while len(self.taken) < number:
                await asyncio.sleep(0)

    async def answers(self, caller: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        caller.setblocking(False)
        async with asyncio.timeout(5):
            await loop.sock_sendall(caller, b"hello")
            assert await loop.sock_recv(caller, 5) == b"hello"


@pytest.fixture
def worker() -> Iterator[Worker]:
    worker = Worker()
    yield worker
    for each in (*worker.callers, worker.socket):
        each.close()


@contextmanager
def no_files_left() -> Iterator[None]:
    """The process may open no further file or socket."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = [os.open(os.devnull, os.O_RDONLY)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (held[0] + 8, hard))
    try:
        while True:
            try:
                held.append(os.dup(held[0]))
            except OSError:
                break
        yield
    finally:
        for each in held:
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_it_takes_a_connection_and_sends_without_delay(worker: Worker):
    async def test() -> None:
        await worker.serve()
        await worker.answers(worker.call())
        taken = worker.taken[0].transport.get_extra_info("socket")
        assert taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    worker.run(test)


def test_the_next_is_left_to_a_sibling_for_a_moment(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(fair_loop, "MOMENT_S", 0.2)

    async def test() -> None:
        callers = [worker.call() for _ in range(4)]
        await worker.serve()
        await worker.took(1)
        await asyncio.sleep(0.05)
        assert len(worker.taken) == 1
        with worker.socket.dup() as sibling:
            sibling.setblocking(False)
            theirs, _ = sibling.accept()
        with theirs:  # connections are handed out in the order in which they came
            assert theirs.getpeername() == callers[1].getsockname()
        await worker.took(2)
        await asyncio.sleep(0.05)
        assert len(worker.taken) == 3  # all that still waited
        await worker.answers(callers[3])
        await worker.answers(worker.call())  # and it still listens
        assert len(worker.taken) == 4

    worker.run(test)


def test_one_that_a_sibling_took_first_costs_no_moment(worker: Worker):
    async def test() -> None:
        server = await worker.serve()
        server._ready()
        assert (worker.socket.accepts, server._later) == (1, None)
        await worker.answers(worker.call())

    worker.run(test)


def test_a_caller_who_is_gone_already_is_in_nobodys_way(worker: Worker):
    async def test() -> None:
        gone = worker.call()
        gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, HANG_UP)
        gone.close()
        await worker.serve()
        await worker.answers(worker.call())

    worker.run(test)


def test_without_room_for_a_connection_it_pauses_and_goes_on(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
):
    """The socket stays ready: who would not pause would spin."""
    monkeypatch.setattr(fair_loop, "NO_ROOM_S", 0.1)

    async def test() -> None:
        await worker.serve()
        caller = worker.call()
        with no_files_left():
            await asyncio.sleep(0.25)  # tried at 0, 0.1 and 0.2 s
        tried = worker.socket.accepts
        assert 2 <= tried <= 3
        assert worker.taken == []
        await worker.answers(caller)
        await worker.answers(worker.call())

    worker.run(test)


def test_closed_while_it_has_no_room_it_tries_no_more(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(fair_loop, "NO_ROOM_S", 0.1)

    async def test() -> None:
        server = await worker.serve()
        worker.call()
        with no_files_left():
            await asyncio.sleep(0.05)
        server.close()
        await asyncio.sleep(0.15)
        assert (worker.socket.accepts, worker.taken) == (1, [])

    worker.run(test)


def test_closed_while_one_is_being_taken_it_waits_for_that_one(worker: Worker):
    async def test() -> None:
        server = await worker.serve()
        caller = worker.call()
        async with asyncio.timeout(5):
            while not server._tasks:
                await asyncio.sleep(0)
        server.close()
        await server.wait_closed()
        assert server._tasks == set()
        assert len(worker.taken) == 1
        await worker.answers(caller)

    worker.run(test)


def test_closed_in_its_moment_it_takes_no_further_one(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(fair_loop, "MOMENT_S", 0.05)

    async def test() -> None:
        for _ in range(2):
            worker.call()
        server = await worker.serve()
        await worker.took(1)
        server.close()
        await asyncio.sleep(0.15)
        assert len(worker.taken) == 1

    worker.run(test)


def test_closed_it_takes_none(worker: Worker):
    async def test() -> None:
        server = await worker.serve()
        server.close()
        worker.call()
        await server.wait_closed()
        await asyncio.sleep(0.02)
        assert (worker.socket.accepts, worker.taken) == (0, [])

    worker.run(test)


def test_it_speaks_no_tls(worker: Worker):
    async def test() -> None:
        loop = asyncio.get_running_loop()
        with pytest.raises(NotImplementedError):
            await loop.create_server(Echo, sock=worker.socket, backlog=1, ssl=object())  # type: ignore[arg-type]

    worker.run(test)
