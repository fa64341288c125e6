"""What the hub package hands to the rest of the product: facts about a model's files."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from app.hub.gguf import GgufHeader

Source = Literal["hub", "local_cache", "local_folder"]
WeightSource = Literal["index", "safetensors", "pytorch_index", "model_info", "gguf", "unknown"]


@dataclass(frozen=True, kw_only=True, slots=True)
class GgufFile:
    """A GGUF file (all its parts, where it is split) and what its header says."""

    filename: str
    header: GgufHeader
    tensor_bytes: int
    """Bytes of all tensors in all parts."""
    bytes_by_dtype: Mapping[str, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelFiles:
    """A model's configuration, and where it was read. Shared between callers: read, never write."""

    requested_id: str
    resolved_id: str
    """The repository's name now; differs from `requested_id` after a rename or a wrong case."""
    revision: str
    commit: str | None
    """None for a plain folder."""
    source: Source
    config: dict[str, Any]
    """config.json; or params.json or GGUF metadata under config.json's names."""
    quantization: dict[str, Any] | None = None
    """hf_quant_config.json, read where config.json has no quantization_config."""
    is_params_json: bool = False
    gguf: GgufFile | None = None
    folder: str | None = None
    """The local folder the files were read from; never part of an answer."""
    stale: bool = False
    """The hub could not be asked whether the revision still points to this commit."""
    fresh_until: float | None = None
    """When the client's clock reaches it, the hub is asked again where the revision points; None
    for a commit, and for files of this machine, which are looked at anew each time."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class WeightFacts:
    """What a checkpoint stores. Bytes are those of tensors, not of files."""

    total_bytes: int | None
    """None where nothing published says it (`source` is then `unknown`)."""
    source: WeightSource
    bytes_by_dtype: Mapping[str, int] | None = None
    elements_by_dtype: Mapping[str, int] | None = None
    """Elements as stored: packed formats count their containers, not the weights inside."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelInfo:
    """What the hub says about a repository without showing its files."""

    repo_id: str
    commit: str | None
    private: bool
    gated: bool
    disabled: bool
    files: tuple[str, ...]
    architectures: tuple[str, ...]
    parameters_by_dtype: Mapping[str, int] | None
    """Elements as stored, by dtype name."""
