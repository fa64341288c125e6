"""Answer of `/crossover`."""

from typing import Literal

from pydantic import Field

from app.schemas.answer import Answer
from app.schemas.types import AnswerModel

DominatedBy = Literal["weights", "kv"]
RegimeName = Literal["short_chat", "long_documents", "yours"]


class CrossoverAtBatch(AnswerModel):
    """The context at which a batch's cache equals the weights; null where none does."""

    batch: int
    context: int | None


class CrossoverAtContext(AnswerModel):
    """The batch at which sequences of this length equal the weights; null where none does."""

    context: int
    batch: int | None


class DecodePoint(AnswerModel):
    """One decode step."""

    batch: int
    context: int
    weight_bytes: int
    kv_bytes: int
    step_bytes: int
    kv_to_weight_ratio: float
    dominated_by: DominatedBy
    step_ms: float | None = Field(None, description="Roofline.")
    itl_ms: float | None = Field(None, description="What to expect.")
    tokens_per_s: float | None = Field(None, description="At the roofline.")
    expected_tokens_per_s: float | None = Field(None, description="At `itl_ms`.")


class QuantisationSpeedup(AnswerModel):
    """Step time before over after, halving the bits of one of the two."""

    weight_quantisation: float
    kv_quantisation: float


class Regime(AnswerModel):
    """A kind of traffic, and which optimisation pays there."""

    name: RegimeName
    batch: int
    context: int
    dominated_by: DominatedBy
    prioritise: Literal["weight_quantisation", "kv_quantisation"]
    speedup: QuantisationSpeedup


class CrossoverAnswer(Answer):
    """Where reading the cache costs as much as reading the weights."""

    kv_cache_dtype: str
    weight_bytes: int = Field(description="Read by a step that touches every expert.")
    kv_bytes_per_token: float | int
    crossover_token_slots: int | None = Field(
        description="context x batch, fraction dropped; null for a cache that does not grow."
    )
    by_batch: list[CrossoverAtBatch]
    by_context: list[CrossoverAtContext]
    points: list[DecodePoint]
    regimes: list[Regime]
