"""What a caller may tell vLLM, and what vLLM makes of it before it plans a cache."""

from dataclasses import dataclass
from typing import Literal

from app.core.engines.vllm_rules import NEWEST, VllmRules
from app.core.hardware import Gpu

VERSION = NEWEST

H100 = Gpu(
    id="h100-sxm-80gb",
    name="NVIDIA H100 80GB",
    memory_bytes=80 * 10**9,
    driver_name="NVIDIA H100 80GB HBM3",
    vendor="NVIDIA",
    compute_capability=(9, 0),
)
"""The device whose defaults are taken where the caller names none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VllmArguments:
    """Engine arguments by their own names; None is the engine's default, and the newest version
    whose rules are known.

    `entry_point` is what starts the engine: its defaults differ between the API server and the
    Python class. `gpu_memory_utilization`, `kv_cache_memory_bytes` and `enforce_eager` decide the
    budget, not the plan.
    """

    version: str | None = None
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    decode_context_parallel_size: int = 1
    kv_cache_dtype: str = "auto"
    max_model_len: int | None = None
    max_num_batched_tokens: int | None = None
    max_num_seqs: int | None = None
    block_size: int | None = None
    enable_prefix_caching: bool | None = None
    disable_hybrid_kv_cache_manager: bool | None = None
    speculative_method: str | None = None
    num_speculative_tokens: int | None = None
    gpu_memory_utilization: float | None = None
    kv_cache_memory_bytes: int | None = None
    enforce_eager: bool = False
    entry_point: Literal["api_server", "llm_class"] = "api_server"


@dataclass(frozen=True, kw_only=True, slots=True)
class VllmSettings:
    """The settings a plan rests on, every default filled in.

    Attributes:
        version: The version as asked for, or the newest known.
        rules: What that version does.
        max_concurrent_batches: Steps in flight at once: pipeline stages, and one more with
            asynchronous scheduling.
        kv_cache_dtype: `auto` only where the model's own precision is kept.
        block_size: Tokens a block of the main attention layers, as resolved at start-up.
        mamba_cache_mode: `align` where states are kept at block boundaries for prefix caching.
        window_lookahead: Tokens a window keeps beyond itself for drafting modules that read ahead.
    """

    version: str
    rules: VllmRules
    tensor_parallel_size: int
    pipeline_parallel_size: int
    decode_context_parallel_size: int
    kv_cache_dtype: str
    max_model_len: int
    max_num_batched_tokens: int
    max_num_seqs: int
    max_concurrent_batches: int
    enable_prefix_caching: bool
    disable_hybrid_kv_cache_manager: bool
    block_size: int
    mamba_cache_mode: Literal["none", "align"]
    num_speculative_tokens: int
    window_lookahead: int
    attention_backends: tuple[str, ...]

    @property
    def max_in_flight_tokens(self) -> int:
        """Tokens that may be scheduled and not yet settled, whose blocks are still held."""
        return self.max_concurrent_batches * self.max_num_batched_tokens

    @property
    def max_num_encoder_input_tokens(self) -> int:
        """Encoder positions a request reserves room for."""
        return self.max_num_batched_tokens
