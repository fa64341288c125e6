"""Files on this machine: the Hugging Face cache, only ever read, and plain model folders."""

import asyncio
from pathlib import Path

from app.errors import InputError, KvmathError
from app.hub.facts import ModelInfo
from app.hub.names import is_commit
from app.hub.strict_json import JsonTooLarge

MAX_FILE_BYTES = 5_000_000
_COMMIT_BYTES = 64


class LocalFiles:
    """A `FileSource` over a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def whole(self, name: str) -> bytes | None:
        """A JSON file's content; None where there is no such file.

        Raises:
            JsonTooLarge: it is larger than is read of a JSON file.
        """
        content = await self.span(name, 0, MAX_FILE_BYTES)
        if content is not None and len(content) > MAX_FILE_BYTES:
            raise JsonTooLarge(f"is larger than {MAX_FILE_BYTES} bytes")
        return content

    async def span(self, name: str, first: int, last: int) -> bytes | None:
        """Bytes `first` to `last` of a file, both included, or what there is of them."""
        return await asyncio.to_thread(_read, self._folder / name, first, last - first + 1)

    async def info(self) -> ModelInfo | None:
        """None: a folder knows its files and nothing else."""
        return None

    async def list_files(self) -> tuple[str, ...]:
        """The names of the files directly in the folder."""
        return await asyncio.to_thread(_names, self._folder)

    def refuse(self, why: str) -> KvmathError:
        """The error for a file that cannot be used: the folder was named by the caller."""
        return InputError.of("model", why)


def cached_snapshot(cache_dir: Path, repo_id: str, revision: str) -> tuple[Path, str] | None:
    """The folder of a repository's files at a revision, and its commit, if the cache has it.

    Both names must have been checked: a path is built from them.
    """
    repository = cache_dir / f"models--{repo_id.replace('/', '--')}"
    commit = revision
    if not is_commit(revision):
        named = _read(repository / "refs" / revision, 0, _COMMIT_BYTES)
        commit = (named or b"").decode("ascii", "replace").strip()
    if not is_commit(commit):
        return None
    snapshot = repository / "snapshots" / commit
    return (snapshot, commit) if snapshot.is_dir() else None


def _read(path: Path, start: int, count: int) -> bytes | None:
    try:
        with path.open("rb") as file:
            file.seek(start)
            return file.read(count)
    except (OSError, ValueError):
        return None


def _names(folder: Path) -> tuple[str, ...]:
    try:
        return tuple(sorted(entry.name for entry in folder.iterdir() if entry.is_file()))
    except OSError:
        return ()
