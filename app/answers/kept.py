"""Finished answers as bytes, kept in memory under what was asked."""

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from app.answers.second_chance import SecondChance

_LONGEST_TEXT = 512
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
