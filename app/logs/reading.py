"""What was read in a startup log: settings, measurements, and what was missing."""

from dataclasses import dataclass
from typing import Literal

from app.logs.templates import Size

EngineName = Literal["vllm", "sglang", "tensorrt-llm", "llama.cpp"]
Failure = Literal[
    "kv_cache_too_small", "no_memory_for_kv_cache", "memory_taken_by_others", "state_slots",
    "out_of_memory",
]  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class LogSettings:
    """Settings by the names that requests have for them; None where the log doesn't say.

    `memory_fraction` is SGLang's `mem_fraction_static` or TensorRT-LLM's
    `free_gpu_memory_fraction`; `ubatch` and `sequences` are llama.cpp's `n_ubatch` and `n_seq_max`.
    """

    model: str | None = None
    revision: str | None = None
    dtype: str | None = None
    quantization: str | None = None
    kv_cache_dtype: str | None = None
    tensor_parallel_size: int | None = None
    pipeline_parallel_size: int | None = None
    data_parallel_size: int | None = None
    decode_context_parallel_size: int | None = None
    enable_expert_parallel: bool | None = None
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    gpu_memory_utilization: float | None = None
    kv_cache_memory_bytes: int | None = None
    memory_fraction: float | None = None
    block_size: int | None = None
    enforce_eager: bool | None = None
    enable_prefix_caching: bool | None = None
    speculative_method: str | None = None
    num_speculative_tokens: int | None = None
    draft_model: str | None = None
    max_loras: int | None = None
    max_lora_rank: int | None = None
    attention_backend: str | None = None
    ubatch: int | None = None
    sequences: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Pool:
    """One cache that an engine allocated; `tokens` are its cells or slots, in all streams."""

    tokens: int
    size: Size
    layers: int | None = None
    streams: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """What the engine measured, of the first rank; bytes are those of one GPU.

    Attributes:
        total: Memory of the GPU, as a process sees it.
        free_at_start: What of it was free before the model was loaded.
        requested: The share that the engine may take.
        free_after_load: What was free once the weights were loaded (SGLang).
        weights: Weights, as loaded.
        activation: Peak of the profile run beyond the weights; llama.cpp's compute buffers.
        non_torch: Memory outside the allocator, as far as it is counted.
        consumed: Weights and memory outside the allocator in one figure (vLLM from 0.26).
        graphs: CUDA graphs, as captured.
        graphs_estimated: CUDA graphs, as taken off beforehand.
        available_kv: What is left for the cache.
        available_kv_least: The same of the rank that has least; it decides.
        state: Recurrent states.
        kv_tokens: Tokens of the cache, as printed.
        num_blocks: Blocks of the cache, as printed.
        max_concurrency: Requests of `concurrency_len` at once, as printed.
        needed_kv: What one request of `concurrency_len` would have needed.
        estimated_max_len: The length that the engine suggests instead.
        state_slots: Slots of recurrent states.
        pools: Caches, where the engine prints each.
    """

    total: Size | None = None
    free_at_start: Size | None = None
    requested: Size | None = None
    free_after_load: Size | None = None
    weights: Size | None = None
    activation: Size | None = None
    non_torch: Size | None = None
    consumed: Size | None = None
    graphs: Size | None = None
    graphs_estimated: Size | None = None
    available_kv: Size | None = None
    available_kv_least: Size | None = None
    state: Size | None = None
    kv_tokens: int | None = None
    num_blocks: int | None = None
    max_concurrency: float | None = None
    concurrency_len: int | None = None
    needed_kv: Size | None = None
    estimated_max_len: int | None = None
    padding_layers: int | None = None
    state_slots: int | None = None
    pools: tuple[Pool, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class RankReading:
    """One rank's own figures; `rank` counts within its pipeline stage."""

    stage: int
    rank: int
    weights: Size | None
    available_kv: Size | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadLog:
    """A startup log as read.

    Attributes:
        engine: Which engine wrote it.
        version: Its version, as it prints it; None where it doesn't.
        gpu: The device's name, where a line gives it.
        settings: What it was told, and what it made of it.
        measured: What it measured.
        ranks: The ranks whose own lines were read; empty where there is one or none.
        failures: What it says it failed of, in the order of the log.
        missing: Figures that lines of this engine usually give and this log does not.
        warnings: What makes the reading doubtful, in words.
    """

    engine: EngineName
    version: str | None
    gpu: str | None
    settings: LogSettings
    measured: Measured
    ranks: tuple[RankReading, ...]
    failures: tuple[Failure, ...]
    missing: tuple[str, ...]
    warnings: tuple[str, ...]
