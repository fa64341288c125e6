"""A bounded container that keeps what is asked for again."""

from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

_FORGOTTEN = 1024
"""Keys that may be passed over before they are swept out."""


class Askable(Protocol):
    """Something that is kept, and knows whether it was asked for since somebody last looked."""

    asked: bool


K = TypeVar("K")
V = TypeVar("V", bound=Askable)


class SecondChance(Generic[K, V]):
    """What came first goes first, but what was asked for meanwhile gets another round.

    Finding costs no more than a look-up and a flag, and many things that are asked for once do not
    push out what is asked for all the time, as they would the least recently used. Bounded by
    `max_size`, in the unit of `size_of`; what takes more than an eighth of that is not kept.

    Not one of cachetools' containers, which serve everywhere else: to put something into a full one
    of those took a twentieth of the time of a question that was never asked before.
    """

    def __init__(self, max_size: int, size_of: Callable[[V], int]) -> None:
        self.max_size = max_size
        self.size = 0
        self._size_of = size_of
        self._held: dict[K, V] = {}
        # In the order of coming; a key that was forgotten meanwhile is passed over.
        self._order: deque[K] = deque()

    def __len__(self) -> int:
        return len(self._held)

    def find(self, key: K) -> V | None:
        """What is kept under a key, which from now on has been asked for."""
        found = self._held.get(key)
        if found is not None:
            found.asked = True
        return found

    def put(self, key: K, value: V) -> None:
        """Keep a value under a key, in place of what was kept there."""
        size = self._size_of(value)
        if size > self.max_size / 8:
            return
        self.forget(key)
        while self.size + size > self.max_size:
            self._make_room()
        self._held[key] = value
        self._order.append(key)
        self.size += size

    def forget(self, key: K) -> None:
        """Keep nothing under a key."""
        value = self._held.pop(key, None)
        if value is not None:
            self.size -= self._size_of(value)
            if len(self._order) > 2 * len(self._held) + _FORGOTTEN:
                self._order = deque(key for key in self._order if key in self._held)

    def _make_room(self) -> None:
        key = self._order.popleft()
        value = self._held.get(key)
        if value is None:
            return
        if value.asked:
            value.asked = False
            self._order.append(key)
            return
        del self._held[key]
        self.size -= self._size_of(value)
