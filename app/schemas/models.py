"""Answers of `/models`: the quick reference table, and one model with its sources."""

from typing import Annotated, Any

from pydantic import Field

from app.schemas.answer import ModelSource
from app.schemas.kv import LayerRow, Parameters
from app.schemas.types import AnswerModel, QueryModel


class ModelsQuery(QueryModel):
    """Which models to list."""

    q: Annotated[str, Field(min_length=1, max_length=100)] | None = Field(
        None, description="Text in the id, an alias or the architecture.", examples=["llama-3"]
    )


class ModelQuery(QueryModel):
    """Which files of the model."""

    revision: Annotated[str, Field(min_length=1, max_length=200)] | None = None


class ReferenceRow(AnswerModel):
    """One line of the quick reference table; bytes of a 16-bit cache unless the model's own is
    another."""

    id: str
    aliases: list[str]
    architecture: str
    parameters: int
    active_parameters: int
    weight_bytes: int = Field(description="As an engine loads the checkpoint.")
    kv_cache_dtype: str
    kv_bytes_per_token: float | int
    kv_bytes_per_sequence_8k: int
    kv_bytes_per_sequence_32k: int
    kv_bytes_per_sequence_128k: int
    max_position_embeddings: int | None


class ModelList(AnswerModel):
    """The catalogue."""

    count: int
    models: list[ReferenceRow]
    version: str
    digest: str = Field(description="SHA-256 of the catalogue file.")


class ModelDetail(AnswerModel):
    """One model: what decides its cache and weights, and where that is from."""

    id: str
    revision: str | None
    source: ModelSource
    stale: bool
    reference: ReferenceRow
    parameters: Parameters
    layers: list[LayerRow]
    facts: dict[str, Any] | None = Field(
        description="The fields of its config.json that decide; null where not of the catalogue."
    )
    sources: dict[str, str] | None
    checked: str | None
    assumptions: list[str]
