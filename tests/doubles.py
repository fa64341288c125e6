"""What stands for a part of the world in tests: a clock, and somebody who is told of events."""

import asyncio
from collections import Counter


class Clock:
    """Seconds that pass when somebody sleeps, or when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


class Events(Counter[tuple[str, str]]):
    """Counts events by kind and outcome."""

    def __call__(self, kind: str, outcome: str) -> None:
        self[kind, outcome] += 1
