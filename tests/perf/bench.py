"""``make bench``: the service on one worker against two floors, in one run on one machine.

Each server has its own process on the first core, the sender is on another, and the servers take
turns: a busy machine is as busy for one as for the other. Rates are medians of the rounds, their
ratios medians of each round's ratio. Processor time a request (the least of all rounds) is steadier
where others use the machine; numbers of different runs are not to be compared.
"""

import os
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from tests.perf import core, logs, special
from tests.perf.load import CONNECTIONS, Sample, measure, sender
from tests.perf.workload import HOST, Workload
from tests.running.process import ROOT, cpu_s, free_port, resident_mb

SECONDS = float(os.environ.get("BENCH_SECONDS", "2"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "7"))
_UVICORN = ["-m", "uvicorn", "--no-access-log", "--log-level", "warning", "--factory"]
BARE, EMPTY, OURS = "bare ASGI", "empty FastAPI", "kvmath"
SERVERS = {
    BARE: [*_UVICORN, "tests.perf.floors:bare"],
    EMPTY: [*_UVICORN, "tests.perf.floors:empty"],
    OURS: ["-m", "app"],  # as it is deployed: with a log line and numbers for each request
}
WORKLOADS = {
    "GET, fresh inputs": Workload("GET"),
    "POST, fresh inputs": Workload("POST"),
    "GET, repeated": Workload("GET", repeated=True),
}


@dataclass(frozen=True)
class Turn:
    """One server's turn at one workload, and what it took of a processor."""

    sample: Sample
    cpu_us: float


@contextmanager
def _server(arguments: list[str], port: int) -> Iterator[int]:
    """A server on one worker; its process's number, once it answers."""
    command = [sys.executable, *arguments]
    if arguments[1] == "uvicorn":
        command += ["--host", HOST, "--port", str(port)]
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "HOST": HOST, "PORT": str(port)}
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.DEVNULL)
    _pin(process.pid, 0)
    try:
        while process.poll() is None:
            try:
                url = f"http://{HOST}:{port}{Workload('GET').target(0)}"
                urllib.request.urlopen(url, timeout=5).close()
                break
            except OSError:
                time.sleep(0.01)
        yield process.pid
    finally:
        process.terminate()
        process.wait(timeout=30)


def _pin(pid: int, core_number: int) -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(pid, {core_number % (os.cpu_count() or 1)})


def _table(rows: list[list[str]]) -> None:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        print("  ".join([row[0].ljust(widths[0]), *cells]))
    print()


def _turn(workload: Workload, pid: int, port: int) -> Turn:
    before = cpu_s(pid)
    sample = measure(workload, port, SECONDS)
    return Turn(sample, (cpu_s(pid) - before) / max(1, sample.requests) * 1e6)


def _report(name: str, turns: dict[str, list[Turn]]) -> int:
    """Print one workload's table; the number of answers that were not 200."""
    rows = [
        [name, "per s", "p50 us", "p99 us", "p99/p50", "cpu us"]
        + [f"{what} of {floor}" for floor in ("bare", "empty") for what in ("rate", "cpu")]
        + ["not 200"]
    ]
    least = {server: min(turn.cpu_us for turn in own) for server, own in turns.items()}
    failed = 0
    for server, own in turns.items():
        samples = [turn.sample for turn in own]
        medians = [
            statistics.median(getattr(each, field) for each in samples)
            for field in ("per_s", "p50", "p99")
        ]
        row = [server, *(f"{median:,.0f}" for median in medians)]
        row.append(f"{statistics.median(each.p99 / max(1, each.p50) for each in samples):.1f}")
        row.append(f"{least[server]:.1f}")
        for floor in (BARE, EMPTY):
            ratios = [
                mine.sample.per_s / theirs.sample.per_s
                for mine, theirs in zip(own, turns[floor], strict=True)
            ]
            row.append(f"{statistics.median(ratios):.0%}")
            row.append(f"{least[floor] / max(1e-9, least[server]):.0%}")
        failed += sum(each.failed for each in samples)
        rows.append([*row, str(sum(each.failed for each in samples))])
    _table(rows)
    return failed


def main() -> int:
    """Run everything and print it; exit code 1 where an answer was not a 200 or a log took long."""
    _pin(0, 1)
    core.report()
    slow = logs.report() if SECONDS >= 1 else 0
    print(f"{CONNECTIONS} connections, {ROUNDS} rounds of {SECONDS:g} s, sent by {sender()}\n")
    turns: dict[str, dict[str, list[Turn]]] = {
        name: {server: [] for server in SERVERS} for name in WORKLOADS
    }
    with ExitStack() as stack:
        running = {}
        for server, arguments in SERVERS.items():
            port = free_port()
            running[server] = (stack.enter_context(_server(arguments, port)), port)
        for round_number in range(ROUNDS):
            for name, workload in WORKLOADS.items():
                for server, (pid, port) in running.items():
                    if round_number == 0:
                        measure(workload, port, min(1, SECONDS))
                    turns[name][server].append(_turn(workload, pid, port))
        resident = resident_mb(running[OURS][0])
    failed = sum(_report(name, turns[name]) for name in WORKLOADS)
    print(f"{resident:.0f} MB resident after that\n")
    if SECONDS >= 1:
        special.report()
    return 1 if failed or slow else 0


if __name__ == "__main__":
    sys.exit(main())
