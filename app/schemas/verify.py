"""`/verify`: a startup log, and what it says about our prediction."""

from typing import Annotated, Any, Literal

from pydantic import Field

from app.schemas.answer import GpuRef, ModelRef, Step
from app.schemas.request import ConcurrencyQuery, Engine, InlineFields, MeasuredParts
from app.schemas.types import AnswerModel

Unit = Literal["bytes", "tokens", "blocks", "sequences"]

EXAMPLES: dict[str, Any] = {
    "v0": {
        "summary": "Two lines of vLLM 0.6 (exercise B)",
        "value": {
            "log": "INFO [gpu_executor.py:76] # GPU blocks: 27930, # CPU blocks: 2048\n"
            "INFO [gpu_executor.py:80] Maximum concurrency for 8192 tokens per request: 54.55x\n",
            "model": "llama-3-8b",
            "gpu": "h100",
            "engine_version": "0.6.6",
        },
    },
}


class VerifyQuery(ConcurrencyQuery):
    """What the log does not say, or says wrongly: each field stands in place of the log's."""


class VerifyBody(VerifyQuery, InlineFields):
    """A startup log, and what it does not say."""

    log: Annotated[str, Field(min_length=1)] = Field(
        description="The log as the engine printed it; prefixes and colours do no harm."
    )


class LogSettingsRead(AnswerModel):
    """Settings that the log states, by the names that requests have for them."""

    model: str | None
    revision: str | None
    dtype: str | None
    quantization: str | None
    kv_cache_dtype: str | None
    tensor_parallel_size: int | None
    pipeline_parallel_size: int | None
    data_parallel_size: int | None
    decode_context_parallel_size: int | None
    enable_expert_parallel: bool | None
    max_model_len: int | None
    max_num_seqs: int | None
    max_num_batched_tokens: int | None
    gpu_memory_utilization: float | None
    kv_cache_memory_bytes: int | None
    memory_fraction: float | None = Field(
        description="SGLang's mem_fraction_static, TensorRT-LLM's free_gpu_memory_fraction."
    )
    block_size: int | None
    enforce_eager: bool | None
    enable_prefix_caching: bool | None
    speculative_method: str | None
    num_speculative_tokens: int | None
    draft_model: str | None
    max_loras: int | None
    max_lora_rank: int | None
    attention_backend: str | None
    ubatch: int | None = Field(description="llama.cpp's n_ubatch.")
    sequences: int | None = Field(description="llama.cpp's n_seq_max.")


class PoolRead(AnswerModel):
    """One cache that the engine allocated."""

    tokens: int
    size_bytes: int
    layers: int | None


class MeasuredRead(AnswerModel):
    """What the log measures: bytes of one GPU, the first rank's. Null is not in the log."""

    gpu_memory_bytes: int | None = Field(description="As a process sees it.")
    free_at_start_bytes: int | None
    requested_bytes: int | None = Field(description="The share that the engine may take.")
    free_after_load_bytes: int | None
    weight_bytes: int | None
    activation_bytes: int | None
    non_torch_bytes: int | None
    cuda_graph_bytes: int | None = Field(description="As captured.")
    cuda_graph_estimate_bytes: int | None = Field(description="As taken off beforehand.")
    kv_pool_bytes: int | None
    kv_pool_least_bytes: int | None = Field(description="Of the rank that has least: it decides.")
    state_bytes: int | None
    kv_cache_tokens: int | None
    num_blocks: int | None
    max_concurrency: float | None
    concurrency_context: int | None
    needed_kv_bytes: int | None = Field(description="What one request would have needed.")
    estimated_max_len: int | None = Field(description="The length the engine suggests instead.")
    state_slots: int | None
    pools: list[PoolRead]


class RankRead(AnswerModel):
    """One rank's own figures."""

    stage: int
    rank: int
    weight_bytes: int | None
    kv_pool_bytes: int | None


class LogRead(AnswerModel):
    """The log as read."""

    engine: Engine
    engine_version: str | None
    gpu: str | None
    settings: LogSettingsRead
    measured: MeasuredRead
    ranks: list[RankRead]
    failures: list[str]


class VerifyRow(AnswerModel):
    """One quantity."""

    quantity: str
    predicted: float | int | None
    measured: float | int | None
    difference: float | int | None = Field(description="Measured less predicted.")
    rounding: float | int = Field(description="Half of the last digit that the log prints.")
    unit: Unit
    reason: str


class SplitPart(AnswerModel):
    """One part of a difference, in bytes of one GPU: what it adds to the cache."""

    part: str
    bytes: int
    reason: str


class Split(AnswerModel):
    """From one figure to another; `from_bytes` and all parts add up to `to_bytes`."""

    from_bytes: int
    parts: list[SplitPart]
    to_bytes: int


class Sequences(AnswerModel):
    """Blocks as sequences (exercise B)."""

    context: int
    block_size: int
    num_blocks: int
    blocks_per_sequence: int
    sequences: float
    logged: float | None = Field(description="The concurrency that the log prints.")
    working: str


class Refuted(AnswerModel):
    """An assumption that the log contradicts."""

    assumption: str
    log: str


class VerifyAnswer(AnswerModel):
    """A log explained."""

    read: LogRead
    model: ModelRef | None
    gpu: GpuRef | None
    fits: bool | None = Field(description="Whether the engine started; null where it doesn't say.")
    summary: list[str] = Field(description="What the log shows, in sentences.")
    table: list[VerifyRow]
    kv_pool: Split | None = Field(description="From our prediction to the log's cache memory.")
    from_formula: Split | None = Field(
        description="From formula (4) to the log's cache memory, and to what its tokens need."
    )
    sequences: Sequences | None
    refuted: list[Refuted]
    assumptions: list[str]
    missing: list[str] = Field(description="What the log does not say, and what would have.")
    warnings: list[str]
    calibration: MeasuredParts | None = Field(
        description="The measurements, as `/concurrency` and `/plan` accept them. Leave out "
        "`kv_budget_bytes` to ask about another share or another parallel size."
    )
    steps: list[Step] | None = Field(None, description="With `explain=true`.")
