"""From what a request names (an id, an alias, an inline config) to a shape and its origin.

In this order: the inline config; the catalogue; the machine's Hugging Face cache; the hub.
"""

import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Literal, Protocol

from cachetools import LRUCache

from app.catalog.models import CatalogueModel, ModelCatalogue
from app.core.model import ModelShape
from app.errors import HubError, HubOffline, InputError, UnknownArchitecture, UnknownModel
from app.hub.facts import ModelFiles, WeightFacts
from app.resolve.architectures import build
from app.resolve.architectures.assumed import assumed_dense
from app.resolve.architectures.fields import Config

ModelSource = Literal["config", "catalogue", "local_cache", "local_folder", "hub"]
KEPT_SHAPES = 512
LOCAL_FRESH_S = 5.0
"""How long a model of this machine's cache is not looked up again."""
MAX_CONFIG_DEPTH = 64


class FilesOfModels(Protocol):
    """Where files of models come from: the hub client, or a folder."""

    async def fetch_model(
        self,
        repo_id: str,
        revision: str = "main",
        *,
        gguf_file: str | None = None,
        use_local_cache: bool = True,
    ) -> ModelFiles:
        """The configuration of a repository at a revision."""
        ...

    async def fetch_weights(self, files: ModelFiles) -> WeightFacts:
        """What its checkpoint stores."""
        ...


