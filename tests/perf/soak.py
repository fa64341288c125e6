"""``make soak``: minutes of mixed traffic while the hub flaps and Valkey is killed and restarted.

Asserts that no answer is wrong, none is a 500, memory does not grow once the caches are warm, and
nothing is left over when the traffic has ended. Bounded by SOAK_SECONDS; only loopback is asked.
"""

import asyncio
import os
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field

from tests.fake_hub import FakeHub, Fault
from tests.perf.traffic import Caller
from tests.running.client import Connection
from tests.running.process import cpu_s, open_files, resident_mb, service
from tests.valkey import Valkey

SECONDS = float(os.environ.get("SOAK_SECONDS", "300"))
CALLERS = 32
MAX_RESIDENT_MB = 150
FAULTS = [
    Fault.UNAVAILABLE,
    Fault.BAD_GATEWAY,
    Fault.RESET,
    Fault.RATE_LIMITED_BY_ANOTHER,
    Fault.HTML,
    Fault.REDIRECT_LOOP,
    Fault.FOREIGN_REDIRECT,
    Fault.SHORT_BODY,
    Fault.SILENT,
    Fault.GZIP,
    Fault.NOT_UTF8,
    Fault.NAN,
    Fault.DEEP,
]


@dataclass
class Watch:
    """What was seen of the process while it was under load."""

    resident: list[float] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    kills: int = 0


async def _flap(hub: FakeHub, watch: Watch, stop: asyncio.Event) -> None:
    """A fault for a second or two, then a second of peace."""
    chance = random.Random(1)
    while not stop.is_set():
        await _sleep(1, stop)
        fault = chance.choice(FAULTS)
        watch.faults[fault.name] += 1
        hub.fault("", fault)
        await _sleep(chance.uniform(0.5, 2), stop)
        hub.mend()


async def _kill(valkey: Valkey, watch: Watch, stop: asyncio.Event) -> None:
    """Gone for two seconds of every seven."""
    while not stop.is_set():
        await _sleep(5, stop)
        valkey.kill()
        watch.kills += 1
        await _sleep(2, stop)
        await asyncio.to_thread(valkey.start)


async def _look(pid: int, hub: FakeHub, watch: Watch, stop: asyncio.Event) -> None:
    while not stop.is_set():
        watch.resident.append(resident_mb(pid))
        del hub.requests[:]  # the fake hub remembers each for its tests
        await _sleep(1, stop)


async def _sleep(seconds: float, stop: asyncio.Event) -> None:
    try:
        await asyncio.wait_for(stop.wait(), seconds)
    except TimeoutError:
        return


async def _left_over(pid: int, port: int) -> tuple[int, int]:
    """Open files, and tasks of the event loop, with nobody else connected."""
    connection = Connection(port)
    metrics = (await connection.ask("GET", "/metrics")).body.decode()
    connection.close()
    tasks = next(line for line in metrics.splitlines() if line.startswith("kvmath_tasks "))
    await asyncio.sleep(0.1)
    return open_files(pid), int(float(tasks.split()[1]))


async def _soak(home: str) -> list[str]:
    seen: Counter[str] = Counter()
    watch, stop, wrong = Watch(), asyncio.Event(), []
    async with FakeHub() as hub:
        with Valkey() as valkey:
            environment = {
                "HF_ENDPOINT": hub.url,
                "HF_HOME": home,
                "HF_TOKEN": "",
                "HF_HUB_OFFLINE": "0",
                "KVMATH_REDIS_URL": valkey.url,
                "KVMATH_LOG_REQUESTS": "0",
                "KVMATH_LOG_LEVEL": "error",
            }
            async with service(environment) as (process, port):
                files_before, tasks_before = await _left_over(process.pid, port)
                began, cpu_before = time.monotonic(), cpu_s(process.pid)
                callers = [
                    asyncio.create_task(Caller(port, hub, seen, seed).run(stop))
                    for seed in range(1, CALLERS + 1)
                ]
                chaos = [
                    asyncio.create_task(_flap(hub, watch, stop)),
                    asyncio.create_task(_kill(valkey, watch, stop)),
                    asyncio.create_task(_look(process.pid, hub, watch, stop)),
                ]
                await asyncio.wait(callers, timeout=SECONDS, return_when="FIRST_EXCEPTION")
                stop.set()
                ended = await asyncio.gather(*callers, *chaos, return_exceptions=True)
                wrong += [f"{type(e).__name__}: {e}"[:500] for e in ended if e is not None]
                took = time.monotonic() - began
                cpu = cpu_s(process.pid) - cpu_before
                hub.mend()
                await asyncio.sleep(8)  # kept connections to the hub and from the callers expire
                last = Caller(port, hub, seen, CALLERS + 1)
                await last.hub_model()  # and the next request closes them
                last.connection.close()
                files, tasks = await _left_over(process.pid, port)
                resident = resident_mb(process.pid)
    wrong += _judge(watch, resident, files - files_before, tasks - tasks_before)
    total = sum(seen.values())
    print(
        f"{took:.0f} s, {total:,} requests ({total / took:,.0f} a second, {cpu:.0f} s of one core)"
    )
    for kind, number in sorted(seen.items()):
        print(f"  {kind:18} {number:>9,}")
    print(f"hub faults: {dict(watch.faults)}")
    print(f"Valkey killed and restarted {watch.kills} times")
    quarter = max(1, len(watch.resident) // 4)
    marks = [statistics.median(watch.resident[i * quarter : (i + 1) * quarter]) for i in range(4)]
    print(
        f"resident by quarter: {', '.join(f'{mark:.0f}' for mark in marks)} MB; after {resident:.0f}"
    )
    print(f"open files {files_before} before, {files} after; tasks {tasks_before}, {tasks}")
    return wrong


def _judge(watch: Watch, resident: float, more_files: int, more_tasks: int) -> list[str]:
    wrong = []
    half = len(watch.resident) // 2
    if half >= 100:  # shorter, the caches are still filling
        before = statistics.median(watch.resident[half : half + half // 2])
        after = statistics.median(watch.resident[half + half // 2 :])
        if after > before * 1.05 + 2:
            wrong.append(f"memory grows: {before:.0f} MB, then {after:.0f} MB")
    if resident > MAX_RESIDENT_MB:
        wrong.append(f"{resident:.0f} MB resident")
    if more_files > 6:  # kept connections: two to the hub, a few to Valkey
        wrong.append(f"{more_files} files or sockets more than before")
    if more_tasks > 1:
        wrong.append(f"{more_tasks} tasks more than before")
    return wrong


def main() -> int:
    """Run it and print the report; exit code 1 where anything was wrong."""
    with tempfile.TemporaryDirectory() as home:
        wrong = asyncio.run(_soak(home))
    for each in wrong:
        print(f"WRONG: {each}")
    print("failed" if wrong else "passed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
