"""The service as a process on a real socket: what it is sent first, and how it is probed."""

import asyncio
import os
import subprocess
import sys

from tests.conftest import ROOT
from tests.running.client import Connection
from tests.running.process import service

OFFLINE = {"HF_HUB_OFFLINE": "1"}


async def test_head_and_limits_over_a_real_server():
    async with service(OFFLINE) as (_, port):
        connection = Connection(port)
        for method, path, body, status in (
            ("HEAD", "/problems", None, 200),
            ("HEAD", "/docs/assets/swagger-ui.css", None, 200),
            ("GET", "/problems", None, 200),
            ("POST", "/problems", b"x" * 7_000_000, 413),
            ("GET", "/" + "x" * 10_000, None, 414),
            ("GET", "/problems", None, 200),
        ):
            answer = await connection.ask(method, path, body)
            assert answer.status == status, (method, path)
            assert (answer.body == b"") == (method == "HEAD")
            if status == 413:  # the rest of the body was not read: the connection may be gone
                connection.close()
        connection.close()


async def _health_check(port: int) -> int:
    """The exit code of the container's own health check."""
    command = [sys.executable, "-m", "app.healthcheck"]
    environment = os.environ | {"PORT": str(port)}
    return await asyncio.to_thread(subprocess.call, command, cwd=ROOT, env=environment)


async def test_the_health_check_tells_a_server_from_none():
    async with service(OFFLINE) as (process, port):
        assert await _health_check(port) == 0
        process.kill()
        process.wait()
        assert await _health_check(port) == 1
