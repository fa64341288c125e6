"""``make bench``: the service on one worker against two floors, in one run on one machine.

Each server runs in its own process on the first core, the sender on another; the three take
turns, several rounds, and the median round counts. Numbers of different machines or runs are not
to be compared: the ratios are what is meant.
"""

import os
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.perf import core
from tests.perf.load import CONNECTIONS, Sample, measure, sender
from tests.perf.process import free_port
from tests.perf.workload import HOST, Workload

SECONDS = float(os.environ.get("BENCH_SECONDS", "4"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
SERVERS = {
    "bare ASGI": "tests.perf.floors:bare",
    "empty FastAPI": "tests.perf.floors:empty",
    "kvmath": "app.main:create_app",
}
WORKLOADS = {
    "GET, fresh inputs": Workload("GET"),
    "POST, fresh inputs": Workload("POST"),
    "GET, repeated": Workload("GET", repeated=True),
}


@contextmanager
def _server(factory: str, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A server on one worker, stopped at the end; yielded once it answers."""
    command = [sys.executable, "-m", "uvicorn", "--factory", factory, "--host", HOST]
    command += ["--port", str(port), "--no-access-log", "--log-level", "warning"]
    environment = os.environ | {"HF_HUB_OFFLINE": "1"}
    process = subprocess.Popen(command, env=environment)
    _pin(process.pid, 0)
    try:
        while process.poll() is None:
            try:
                url = f"http://{HOST}:{port}{Workload('GET').target(0)}"
                urllib.request.urlopen(url, timeout=5).close()
                break
            except OSError:
                time.sleep(0.01)
        yield process
    finally:
        process.terminate()
        process.wait(timeout=30)


def _pin(pid: int, core_number: int) -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(pid, {core_number % (os.cpu_count() or 1)})


def _resident_mb(process: "subprocess.Popen[bytes]") -> float:
    status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024


def _table(rows: list[list[str]]) -> None:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        print("  ".join([row[0].ljust(widths[0]), *cells]))
    print()


def _median(samples: list[Sample]) -> Sample:
    return sorted(samples, key=lambda sample: sample.per_s)[len(samples) // 2]


def main() -> int:
    """Run everything and print it; exit code 1 where an answer was not a 200."""
    _pin(0, 1)
    core.report()
    print(f"{CONNECTIONS} connections, {ROUNDS} rounds of {SECONDS:g} s, sent by {sender()}\n")
    samples: dict[tuple[str, str], list[Sample]] = {}
    ready, resident = [], []
    for round_number in range(ROUNDS):
        for server, factory in SERVERS.items():
            port = free_port()
            began = time.perf_counter()
            with _server(factory, port) as process:
                if server == "kvmath":
                    ready.append(time.perf_counter() - began)
                for name, workload in WORKLOADS.items():
                    if round_number == 0:
                        measure(workload, port, min(1, SECONDS))
                    samples.setdefault((name, server), []).append(measure(workload, port, SECONDS))
                if server == "kvmath":
                    resident.append(_resident_mb(process))
    failed = 0
    for name in WORKLOADS:
        of = {server: _median(samples[name, server]) for server in SERVERS}
        rows = [[name, "per s", "p50 us", "p90 us", "p99 us", "of bare", "of empty", "not 200"]]
        for server, sample in of.items():
            failed += sample.failed
            numbers = [sample.per_s, sample.p50, sample.p90, sample.p99]
            shares = [sample.per_s / of[floor].per_s for floor in ("bare ASGI", "empty FastAPI")]
            rows.append(
                [server, *(f"{number:,.0f}" for number in numbers)]
                + [f"{share:.0%}" for share in shares]
                + [str(sample.failed)]
            )
        _table(rows)
    print(f"first answer after {statistics.median(ready):.2f} s, resident {max(resident):.0f} MB")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
