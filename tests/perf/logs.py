"""How long a startup log of five megabytes takes to read, as it comes and as it is made to hurt."""

import time

from app.logs.reader import read_log
from tests.logs import samples
from tests.logs.test_hostile import MADE

BYTES = 5_000_000
LIMIT_MS = 200
_SERVING = (
    "(EngineCore pid=12) INFO 03-02 10:11:12 [loggers.py:259] Engine 000: Avg prompt throughput: "
    "1234.5 tokens/s, Running: 12 reqs, Waiting: 0 reqs, GPU KV cache usage: 3.2%\n"
)


def texts() -> dict[str, str]:
    """What is timed, by name."""
    served = samples.VLLM_V1 + _SERVING * (BYTES // len(_SERVING))
    lines = samples.VLLM_V1 * (BYTES // len(samples.VLLM_V1))
    return {
        "a start and hours of serving": served,
        "the same in colours": "".join(f"\x1b[36m{x}\x1b[0m\r\n" for x in served.splitlines()),
        "one start after another": lines,
        **{f"made to hurt: {name}": make(BYTES) for name, make in MADE.items()},
    }


def report() -> int:
    """Print the best of three for each, and count what a log as it comes takes too long for."""
    print(f"startup logs of {BYTES / 1e6:.0f} MB")
    slow = 0
    for name, text in texts().items():
        best = min(_timed(text) for _ in range(3)) * 1e3
        slow += best > LIMIT_MS and not name.startswith("made to hurt")
        print(f"  {name}: {best:,.0f} ms")
    print()
    return slow


def _timed(text: str) -> float:
    began = time.perf_counter()
    read_log(text)
    return time.perf_counter() - began
