"""A model on this machine: in the Hugging Face cache, or in a folder that somebody names."""

from pathlib import Path

from app.errors import InputError, KvmathError
from app.hub.config import HubConfig
from app.hub.facts import ModelFiles, WeightFacts
from app.hub.local import LocalFiles, cached_snapshot
from app.hub.read_config import QUANTIZATION, Configuration
from app.hub.read_model import read_model
from app.hub.read_weights import read_weights

_MAX_GGUF_BYTES = HubConfig().max_gguf_bytes


async def read_folder(folder: Path, *, gguf_file: str | None = None) -> ModelFiles:
    """The model whose files lie in `folder` (or the GGUF file of that name in it).

    Raises:
        InputError: a file is malformed.
        NoModelFiles: there is no configuration among them.
    """
    read = await read_model(
        LocalFiles(folder), folder.name, gguf_file=gguf_file, max_gguf_bytes=_MAX_GGUF_BYTES
    )
    return ModelFiles(
        requested_id=folder.name,
        resolved_id=folder.name,
        revision="",
        commit=None,
        source="local_folder",
        config=read.config,
        quantization=read.quantization,
        is_params_json=read.is_params_json,
        gguf=read.gguf,
        folder=str(folder),
    )


async def read_cached(
    cache_dir: Path, repo_id: str, revision: str, *, gguf_file: str | None = None
) -> ModelFiles | None:
    """The model at a revision from the Hugging Face cache; None where it is not (wholly) there.

    Both names must have been checked. A cache that cannot be read counts as one without the model.
    """
    snapshot = cached_snapshot(cache_dir, repo_id, revision)
    if snapshot is None:
        return None
    folder, commit = snapshot
    try:
        read = await read_model(
            LocalFiles(folder), repo_id, gguf_file=gguf_file, max_gguf_bytes=_MAX_GGUF_BYTES
        )
    except KvmathError:
        return None
    return ModelFiles(
        requested_id=repo_id,
        resolved_id=repo_id,
        revision=revision,
        commit=commit,
        source="local_cache",
        config=read.config,
        quantization=read.quantization,
        is_params_json=read.is_params_json,
        gguf=read.gguf,
        folder=str(folder),
        notes=_unseen(folder, read),
    )


async def read_local_weights(files: ModelFiles) -> WeightFacts | None:
    """The weight facts from the folder that `files` came from; None where it does not say them.

    Raises:
        InputError: a malformed file, in a folder that the caller named.
    """
    if files.folder is None:
        return None
    source = LocalFiles(Path(files.folder))
    try:
        weights = await read_weights(source, is_params_json=files.is_params_json)
    except InputError:
        if files.source == "local_folder":
            raise
        return None
    return weights if weights.total_bytes is not None else None


def _unseen(snapshot: Path, read: Configuration) -> tuple[str, ...]:
    # The cache holds what somebody downloaded; it remembers in .no_exist what was not there.
    missing = snapshot.parent.parent / ".no_exist" / snapshot.name / QUANTIZATION
    states = read.quantization or read.gguf or read.is_params_json
    if states or "quantization_config" in read.config or missing.exists():
        return ()
    return (f"whether the repository has a {QUANTIZATION} is not known from the local cache",)