class ModelRequest(Protocol):
    """What a request says about its model."""

    @property
    def model(self) -> str | None:
        """Hub id or alias."""
        ...

    @property
    def revision(self) -> str | None:
        """Branch, tag or commit."""
        ...

    @property
    def source(self) -> Literal["any", "hub"]:
        """Where to look."""
        ...

    @property
    def gguf_file(self) -> str | None:
        """A GGUF file of the repository to read instead of its config.json."""
        ...

    @property
    def assume(self) -> Literal["dense_attention"] | None:
        """What to take for granted of an unknown model type."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class ResolvedModel:
    """A model ready for the core.

    Attributes:
        id: Resolved hub id, or None for an inline config.
        revision: Commit, where known.
        source: Which of the four places it came from.
        shape: The model as the formulas see it.
        checkpoint_bytes: Bytes of the published tensors, where the checkpoint itself says so.
        assumptions: What the answer rests on because of how the model was found.
        stale: Whether the hub could not be asked and older files were used.
        fresh_until: When, on the monotonic clock, this may no longer be what the name means;
            None where it stays so: the catalogue, an inline config, a commit.
    """

    id: str | None
    revision: str | None
    source: ModelSource
    shape: ModelShape
    checkpoint_bytes: int | None = None
    assumptions: tuple[str, ...] = ()
    stale: bool = False
    fresh_until: float | None = None


class ModelResolver:
    """Resolves models; keeps the shapes of catalogue models and of files at a commit."""

    def __init__(
        self,
        catalogue: ModelCatalogue,
        files: FilesOfModels,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._catalogue = catalogue
        self._files = files
        self._clock = clock
        self._kept: LRUCache[Hashable, ResolvedModel] = LRUCache(maxsize=KEPT_SHAPES)
        self._asked: LRUCache[Hashable, ResolvedModel] = LRUCache(maxsize=KEPT_SHAPES)

    async def resolve(
        self, request: ModelRequest, config: Mapping[str, Any] | None = None
    ) -> ResolvedModel:
        """The model of a request.

        Raises:
            InputError: both or neither of `model` and `config`; a config that can't be.
            UnknownArchitecture: no family answers for it.
            NotFound, AccessDenied, HubError: what the hub made of it.
        """
        known = self.known(request, config)
        if known is not None:
            return known
        name = request.model or ""
        try:
            return await self._from_files(name, request)
        except (UnknownModel, HubOffline):
            if "/" in name:
                raise
            raise UnknownModel(name, nearest=self._nearest(name)) from None
        except HubError as error:
            raise error.about(name, nearest=self._nearest(name)) from None

    def known(
        self, request: ModelRequest, config: Mapping[str, Any] | None = None
    ) -> ResolvedModel | None:
        """The model where nothing has to be waited for: inline, in the catalogue, in memory.

        Raises:
            InputError: both or neither of `model` and `config`; a config that can't be.
            UnknownArchitecture: no family answers for it.
        """
        if (request.model is None) == (config is None):
            said = "not both" if config is not None else "one of the two"
            raise InputError.of("model", f"give model or config, {said}")
        if config is not None:
            return _from_config(config, request)
        entry = None
        plain = request.revision is None and request.gguf_file is None
        if plain and request.source != "hub":
            entry = self._catalogue.find(request.model or "")
        if entry is None:
            asked = self._asked.get(_question(request))
            if asked is None or self._clock() >= (asked.fresh_until or inf):
                return None
            return asked
        key = entry.id
        kept = self._kept.get(key)
        if kept is None:
            kept = self._kept[key] = catalogue_model(entry)
        return kept

    def _nearest(self, name: str) -> tuple[str, ...]:
        """Old hub ids have no organisation; such a name may as well be an alias of ours misspelt."""
        return () if "/" in name else self._catalogue.nearest(name)

    async def _from_files(self, name: str, request: ModelRequest) -> ResolvedModel:
        entry = self._catalogue.find(name)
        files = await self._files.fetch_model(
            name if entry is None else entry.id,
            request.revision or "main",
            gguf_file=request.gguf_file,
            use_local_cache=request.source != "hub",
        )
        key = (
            files.requested_id,
            files.resolved_id,
            files.commit,
            files.source,
            files.notes,
            request.gguf_file,
            request.assume,
        )
        kept = self._kept.get(key) if files.commit else None
        if kept is None:
            kept = await self.read(files, request)
            if files.commit:
                self._kept[key] = kept
        fresh_until = files.fresh_until
        if files.source != "hub" and files.commit != request.revision:
            fresh_until = self._clock() + LOCAL_FRESH_S
        found = replace(kept, stale=files.stale, fresh_until=fresh_until)
        self._asked[_question(request)] = found
        return found

    async def read(self, files: ModelFiles, request: ModelRequest) -> ResolvedModel:
        """The model that some files describe.

        Raises:
            InputError, HubError: as `resolve`.
        """
        shape = _quantised(shape_of(files.config, request.assume), files.quantization)
        total: int | None = None
        notes = files.notes
        if files.gguf is not None:
            total = files.gguf.tensor_bytes
        elif shape.quantization is not None or shape.checkpoint_dtype is None:
            facts = await self._files.fetch_weights(files)
            total, notes = facts.total_bytes, (*notes, *facts.notes)
        parameters = shape.parameters.total
        if total is not None and 8 * total < parameters:
            # No format stores a weight in less than a bit: the total is of something else.
            notes = (*notes, _unbelieved(total, parameters))
            total = None
        if files.resolved_id != files.requested_id:
            notes = (*notes, f"{files.requested_id} is now {files.resolved_id}")
        return ResolvedModel(
            id=files.resolved_id,
            revision=files.commit,
            source=files.source,
            shape=shape,
            checkpoint_bytes=total,
            assumptions=notes,
        )


def _question(request: ModelRequest) -> Hashable:
    """All that decides which files are read, and how."""
    return request.model, request.revision, request.source, request.gguf_file, request.assume


def _unbelieved(total: int, parameters: int) -> str:
    return (
        f"the checkpoint is said to hold {total} bytes, less than a bit for each of its "
        f"{parameters} parameters: that is not believed, and weights are counted by the config"
    )


def shape_of(config: Mapping[str, Any], assume: str | None = None) -> ModelShape:
    """The shape of a config; with `assume`, of an unknown model type too."""
    _check_depth(config)
    root = Config(config)
    try:
        return build(root)
    except UnknownArchitecture:
        if assume is None:
            raise
        return assumed_dense(root)


def _from_config(config: Mapping[str, Any], request: ModelRequest) -> ResolvedModel:
    return ResolvedModel(
        id=None, revision=None, source="config", shape=shape_of(config, request.assume)
    )


def catalogue_model(entry: CatalogueModel) -> ResolvedModel:
    """The model of a catalogue entry."""
    return ResolvedModel(
        id=entry.id,
        revision=entry.revision,
        source="catalogue",
        shape=_quantised(build(Config(entry.facts)), entry.facts.get("hf_quant_config")),
        checkpoint_bytes=entry.checkpoint_bytes,
    )


def _quantised(shape: ModelShape, hf_quant_config: Mapping[str, Any] | None) -> ModelShape:
    """`shape` as hf_quant_config.json describes it, where its config says nothing."""
    if shape.quantization is not None or hf_quant_config is None:
        return shape
    return replace(shape, quantization=dict(hf_quant_config))


def _check_depth(config: Mapping[str, Any]) -> None:
    """Refuse a config nested deeper than any real one, without recursion."""
    level: list[Any] = [config]
    for _ in range(MAX_CONFIG_DEPTH):
        level = [
            inner
            for value in level
            for inner in (value.values() if isinstance(value, Mapping) else value)
            if isinstance(inner, Mapping | list)
        ]
        if not level:
            return
    raise InputError.of("config", f"is nested deeper than {MAX_CONFIG_DEPTH} levels")
