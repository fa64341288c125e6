"""The models that ship with the product: facts of `data/models.json`, found by id or alias.

An entry holds the fields of the model's config.json that decide its cache and weights, exact
parameter counts, and where both are from. `app.resolve` turns the facts into a shape.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

MAX_NAME = 200
MODELS_FILE = Path(__file__).with_name("data") / "models.json"


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class CatalogueModel:
    """One model. Compared by identity: the catalogue is read once.

    Attributes:
        id: Hub id `org/name`, or a name of our own for a model that nobody published.
        aliases: Short names that mean this model and no other.
        revision: Commit that the facts were read at, where known.
        facts: Fields of its config.json, nested as they are there.
        parameters: `total` and `active`, counted by somebody else (see `sources`).
        checkpoint_bytes: Bytes of the published tensors, where their index says so.
        sources: Where the facts, the counts and the bytes are from.
        checked: Day on which the entry was held against its sources.
    """

    id: str
    aliases: tuple[str, ...]
    revision: str | None
    facts: Mapping[str, Any]
    parameters: Mapping[str, int]
    checkpoint_bytes: int | None
    sources: Mapping[str, str]
    checked: str


class ModelCatalogue:
    """All models, in the order of the file."""

    def __init__(self, models: tuple[CatalogueModel, ...], *, version: str, digest: str) -> None:
        self.models = models
        self.version = version
        self.digest = digest
        self._by_name: dict[str, CatalogueModel] = {}
        for model in models:
            for name in (model.id, *model.aliases):
                if self._by_name.setdefault(name.lower(), model) is not model:
                    raise ValueError(f"two models claim the name {name!r}")

    def find(self, name: str) -> CatalogueModel | None:
        """The model of this id or alias, in any case, or None."""
        return self._by_name.get(name.lower())

    def nearest(self, name: str) -> tuple[str, ...]:
        """The three ids or aliases that are most like `name`."""
        wanted = name.lower()[:MAX_NAME]
        return tuple(get_close_matches(wanted, list(self._by_name), n=3, cutoff=0.0))


@cache
def model_catalogue() -> ModelCatalogue:
    """The catalogue, read once."""
    raw = MODELS_FILE.read_bytes()
    document = json.loads(raw)
    models = tuple(
        CatalogueModel(**{**entry, "aliases": tuple(entry["aliases"])})
        for entry in document["models"]
    )
    digest = hashlib.sha256(raw).hexdigest()
    return ModelCatalogue(models, version=document["version"], digest=digest)
