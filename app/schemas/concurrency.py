"""Answer of `/concurrency`."""

from typing import Literal

from pydantic import Field

from app.schemas.answer import Answer
from app.schemas.types import AnswerModel

LimitedBy = Literal["memory", "max_num_seqs", "state_slots", "weights", "max_position_embeddings"]


class MemoryParts(AnswerModel):
    """Where one GPU's memory goes; the parts add up to `gpu_memory_bytes`."""

    gpu_memory_bytes: int
    weight_bytes: int
    activation_bytes: int
    overhead_bytes: int
    cuda_graph_bytes: int = 0
    unrequested_bytes: int = Field(0, description="Memory that the engine is told to leave alone.")
    unexplained_bytes: int = Field(
        0,
        description="What the parts leave beside a budget that was measured; below zero where "
        "they leave less.",
    )
    kv_budget_bytes: int
    shortfall_bytes: int = Field(
        0, description="By how much weights and headrooms exceed the memory (taken off the sum)."
    )


class BandBytes(AnswerModel):
    """Bytes between which nine starts of ten fall."""

    low: int
    high: int


class ConcurrencyAtContext(AnswerModel):
    """Sequences of `context` tokens that fit."""

    context: int
    max_concurrency: int | None
    fits: bool


class Advice(AnswerModel):
    """One change, and the concurrency it would give."""

    action: Literal[
        "set_max_model_len",
        "shorter_context",
        "fewer_sequences",
        "quantise_kv",
        "quantise_weights",
        "more_gpus",
    ]
    change: dict[str, int | str] = Field(description="Request fields to change.")
    max_concurrency: int
    detail: str


class ConcurrencyAnswer(Answer):
    """How many sequences fit."""

    kv_cache_dtype: str
    context: int
    fits: bool = Field(
        description="At least one sequence of `context` tokens; with an engine, also that it starts "
        "and takes a sequence of that length (`max_model_len`)."
    )
    max_concurrency: int | None = Field(
        description="Per replica, fraction dropped; null where a sequence takes nothing."
    )
    max_concurrency_exact: float | None = Field(
        description="By memory alone, as an engine's log prints it."
    )
    kv_budget_bytes: int = Field(description="Per GPU.")
    kv_budget_band_bytes: BandBytes | None = Field(
        None, description="With an engine: how sure the budget is."
    )
    kv_bytes_per_sequence: int = Field(description="Per GPU.")
    kv_cache_tokens: int | None
    num_blocks: int | None = None
    block_size: int | None = None
    limited_by: LimitedBy = Field(
        description="`max_position_embeddings`: the longest sequence there may be, by the model "
        "itself or, where `fits` is false, by the engine's `max_model_len`."
    )
    memory: MemoryParts | None
    by_context: list[ConcurrencyAtContext]
    advice: list[Advice]
