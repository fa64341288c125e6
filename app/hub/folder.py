"""A model on this machine: in the Hugging Face cache, or in a folder that somebody names."""

import asyncio
from pathlib import Path

from cachetools import LRUCache

from app.errors import InputError, KvmathError
from app.hub.config import HubConfig
from app.hub.facts import ModelFiles, WeightFacts
from app.hub.local import LocalFiles, cached_snapshot
from app.hub.read_config import QUANTIZATION, Configuration
from app.hub.read_gguf import GgufLimits
from app.hub.read_model import read_model
from app.hub.read_weights import read_weights

_MAX_GGUF_BYTES = HubConfig().max_gguf_bytes
_MAX_REMEMBERED = 256


async def read_folder(folder: Path) -> ModelFiles:
    """The model whose files lie in `folder`.

    Raises:
        InputError: a file is malformed.
        NoModelFiles: there is no configuration among them.
    """
    name = folder.name
    limits = GgufLimits(max_bytes=_MAX_GGUF_BYTES, slots=asyncio.Semaphore(1))
    read = await read_model(LocalFiles(folder), name, gguf_file=None, limits=limits)
    return read.found(
        requested_id=name,
        resolved_id=name,
        revision="",
        commit=None,
        source="local_folder",
        folder=str(folder),
    )


class CachedModels:
    """The models in the machine's Hugging Face cache, which is only ever read."""

    def __init__(self, cache_dir: Path, limits: GgufLimits) -> None:
        self._cache_dir = cache_dir
        self._limits = limits
        self._read: LRUCache[tuple[Path, str | None], Configuration] = LRUCache(_MAX_REMEMBERED)

    async def find(
        self, repo_id: str, revision: str, *, gguf_file: str | None = None
    ) -> ModelFiles | None:
        """The model at a revision; None where it is not (wholly) there.

        Both names must have been checked. A cache that cannot be read counts as one without the
        model.
        """
        snapshot = cached_snapshot(self._cache_dir, repo_id, revision)
        if snapshot is None:
            return None
        folder, commit = snapshot
        read = self._read.get((folder, gguf_file))
        notes: tuple[str, ...] = ()
        if read is None:
            source = LocalFiles(folder)
            try:
                read = await read_model(source, repo_id, gguf_file=gguf_file, limits=self._limits)
            except KvmathError:
                return None
            notes = _unseen(folder, read)
            if not notes:
                # What is known wholly cannot change: the folder is one commit's.
                self._read[folder, gguf_file] = read
        return read.found(
            requested_id=repo_id,
            resolved_id=repo_id,
            revision=revision,
            commit=commit,
            source="local_cache",
            folder=str(folder),
            notes=notes,
        )


async def read_local_weights(files: ModelFiles, slots: asyncio.Semaphore) -> WeightFacts | None:
    """The weight facts from the folder that `files` came from; None where there is none to read.

    Raises:
        InputError: a malformed file, in a folder that the caller named.
    """
    if files.folder is None:
        return None
    source = LocalFiles(Path(files.folder))
    try:
        return await read_weights(source, is_params_json=files.is_params_json, slots=slots)
    except InputError:
        if files.source == "local_folder":
            raise
        return None


def _unseen(snapshot: Path, read: Configuration) -> tuple[str, ...]:
    # The cache holds what somebody downloaded; it remembers in .no_exist what was not there.
    missing = snapshot.parent.parent / ".no_exist" / snapshot.name / QUANTIZATION
    states = read.quantization or read.gguf or read.is_params_json
    if states or "quantization_config" in read.config or missing.exists():
        return ()
    return (f"whether the repository has a {QUANTIZATION} is not known from the local cache",)
