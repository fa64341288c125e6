"""Finished answers as bytes, kept in memory under what was asked."""

import hashlib
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, Literal, Protocol, TypeVar

_LONGEST_TEXT = 512
_FORGOTTEN = 1024
"""Keys that may be passed over before they are swept out."""
_ENTRY_BYTES = 1024
"""Key, headers and the containers' own share of an entry, rounded up."""

Headers = list[tuple[bytes, bytes]]


Wording = Literal["query", "body", "meaning"]
Key = tuple[Wording, str, bytes, bytes | str]
"""What was asked: in which words, at which path, for which images if for any, and the words.

A body that says the same in other words is another key. What a calculation understood, as
canonical JSON, is one more, its meaning: all wordings meet there.
"""


def key_of(wording: Wording, path: str, text: bytes, images: bytes = b"") -> Key:
    """The key of a request; long texts are known by their SHA-256, in digits, as no text is."""
    short = len(text) <= _LONGEST_TEXT
    return (wording, path, images, text if short else hashlib.sha256(text).hexdigest())


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
    of those took as long as a tenth of a question that was never asked before.
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


@dataclass(eq=False, slots=True)
class Answered:
    """An answer with status 200, as it is sent.

    Attributes:
        body: The representation.
        media_type: What it is.
        varies: Whether another Accept header would get another one.
        fresh_until: When, on the cache's clock, it may no longer be the answer; None for never.
        stale: Whether it rests on files that could not be checked: not to be kept.
        asked: Whether it was asked for since the cache last looked.
    """

    body: bytes
    media_type: bytes = b"application/json"
    varies: bool = False
    fresh_until: float | None = None
    stale: bool = False
    asked: bool = False
    _headers: Headers | None = field(default=None, init=False, repr=False)

    @property
    def headers(self) -> Headers:
        """Its type, length and strong entity tag, made when it is first sent."""
        if self._headers is None:
            self._headers = [
                (b"content-type", self.media_type),
                (b"content-length", b"%d" % len(self.body)),
                (b"etag", etag_of(self.body)),
            ]
            if self.varies:
                self._headers.append((b"vary", b"accept"))
        return self._headers

    @property
    def etag(self) -> bytes:
        """The tag alone."""
        return self.headers[2][1]


def etag_of(body: bytes) -> bytes:
    """A strong entity tag: it differs where a byte does."""
    return b'"%b"' % hashlib.sha256(body).hexdigest()[:32].encode()


class AnswerCache:
    """Answers of this process, bounded by bytes.

    The code and the catalogues are constant while it lives, and a model's commit is part of the
    answer: only a name that may come to mean another commit makes an answer age.
    """

    def __init__(self, max_bytes: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.max_bytes = max_bytes
        self.clock = clock
        self._kept: SecondChance[Key, Answered] = SecondChance(max_bytes, _weight)

    def get(self, key: Key) -> Answered | None:
        """The answer, unless it is unknown or may have changed."""
        found = self._kept.find(key)
        if found is None or found.fresh_until is None or self.clock() < found.fresh_until:
            return found
        self._kept.forget(key)
        return None

    def put(self, key: Key, answer: Answered) -> None:
        """Keep an answer, unless it is stale, or takes more than an eighth of the room."""
        if not answer.stale:
            self._kept.put(key, answer)

    @property
    def bytes(self) -> int:
        """Bytes held, at most."""
        return self._kept.size

    def __len__(self) -> int:
        return len(self._kept)


def _weight(answer: Answered) -> int:
    return len(answer.body) + _ENTRY_BYTES
