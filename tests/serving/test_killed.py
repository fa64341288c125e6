"""Processes that end in the middle of things: several workers drained, and one killed outright."""

import asyncio
import json
import signal
from pathlib import Path

from redis.asyncio import Redis

from app.hub.shared_store import _unpack
from tests.fake_hub import FakeHub
from tests.running.client import Connection
from tests.running.configs import bytes_per_token, config_of
from tests.running.process import service
from tests.valkey import Valkey

KILLS = 3


def _files_in(folder: Path) -> list[Path]:
    return list(folder.iterdir())


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
    assert _files_in(tmp_path) == []


async def test_two_workers_answer_count_together_and_drain(tmp_path: Path):
    """Half a request is with a worker when SIGTERM comes: it is answered, then all is over."""
    environment = {
        "KVMATH_WORKERS": "2",
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(tmp_path),
        "KVMATH_LOG_LEVEL": "error",
        "KVMATH_LOG_REQUESTS": "0",
    }
    async with service(environment) as (process, port):
        connections = [Connection(port) for _ in range(20)]
        for connection in connections:
            reply = await connection.ask("GET", "/kv?model=llama-3-8b&context=8192")
            assert reply.status == 200
        for _ in range(200):  # each worker tells its numbers some milliseconds later
            metrics = (await connections[0].ask("GET", "/metrics")).body.decode()
            if 'kvmath_requests_total{method="GET",route="/kv",status="200"} 20.0' in metrics:
                break
            await asyncio.sleep(0.01)
        else:
            raise AssertionError(metrics)
        for connection in connections:
            connection.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /kv HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n")
        writer.write(b"Content-Length: 23\r\n\r\n" + b'{"model": ')
        await asyncio.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        await asyncio.sleep(0.2)
        writer.write(b'"llama-3-8b"}')
        assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
        writer.close()
        assert await asyncio.to_thread(process.wait, 20) == 0
