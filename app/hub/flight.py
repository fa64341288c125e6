"""Single flight: whoever asks for a key while it is being fetched waits for the same fetch."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class Flights:
    """The fetches under way, one task a key.

    A task belongs to nobody who waits for it: a caller that gives up leaves it running for the
    others, and for the cache. Tasks are expected to end by a deadline of their own.
    """

    def __init__(self) -> None:
        self._tasks: dict[Hashable, asyncio.Task[Any]] = {}

    async def join(self, key: Hashable, fetch: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The result of the fetch under way for `key`, begun with `fetch` where there is none."""
        task: asyncio.Task[T] | None = self._tasks.get(key)
        if task is None:
            task = asyncio.create_task(fetch())
            self._tasks[key] = task
            task.add_done_callback(lambda done: self._land(key, done))
        return await asyncio.shield(task)

    async def aclose(self) -> None:
        """Cancel what is under way, and wait until it is gone."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _land(self, key: Hashable, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(key, None)
        if not task.cancelled():
            # Nobody may be left to hear of a failure; asyncio would call it never retrieved.
            task.exception()


async def together(*parts: Coroutine[Any, Any, T]) -> list[T]:
    """The results of all parts, run at once; the first failure cancels the others and is raised."""
    tasks = [asyncio.ensure_future(part) for part in parts]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
