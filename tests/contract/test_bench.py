"""The benchmark starts and measures; how much, no test says."""

import os
import subprocess
import sys

from tests.conftest import ROOT


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
