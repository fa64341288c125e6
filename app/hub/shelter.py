"""HTTP work that may be given up at any moment without losing a connection.

httpx's pool cleans up behind anyio's shields. A plain `Task.cancel` passes through them, and when
it lands while a response is being closed, its connection counts as busy for ever. So the work
runs in a task of its own that nobody cancels plainly: who gives up tells it so by a cancel scope,
which waits for shields.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from anyio import CancelScope

T = TypeVar("T")


class Shelter:
    """The tasks in which such work is done, until each has tidied up."""

    def __init__(self) -> None:
        self._work: dict[asyncio.Task[Any], CancelScope] = {}

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`. A cancelled caller leaves at once, and `work` soon after."""
        scope = CancelScope()
        task = asyncio.create_task(_within(scope, work))
        self._work[task] = scope
        task.add_done_callback(self._forget)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            scope.cancel()
            raise

    async def aclose(self) -> None:
        """Tell all work to end, and wait until it has."""
        for scope in self._work.values():
            scope.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)

    def _forget(self, task: asyncio.Task[Any]) -> None:
        del self._work[task]
        if not task.cancelled():
            # Whoever wanted the result may have left: a failure is then nobody's to hear of.
            task.exception()


async def _within(scope: CancelScope, work: Coroutine[Any, Any, T]) -> T:
    with scope:
        return await work
    raise asyncio.CancelledError
