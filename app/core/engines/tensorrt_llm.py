"""TensorRT-LLM: a fraction of what is free once the engine is loaded goes to the cache.

`KvCacheConfig.free_gpu_memory_fraction` (0.9 by default) and `tokens_per_block` (32), as the
documentation of 1.0 states them; the memory that the runtime holds beside the weights was read off public
reports and is the larger doubt. Capacity counts whole blocks.
"""

from dataclasses import dataclass
from fractions import Fraction

from app.core.budget import MemoryBudget
from app.core.engines.budgets import (
    GIB,
    NOTHING_MEASURED,
    Calibration,
    Doubt,
    EngineBudget,
    band_around,
)
from app.core.engines.pools import SIXTEEN_BITS, PoolFit, padded
from app.core.hardware import Gpu
from app.core.kv import KvProfile

CACHE_TYPES = (*SIXTEEN_BITS, "fp8", "fp8_e4m3", "float8_e4m3fn", "int8", "nvfp4")
FRACTION = Fraction(9, 10)
TOKENS_PER_BLOCK = 32
MAX_BATCH_SIZE = 2048
MAX_NUM_TOKENS = 8192
CONTEXT = round(0.8 * GIB)
PARALLEL_CONTEXT = round(2.0 * GIB)
DOUBT = 1.0 * GIB
WEIGHTS_DOUBT = 0.015
FP32_BYTES = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class TensorRtLlmArguments:
    """Engine arguments by their own names; None is the engine's default."""

    tensor_parallel_size: int = 1
    free_gpu_memory_fraction: Fraction | None = None
    max_batch_size: int | None = None
    max_num_tokens: int | None = None
    tokens_per_block: int | None = None


def runtime_buffers(vocab_size: int, hidden_size: int, arguments: TensorRtLlmArguments) -> int:
    """Buffers sized for the largest batch: fp32 logits of every sequence, and the hidden states
    and MLP inputs (about six widths in 16 bits) of every token.
    """
    sequences = arguments.max_batch_size or MAX_BATCH_SIZE
    tokens = arguments.max_num_tokens or MAX_NUM_TOKENS
    share = vocab_size // arguments.tensor_parallel_size
    return FP32_BYTES * sequences * share + 12 * tokens * hidden_size


def tensorrt_llm_budget(
    weight_bytes: int,
    buffers: int,
    gpu: Gpu,
    arguments: TensorRtLlmArguments,
    *,
    used_bytes: int = 0,
    measured: Calibration = NOTHING_MEASURED,
) -> EngineBudget:
    """Fraction x (memory - context - weights - buffers)."""
    total = measured.gpu_memory_bytes or gpu.visible_memory_bytes
    context = PARALLEL_CONTEXT if arguments.tensor_parallel_size > 1 else CONTEXT
    context = context if measured.non_torch_bytes is None else measured.non_torch_bytes
    weights = measured.weight_bytes or weight_bytes
    buffers = buffers if measured.activation_bytes is None else measured.activation_bytes
    free = total - used_bytes - context - weights - buffers
    fraction = arguments.free_gpu_memory_fraction or FRACTION
    parts = MemoryBudget(
        gpu_memory_bytes=total,
        weight_bytes=weights,
        activation_bytes=buffers,
        overhead_bytes=context + used_bytes,
        unrequested_bytes=max(free, 0) - int(max(free, 0) * fraction),
    )
    budget = parts.kv_budget_bytes
    band = band_around(budget, (Doubt.both(DOUBT), Doubt.both(WEIGHTS_DOUBT * weights)))
    found = EngineBudget(
        parts=parts,
        kv_budget_bytes=budget,
        band=band,
        assumptions=(
            f"TensorRT-LLM keeps {float(fraction):g} of the memory that is free once the engine "
            "is loaded for its cache",
        ),
    )
    return found.known_to_be(measured.kv_budget_bytes)


@dataclass(frozen=True, kw_only=True, slots=True)
class TensorRtLlmPools:
    """One pool of blocks; windows are kept in rings, states per sequence."""

    profile: KvProfile
    arguments: TensorRtLlmArguments

    def fit(self, budget: int, context: int) -> PoolFit:
        """Sequences in whole blocks."""
        block = self.arguments.tokens_per_block or TOKENS_PER_BLOCK
        one = self.profile.bytes_per_sequence(padded(context, block))
        budget = max(budget, 0)
        rate = self.profile.bytes_per_token
        return PoolFit(
            sequences=Fraction(budget, one) if one else None,
            bytes_per_sequence=one,
            tokens=int(budget / rate) // block * block if rate else 0,
            ceiling=self.arguments.max_batch_size or MAX_BATCH_SIZE,
        )
