"""The service as a process of its own, and what the system tells of it."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.running.client import Connection

ROOT = Path(__file__).resolve().parents[2]


def free_port() -> int:
    """A port on loopback that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


@asynccontextmanager
async def service(
    environment: dict[str, str],
) -> AsyncIterator[tuple["subprocess.Popen[bytes]", int]]:
    """`python -m app`, ready; stopped by SIGTERM at the end."""
    port = free_port()
    process = subprocess.Popen(  # noqa: ASYNC220 -- takes a millisecond, before any traffic
        [sys.executable, "-m", "app"],
        cwd=ROOT,
        env=os.environ | {"PORT": str(port), "HOST": "127.0.0.1"} | environment,
    )
    try:
        while True:
            assert process.poll() is None, "the service ended while starting"
            probe = Connection(port)
            try:
                if (await probe.ask("GET", "/readyz")).status == 200:
                    break
            except OSError:
                await asyncio.sleep(0.005)
            finally:
                probe.close()
        yield process, port
    finally:
        process.terminate()
        try:
            await asyncio.to_thread(process.wait, 40)
        finally:
            process.kill()


def resident_mb(pid: int) -> float:
    """Memory of a process, in MiB."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024


def open_files(pid: int) -> int:
    """Files and sockets that a process has open."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def files_in(folder: Path) -> list[Path]:
    """What lies in a folder."""
    return list(folder.iterdir())


def cpu_s(pid: int) -> float:
    """Processor time of a process so far: what it takes, however busy the machine is."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
