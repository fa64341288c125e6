"""Processes beside each other and after each other: two that count together, and some killed."""

import asyncio
import json
import os
import signal
import socket
from contextlib import suppress
from pathlib import Path

from redis.asyncio import Redis

from app.hub.shared_store import _unpack
from tests.fake_hub import FakeHub
from tests.running.client import Connection
from tests.running.configs import bytes_per_token, config_of
from tests.running.process import files_in, service
from tests.valkey import Valkey

KILLS = 3


async def _ask(port: int, number: int) -> int | None:
    """The bytes of a hub's model, or None where the service is gone."""
    connection = Connection(port)
    try:
        reply = await connection.ask("GET", f"/kv?model=org/m{number}&context=10")
    except (OSError, asyncio.IncompleteReadError):
        return None
    finally:
        connection.close()
    assert reply.status == 200
    answered: int = json.loads(reply.body)["kv_bytes_per_sequence"]
    return answered


async def test_kill_9_leaves_nothing_corrupt(tmp_path: Path):
    """Killed while it fetches and shares files: what is shared is whole, and nothing else is left."""
    async with FakeHub() as hub:
        with Valkey() as valkey:
            environment = {
                "HF_ENDPOINT": hub.url,
                "HF_HOME": str(tmp_path),
                "HF_HUB_OFFLINE": "0",
                "KVMATH_REDIS_URL": valkey.url,
                "KVMATH_LOG_LEVEL": "error",
                "KVMATH_LOG_REQUESTS": "0",
            }
            number = 0
            for kill in range(KILLS):
                async with service(environment) as (process, port):
                    asked = []
                    for _ in range(60):
                        number += 1
                        padded = config_of(number) | {"note": "x" * 100_000}
                        hub.add(f"org/m{number}", {"config.json": padded}, commit=f"{number:040x}")
                        asked.append(asyncio.create_task(_ask(port, number)))
                    await asyncio.wait(asked, return_when="FIRST_COMPLETED")
                    await asyncio.sleep(0.01 * kill)
                    process.kill()
                    await asyncio.gather(*asked)
            async with Redis.from_url(valkey.url) as client:
                names = await client.keys("kvmath:*")
                assert names
                for name in names:
                    assert _unpack(name.decode(), await client.get(name)) is not None
            async with service(environment) as (process, port):
                for each in range(1, number + 1, 20):
                    assert await _ask(port, each) == 10 * bytes_per_token(each)
    assert files_in(tmp_path) == []


async def test_workers_end_when_their_parent_is_killed(tmp_path: Path):
    """Half a request is with one of them: it is answered, then both end, and nothing is left."""
    environment = {
        "KVMATH_WORKERS": "2",
        "KVMATH_LOG_LEVEL": "error",
        "KVMATH_LOG_REQUESTS": "0",
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(tmp_path),
        "TMPDIR": str(tmp_path),
    }
    async with service(environment) as (process, port):
        started = _children(process.pid)
        assert len(started) >= 2
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"POST /kv HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n")
            writer.write(b"Content-Length: 23\r\n\r\n" + b'{"model": ')
            await asyncio.sleep(0.2)
            process.kill()
            process.wait()
            await asyncio.sleep(0.5)
            writer.write(b'"llama-3-8b"}')
            assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
            writer.close()
            async with asyncio.timeout(5):
                while any(_runs(each) for each in started):
                    await asyncio.sleep(0.05)
        finally:
            for each in started:
                with suppress(ProcessLookupError):
                    os.kill(each, signal.SIGKILL)
        socket.create_server(("127.0.0.1", port)).close()
    assert files_in(tmp_path) == []


def _children(pid: int) -> list[int]:
    """The processes that one has started."""
    told = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    return [int(each) for each in told.split()]


def _runs(pid: int) -> bool:
    """Whether a process is there, and is more than an entry that nobody has asked for yet."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    except (FileNotFoundError, ProcessLookupError):
        return False


async def test_two_workers_count_together(tmp_path: Path):
    """Whichever of them is asked, it tells the numbers of both."""
    environment = {
        "KVMATH_WORKERS": "2",
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(tmp_path),
        "KVMATH_LOG_LEVEL": "error",
        "KVMATH_LOG_REQUESTS": "0",
    }
    async with service(environment) as (_, port):
        connections = [Connection(port) for _ in range(20)]
        for connection in connections:
            reply = await connection.ask("GET", "/kv?model=llama-3-8b&context=8192")
            assert reply.status == 200
        for connection in connections:
            assert await _told(connection, 'route="/kv",status="200"} 20.0')
            connection.close()


async def _told(connection: Connection, figure: str) -> bool:
    """Whether /metrics tells a figure; each worker writes its numbers some milliseconds later."""
    for _ in range(200):
        if figure in (await connection.ask("GET", "/metrics")).body.decode():
            return True
        await asyncio.sleep(0.01)
    return False
