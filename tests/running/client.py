"""A small HTTP/1.1 client on one kept connection: what it costs leaves the machine to the service."""

import asyncio
from dataclasses import dataclass


@dataclass(frozen=True)
class Reply:
    """An answer: status, headers by lower-case name, and the whole body."""

    status: int
    headers: dict[str, str]
    body: bytes


class Connection:
    """One connection, opened again whenever it is gone."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def ask(
        self,
        method: str,
        target: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Reply:
        """Send a request and read its answer."""
        lines = [f"{method} {target} HTTP/1.1", "Host: kvmath"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        if body is not None:
            lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        raw = "\r\n".join([*lines, "", ""]).encode() + (body or b"")
        reader, writer = await self._open()
        writer.write(raw)
        try:
            return await self._read(reader, method)
        except (asyncio.IncompleteReadError, ConnectionError):
            self.close()
            raise

    async def send_and_hang_up(self, raw: bytes) -> None:
        """Send bytes and close at once, whatever the other side thinks of it."""
        _, writer = await self._open()
        writer.write(raw)
        await writer.drain()
        self.close()

    def close(self) -> None:
        """Hang up."""
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._reader is None or self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(
                "127.0.0.1", self._port, limit=2**20
            )
        return self._reader, self._writer

    async def _read(self, reader: asyncio.StreamReader, method: str) -> Reply:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in head[1:] if line)
        }
        status = int(head[0].split()[1])
        if method == "HEAD" or status == 304:
            body = b""
        elif headers.get("transfer-encoding") == "chunked":
            body = await self._chunks(reader)
        else:
            body = await reader.readexactly(int(headers.get("content-length", "0")))
        if headers.get("connection") == "close":
            self.close()
        return Reply(status, headers, body)

    async def _chunks(self, reader: asyncio.StreamReader) -> bytes:
        pieces: list[bytes] = []
        while size := int(await reader.readline(), 16):
            pieces.append(await reader.readexactly(size))
            await reader.readexactly(2)
        await reader.readexactly(2)
        return b"".join(pieces)
