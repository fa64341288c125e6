"""What has been fetched: files by commit, which never change, and where branches point, which do."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from cachetools import LRUCache

_ENTRY_BYTES = 512
_MAX_REFS = 16_384


class BlobKey(NamedTuple):
    """A file of a repository at a commit."""

    repo_id: str
    commit: str
    file: str


@dataclass(frozen=True, slots=True)
class Blob:
    """A file's content; None where the repository has no such file at that commit."""

    content: bytes | None


class BlobStore(Protocol):
    """Files by commit, wherever they are kept. An implementation never raises: it misses."""

    async def get(self, key: BlobKey) -> Blob | None:
        """The file, or None where the store does not know of it."""

    async def put(self, key: BlobKey, blob: Blob) -> None:
        """Keep the file as long as there is room."""


class MemoryBlobStore:
    """A `BlobStore` in this process: the least recently used go first, bounded by bytes."""

    def __init__(self, max_bytes: int) -> None:
        self._blobs: LRUCache[BlobKey, Blob] = LRUCache(max_bytes, getsizeof=_blob_bytes)

    async def get(self, key: BlobKey) -> Blob | None:
        """The file, or None."""
        return self._blobs.get(key)

    async def put(self, key: BlobKey, blob: Blob) -> None:
        """Keep the file, unless it alone is larger than the store."""
        if _blob_bytes(blob) <= self._blobs.maxsize:
            self._blobs[key] = blob

    @property
    def bytes(self) -> int:
        """Bytes held, overhead included."""
        return int(self._blobs.currsize)


@dataclass(frozen=True, kw_only=True, slots=True)
class Ref:
    """Where a revision of a repository points: the repository's current name and the commit."""

    repo_id: str
    commit: str
    fresh_until: float
    stale: bool = False
    """Believed because the hub could not be asked, not because it said so lately."""


class Refs:
    """Refs by (repository, revision): fresh for a while, and kept beyond it for bad times."""

    def __init__(self, ttl_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._ttl_s = ttl_s
        self._clock = clock
        self._refs: LRUCache[tuple[str, str], Ref] = LRUCache(_MAX_REFS)

    def fresh(self, repo_id: str, revision: str) -> Ref | None:
        """The ref, if it need not be asked again. A commit is always fresh: it cannot move."""
        ref = self._refs.get((repo_id, revision))
        if ref is None or (ref.commit != revision and self._clock() >= ref.fresh_until):
            return None
        return ref

    def last_known(self, repo_id: str, revision: str) -> Ref | None:
        """The ref, however old."""
        return self._refs.get((repo_id, revision))

    def learn(self, repo_id: str, revision: str, *, current_id: str, commit: str) -> Ref:
        """The hub said that the revision is `commit` of `current_id`."""
        ref = Ref(repo_id=current_id, commit=commit, fresh_until=self._clock() + self._ttl_s)
        self._refs[repo_id, revision] = ref
        return ref

    def believe(self, repo_id: str, revision: str, ref: Ref, seconds: float) -> Ref:
        """Take an old ref as good for some seconds more, marked stale."""
        stale = replace(ref, fresh_until=self._clock() + seconds, stale=True)
        self._refs[repo_id, revision] = stale
        return stale

    def forget(self, repo_id: str, revision: str) -> None:
        """The hub said that the revision is gone, or no longer shown."""
        self._refs.pop((repo_id, revision), None)


def _blob_bytes(blob: Blob) -> int:
    return len(blob.content or b"") + _ENTRY_BYTES
