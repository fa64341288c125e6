"""What wrk cannot measure: batches, workers, a cold model, and how soon the service is there."""

import asyncio
import json
import os
import socket
import statistics
import tempfile
import time
from itertools import count

from app.catalog.models import model_catalogue
from tests.fake_hub import FakeHub
from tests.running.client import Connection, Reply
from tests.running.configs import config_of
from tests.running.process import cpu_s, resident_mb, service

ITEMS = 10_000
CALLERS = 1_000
PAIRS = 9
"""Times that two batches are sent together, and one alone."""
STARTS = 5
TICK_S = 0.01
"""The system counts no shorter processor time."""
_QUIET = {"HF_HUB_OFFLINE": "1", "KVMATH_LOG_LEVEL": "error", "KVMATH_LOG_REQUESTS": "0"}
_GPUS = ("h100", "h200", "b200", "a100-80gb", "l40s", "mi300x")
_CONTEXTS = 10_000
_PATHS = ("/kv", "/concurrency", "/crossover", "/concurrency")


def items(distinct: int, first: int = 0) -> bytes:
    """A batch of 10,000 items, of which so many differ: calculation, model, GPU and context.

    Items are numbered from `first`; no two numbers give the same item.
    """
    models = [entry.id for entry in model_catalogue().models][:12]
    pool = []
    for i in range(first, first + distinct):
        item: dict[str, object] = {"path": _PATHS[i % 4], "model": models[i // 4 % len(models)]}
        item["context"], item["batch"] = 1024 + i % _CONTEXTS, i // _CONTEXTS + 1
        if item["path"] != "/kv":
            item["gpu"] = _GPUS[i % len(_GPUS)]
        pool.append(item)
    return json.dumps({"items": [pool[i % distinct] for i in range(ITEMS)]}).encode()


async def _timed(connection: Connection, body: bytes, start: float) -> tuple[float, Reply]:
    reply = await connection.ask("POST", "/batch", body, {"Accept": "application/x-ndjson"})
    assert (reply.status, reply.body.count(b"\n")) == (200, ITEMS)
    return time.perf_counter() - start, reply


async def batches() -> None:
    """Items a second of one worker's processor time, cold and again."""
    print(f"POST /batch, {ITEMS:,} items on one worker, items a second of processor time")
    async with service(_QUIET) as (process, port):
        connection = Connection(port)
        await _timed(connection, items(1), 0)
        for share in (0.01, 0.05, 0.1, 0.25, 1):
            distinct = round(ITEMS * share)
            body = items(distinct)
            spent = []
            for _ in range(2):
                before = cpu_s(process.pid)
                await _timed(connection, body, 0)
                spent.append(cpu_s(process.pid) - before)
            cold, warm = (ITEMS / max(seconds, TICK_S) for seconds in spent)
            print(f"  {distinct:>6,} of them distinct: {cold:>9,.0f} first, {warm:>9,.0f} again")
        connection.close()
    print()


async def _drained(port: int, body: bytes, start: float) -> float:
    """Send a batch and throw its answer away as it comes: a sender that takes no core."""
    loop, buffer = asyncio.get_running_loop(), bytearray(2**20)
    head = "POST /batch HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    head += f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.socket() as connection:
        connection.setblocking(False)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**22)
        await loop.sock_connect(connection, ("127.0.0.1", port))
        await loop.sock_sendall(connection, head.encode() + body)
        received = 0
        while size := await loop.sock_recv_into(connection, buffer):
            received += size
    assert received > 1000 * ITEMS
    return time.perf_counter() - start


async def two_workers() -> None:
    """Two large batches at once on two workers, against one alone; no item was asked before."""
    batches = (items(ITEMS, first) for first in count(0, ITEMS))
    async with service(_QUIET | {"KVMATH_WORKERS": "2"}) as (_, port):
        connections = [Connection(port) for _ in range(8)]
        for connection in connections:  # both workers have met the models
            await connection.ask("POST", "/batch", items(ITEMS, 10**6))
            connection.close()
        alone: list[float] = []
        together: list[float] = []
        for _ in range(PAIRS):
            for number, times in ((1, alone), (2, together)):
                bodies = [next(batches) for _ in range(number)]
                start = time.perf_counter()
                senders = [_drained(port, body, start) for body in bodies]
                times.append(max(await asyncio.gather(*senders)))
    one, two = statistics.median(alone), statistics.median(together)
    print(f"two workers: a batch alone {one * 1e3:.0f} ms, two at once {two * 1e3:.0f} ms")
    print(f"  ratio {two / one:.2f} by medians, {min(together) / min(alone):.2f} by the best\n")


async def cold_model() -> None:
    """1,000 callers of a model that nobody has asked for before."""
    async with FakeHub() as hub:
        hub.add("org/cold", {"config.json": config_of(31)})
        with tempfile.TemporaryDirectory() as home:
            environment = _QUIET | {"HF_ENDPOINT": hub.url, "HF_HOME": home, "HF_HUB_OFFLINE": "0"}
            async with service(environment) as (_, port):
                callers = [Connection(port) for _ in range(CALLERS)]
                for caller in callers:
                    assert (await caller.ask("GET", "/livez")).status == 200
                start = time.perf_counter()
                replies = await asyncio.gather(
                    *(caller.ask("GET", "/kv?model=org/cold&context=1") for caller in callers)
                )
                took = time.perf_counter() - start
                for caller in callers:
                    caller.close()
        assert len({(reply.status, reply.body) for reply in replies}) == 1
        fetches = len(hub.asked(r"/resolve/main/config\.json"))
        print(f"a cold model, {CALLERS:,} callers at once: {fetches} fetch of its config,")
        print(f"  all answered in {took * 1e3:.0f} ms\n")


async def readiness() -> None:
    """From the start of the process to the first answer of /readyz, and memory after that."""
    times, processor, resident = [], [], []
    for _ in range(STARTS):
        start = time.perf_counter()
        async with service(_QUIET) as (process, _):
            times.append(time.perf_counter() - start)
            processor.append(cpu_s(process.pid))
            resident.append(resident_mb(process.pid))
    print(f"ready after {min(times):.2f} s at best, {statistics.median(times):.2f} s by median")
    print(f"  ({min(processor):.2f} s of one core), {max(resident):.0f} MB resident\n")


def report() -> None:
    """Print all of it."""
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    for measure in (batches, two_workers, cold_model, readiness):
        asyncio.run(measure())
