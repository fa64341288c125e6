"""llama.cpp: every slot's whole context is allocated at start, beside weights and a work buffer.

Read off `llama_kv_cache`, `llama_kv_cache_iswa`, `llama_memory_recurrent` and `sched_reserve`
lines of its startup logs (b7000), to the byte: cells are padded to 256, windowed layers hold
`pad(window + ubatch)` cells and keep f16 whatever the cache type, states are fp32.
"""

from dataclasses import dataclass
from fractions import Fraction

from app.core.budget import MemoryBudget
from app.core.cache import CacheLayout
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
from app.core.kv import KvProfile, profile_of
from app.core.model import ModelShape
from app.core.precision import FLOAT16, FLOAT32, Precision

QUANTISED = ("q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl")
CACHE_TYPES = ("float32", "fp32", "float", *SIXTEEN_BITS, *QUANTISED)
"""Its `f32`, `f16` and `bf16` as requests spell them, and its blocks of 32."""
CELLS = 256
UBATCH = 512
FP32_BYTES = 4
MASK_BYTES = 2
CONTEXT = round(0.5 * GIB)
CONTEXT_DOUBT = 0.4 * GIB
BUFFER_DOUBT = 0.3
WEIGHTS_DOUBT = 0.02


@dataclass(frozen=True, kw_only=True, slots=True)
class LlamaCppArguments:
    """`-np`, `-ub` and cache type; None is the default (one slot, 512, f16)."""

    parallel_slots: int | None = None
    ubatch: int | None = None


def compute_buffer(shape: ModelShape, context: int, ubatch: int) -> int:
    """Logits and hidden states of a micro-batch in fp32, and its attention mask in f16.

    The mask spans the cells of one slot: slots have streams of their own.
    """
    logits = FP32_BYTES * ubatch * (shape.vocab_size + shape.hidden_size)
    return logits + MASK_BYTES * ubatch * padded(context, CELLS)


@dataclass(frozen=True, kw_only=True, slots=True)
class LlamaCppPools:
    """The cache of a slot: `cache` in the type asked for, windows in f16, states in fp32."""

    cache: KvProfile
    windows: KvProfile
    arguments: LlamaCppArguments

    @classmethod
    def of(
        cls, shape: ModelShape, cache_type: Precision, arguments: LlamaCppArguments
    ) -> "LlamaCppPools":
        """A model's."""
        asked = CacheLayout(attention_dtype=cache_type, model_dtype=FLOAT32)
        kept = CacheLayout(attention_dtype=FLOAT16, model_dtype=FLOAT32)
        return cls(
            cache=profile_of(shape.groups, asked),
            windows=profile_of(shape.groups, kept),
            arguments=arguments,
        )

    def bytes_per_slot(self, context: int) -> int:
        """What one slot of `context` tokens takes."""
        cells = padded(context, CELLS)
        ubatch = self.arguments.ubatch or UBATCH
        total = self.cache.state_bytes
        for asked, kept in zip(self.cache.terms, self.windows.terms, strict=True):
            if asked.limit is None:
                total += asked.bytes_per_entry * (cells // asked.stride)
            else:
                held = min(padded(asked.limit + ubatch, CELLS), cells)
                total += kept.bytes_per_entry * (held // kept.stride)
        return total

    def fit(self, budget: int, context: int) -> PoolFit:
        """Slots of that context that the memory holds."""
        one = self.bytes_per_slot(context)
        sequences = Fraction(max(budget, 0), one) if one else None
        slots, refusal = self.arguments.parallel_slots, None
        if slots is not None and slots * one > max(budget, 0):
            refusal = (
                f"llama.cpp does not start: {slots} slots of {context} tokens take {slots * one} "
                f"bytes, and {max(budget, 0)} are left for them"
            )
        return PoolFit(
            sequences=sequences,
            bytes_per_sequence=one,
            tokens=0 if sequences is None else int(sequences) * padded(context, CELLS),
            ceiling=slots,
            refusal=refusal,
        )


def llama_cpp_budget(
    weight_bytes: int,
    buffer: int,
    gpu: Gpu,
    *,
    used_bytes: int = 0,
    measured: Calibration = NOTHING_MEASURED,
) -> EngineBudget:
    """Memory less the process, the weights and the work buffer: what slots may take."""
    total = measured.gpu_memory_bytes or gpu.visible_memory_bytes
    context = CONTEXT if measured.non_torch_bytes is None else measured.non_torch_bytes
    weights = measured.weight_bytes or weight_bytes
    buffer = buffer if measured.activation_bytes is None else measured.activation_bytes
    parts = MemoryBudget(
        gpu_memory_bytes=total,
        weight_bytes=weights,
        activation_bytes=buffer,
        overhead_bytes=context + used_bytes,
    )
    budget = parts.kv_budget_bytes
    doubts = (
        Doubt.both(CONTEXT_DOUBT),
        Doubt.both(BUFFER_DOUBT * buffer),
        Doubt.both(WEIGHTS_DOUBT * weights),
    )
    band = band_around(budget, doubts)
    found = EngineBudget(
        parts=parts,
        kv_budget_bytes=budget,
        band=band,
        assumptions=("llama.cpp allocates the whole context of every slot at start",),
    )
    return found.known_to_be(measured.kv_budget_bytes)
