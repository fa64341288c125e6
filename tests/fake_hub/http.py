"""As much of an HTTP/1.1 server as it takes to answer wrongly on purpose."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import parse_qsl, urlsplit


@dataclass(frozen=True)
class Seen:
    """A request as it arrived."""

    method: str
    path: str
    query: str
    headers: dict[str, str]

    @property
    def params(self) -> list[tuple[str, str]]:
        return parse_qsl(self.query, keep_blank_values=True)


@dataclass
class Answer:
    """A response; `length` is what Content-Length claims (None: the truth, -1: none at all)."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | AsyncIterator[bytes] = b""
    length: int | None = None
    reset: bool = False
    raw: AsyncIterator[bytes] | None = None
    """What goes over the wire in place of all the rest."""


Handler = Callable[[Seen], Awaitable[Answer]]


class HttpServer:
    """Serves one handler on a free port of 127.0.0.1 and remembers every request."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self.requests: list[Seen] = []
        self.accepted = 0
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self, port: int = 0) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server is None:
            return
        self._server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()
        self._server = None

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        self.accepted += 1
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                while await self._serve_one(reader, writer):
                    pass
        except asyncio.CancelledError:
            # Only `stop` cancels; a cancelled connection is an ended one, and nobody's error.
            pass
        finally:
            self._connections.discard(task)
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        line, *fields = head.split("\r\n")
        method, target, _ = line.split(" ", 2)
        pairs = (entry.partition(":") for entry in fields if entry)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        parts = urlsplit(target)
        seen = Seen(method, parts.path, parts.query, headers)
        self.requests.append(seen)
        answer = await self._handler(seen)
        if answer.reset:
            writer.transport.abort()
            return False
        return await self._write(reader, writer, answer)

    async def _write(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: Answer
    ) -> bool:
        if answer.raw is not None:
            return await _send_while_heard(reader, writer, answer.raw)
        whole = answer.body if isinstance(answer.body, bytes) else None
        length = answer.length
        if length is None and whole is not None:
            length = len(whole)
        lines = [f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}"]
        lines += [f"{name}: {value}" for name, value in answer.headers.items()]
        keep = length is not None and length >= 0
        lines.append(f"Content-Length: {length}" if keep else "Connection: close")
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
        if whole is not None:
            writer.write(whole)
            await writer.drain()
            return keep and length == len(whole)
        assert not isinstance(answer.body, bytes)
        return await _send_while_heard(reader, writer, answer.body)


async def _send_while_heard(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, chunks: AsyncIterator[bytes]
) -> bool:
    # A client that has gone away is noticed even while there is nothing to send.
    sending = asyncio.create_task(_send(writer, chunks))
    leaving = asyncio.create_task(reader.read(1))
    try:
        await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        sending.cancel()
        leaving.cancel()
        await asyncio.gather(sending, leaving, return_exceptions=True)
    return False


async def _send(writer: asyncio.StreamWriter, chunks: AsyncIterator[bytes]) -> None:
    async for chunk in chunks:
        writer.write(chunk)
        await writer.drain()
