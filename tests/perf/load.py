"""The sender: wrk where it is installed, else the same from this process on raw sockets."""

import asyncio
import json
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from time import perf_counter

import uvloop

from tests.perf.workload import HOST, Workload

CONNECTIONS = 32


@dataclass(frozen=True, kw_only=True)
class Sample:
    """What one run of load gave; latencies in microseconds."""

    requests: int
    per_s: float
    p50: float
    p90: float
    p99: float
    failed: int


def sender() -> str:
    """The name of what will send."""
    return "wrk" if shutil.which("wrk") else "asyncio sockets (wrk is not installed)"


def measure(workload: Workload, port: int, seconds: float) -> Sample:
    """Send for some seconds on 32 connections, one request at a time on each."""
    if wrk := shutil.which("wrk"):
        return _with_wrk(wrk, workload, port, seconds)
    return uvloop.run(_with_sockets(workload, port, seconds))


def _with_wrk(wrk: str, workload: Workload, port: int, seconds: float) -> Sample:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "load.lua"
        script.write_text(workload.wrk_script(), encoding="utf-8")
        url = f"http://{HOST}:{port}/"
        command = [
            wrk,
            "-t1",
            f"-c{CONNECTIONS}",
            f"-d{max(1, round(seconds))}s",
            "-s",
            str(script),
            url,
        ]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    report = json.loads(output.strip().rpartition("\n")[2])
    return Sample(
        requests=report["requests"],
        per_s=report["requests"] / report["duration_us"] * 1e6,
        p50=report["p50"],
        p90=report["p90"],
        p99=report["p99"],
        failed=report["failed"],
    )


class _Connection(asyncio.Protocol):
    """Sends the next request as soon as an answer is whole."""

    def __init__(self, workload: Workload, numbers: "count[int]", until: float) -> None:
        self.workload, self.numbers, self.until = workload, numbers, until
        self.times: list[float] = []
        self.failed = 0
        self.buffer = b""
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._next()

    def _next(self) -> None:
        request = self.workload.raw(next(self.numbers))
        self.sent_at = perf_counter()
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, blank, body = self.buffer.partition(b"\r\n\r\n")
        if not blank:
            return
        start = head.lower().index(b"content-length: ") + 16
        if len(body) < int(head[start:].partition(b"\r\n")[0]):
            return
        now = perf_counter()
        self.times.append(now - self.sent_at)
        self.failed += not head.startswith(b"HTTP/1.1 200")
        self.buffer = b""
        if now < self.until:
            self._next()
        else:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.failed += exc is not None
        self.done.set_result(None)


async def _with_sockets(workload: Workload, port: int, seconds: float) -> Sample:
    loop, numbers, start = asyncio.get_running_loop(), count(), perf_counter()
    connections = [
        (
            await loop.create_connection(
                lambda: _Connection(workload, numbers, start + seconds), HOST, port
            )
        )[1]
        for _ in range(CONNECTIONS)
    ]
    await asyncio.gather(*(connection.done for connection in connections))
    times = sorted(t * 1e6 for connection in connections for t in connection.times)
    return Sample(
        requests=len(times),
        per_s=len(times) / (perf_counter() - start),
        p50=times[len(times) // 2],
        p90=times[len(times) * 9 // 10],
        p99=times[len(times) * 99 // 100],
        failed=sum(connection.failed for connection in connections),
    )
