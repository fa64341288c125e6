"""The benchmark starts and measures; how much, no test says."""

import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.perf import logs, special


def test_the_benchmark_runs_through() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.perf.bench"],
        cwd=ROOT,
        env=os.environ | {"BENCH_SECONDS": "0.1", "BENCH_ROUNDS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for text in ("the concurrency of a placed shape", "GET, fresh inputs", "of bare", "kvmath"):
        assert text in done.stdout


def test_what_wrk_cannot_measure_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {"ITEMS": 100, "CALLERS": 10, "PAIRS": 1, "STARTS": 1}.items():
        monkeypatch.setattr(special, name, value)
    special.report()
    told = capsys.readouterr().out
    for text in (
        "100 of them distinct",
        "two workers: a batch alone",
        "a cold model, 10 callers at once: 1 fetch of its config",
        "ready after",
    ):
        assert text in told


def test_logs_are_read_and_slow_ones_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logs, "BYTES", 50_000)
    assert logs.report() == 0
    told = capsys.readouterr().out.splitlines()
    assert len(told) == len(logs.texts()) + 2  # a heading before them, and a blank line after
    # Whatever takes time takes too long now: those that come as they are made, three of them.
    monkeypatch.setattr(logs, "LIMIT_MS", 0)
    assert logs.report() == 3
