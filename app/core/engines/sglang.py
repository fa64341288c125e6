"""SGLang: a share of the memory for weights and pools, the rest for activations and graphs.

Read in 0.5.23: the automatic share in `arg_groups/memory_hook.py`, the pools in
`mem_cache/kv_cache_configurator.py` (`_profile_available_bytes`, `_handle_max_mamba_cache`) and
`model_executor/pool_configurator.py`. What no source states is the memory that the process holds
before it loads (`CONTEXT`), read off startup logs.
"""

from dataclasses import dataclass
from fractions import Fraction

from app.core.budget import MemoryBudget
from app.core.engines.budgets import (
    GIB,
    MIB,
    NOTHING_MEASURED,
    Calibration,
    Doubt,
    EngineBudget,
    band_around,
)
from app.core.engines.pools import SIXTEEN_BITS, PoolFit, padded
from app.core.hardware import Gpu
from app.core.kv import KvProfile

VERSION = "0.5.23"
FLOAT8 = ("fp8", "fp8_e4m3", "float8_e4m3fn", "fp8_e5m2", "float8_e5m2")
CACHE_TYPES = (*SIXTEEN_BITS, *FLOAT8, "mxfp8", "nvfp4", "mxfp4")
CONTEXT = round(0.6 * GIB)
PARALLEL_CONTEXT = round(1.6 * GIB)
CONTEXT_DOUBT = 0.6 * GIB
UNIFIED_CONTEXT = round(5 * GIB)
UNIFIED_DOUBT = 2.5 * GIB
WEIGHTS_DOUBT = 0.015

TIERS = (
    (20 * 1024, 2048, 8, 8),
    (35 * 1024, 4096, 48, 160),
    (60 * 1024, 4096, 32, 160),
    (90 * 1024, 8192, 256, 512),
    (160 * 1024, 8192, 256, 512),
)
"""(memory below, chunked prefill, largest graph, the same from TP 4 on), memory in MiB."""
LARGEST_TIER = (16384, 512)
MANY_RANKS = 4
FIXED_MIB = 512
MIB_A_TOKEN = Fraction(3, 2)
MIB_A_RANK = 128
MIB_A_SEQUENCE = 2
MIB_A_PREFILL_GRAPH = 8
LATENT_PREFILL_MIB = 1536
LEAST_TOKENS = 2048
TOWER_SHARE, TOWER_LAYERS, TOWER_WIDTH = Fraction(95, 100), 24, 1024
BIG_DEVICE_MIB, LEAST_RESERVE_MIB = 60 * 1024, 10 * 1024

WINDOW_SHARE = Fraction(4, 5)
"""`swa_full_tokens_ratio`: tokens of the windowed pool for each of the full one."""
STATE_SHARE = Fraction(9, 10)
"""`mamba_full_memory_ratio`: bytes of states for each of the token pool."""
SLOTS_A_REQUEST = 3
"""State slots a running request needs with the radix cache; 1 without."""
LEAST_REQUESTS, MOST_REQUESTS, REQUESTS_A_CONTEXT = 2048, 4096, 512


@dataclass(frozen=True, kw_only=True, slots=True)
class SglangArguments:
    """Engine arguments by their own names; None is the engine's default."""

    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    mem_fraction_static: Fraction | None = None
    max_running_requests: int | None = None
    chunked_prefill_size: int | None = None
    page_size: int = 1
    disable_radix_cache: bool = False
    disable_cuda_graph: bool = False


def chunked_prefill_and_graphs(memory_mib: int, tensor_parallel_size: int) -> tuple[int, int]:
    """Defaults of `chunked_prefill_size` and of the largest captured decode batch."""
    for below, chunk, few, many in TIERS:
        if memory_mib < below:
            return chunk, few if tensor_parallel_size < MANY_RANKS else many
    return LARGEST_TIER


def prefill_graphs(largest: int) -> int:
    """How many prefill sizes are captured: each 4 to 32, 16 to 256, 32 to 512, then coarser."""
    steps = ((32, 4), (256, 16), (512, 32), (1024, 64), (4096, 256), (1 << 62, 512))
    count = start = 0
    for end, step in steps:
        top = min(largest, end)
        if top > start:
            count += (top - start) // step
        start = end
    return max(count, 1)


def tower_share(layers: int, hidden: int) -> Fraction:
    """What is left of the automatic share beside a vision tower: 0.95, less for larger ones than
    24 layers of 1,024.
    """
    if not layers:
        return Fraction(1)
    larger = Fraction(layers * hidden**2, TOWER_LAYERS * TOWER_WIDTH**2) - 1
    return TOWER_SHARE * max(Fraction(4, 5), min(Fraction(21, 20), 1 - larger / 10))


def automatic_fraction(
    memory_mib: int,
    arguments: SglangArguments,
    *,
    latent: bool,
    tower: tuple[int, int] = (0, 0),
) -> Fraction:
    """`mem_fraction_static` where none is given, rounded to thousandths before a vision tower
    (layers, hidden width) takes its part.
    """
    chunk, graphs = chunked_prefill_and_graphs(memory_mib, arguments.tensor_parallel_size)
    chunk = arguments.chunked_prefill_size or chunk
    graphs = min(graphs, arguments.max_running_requests or graphs)
    reserved = FIXED_MIB + max(chunk, LEAST_TOKENS) * MIB_A_TOKEN
    reserved += arguments.tensor_parallel_size * arguments.pipeline_parallel_size * MIB_A_RANK
    if not arguments.disable_cuda_graph:
        reserved += MIB_A_SEQUENCE * graphs
        reserved += LATENT_PREFILL_MIB if latent else MIB_A_PREFILL_GRAPH * prefill_graphs(chunk)
    if memory_mib > BIG_DEVICE_MIB:
        reserved = max(reserved, Fraction(LEAST_RESERVE_MIB))
    share = Fraction(round((memory_mib - reserved) / memory_mib * 1000), 1000)
    return share * tower_share(*tower)


def sglang_budget(
    weight_bytes: int,
    gpu: Gpu,
    arguments: SglangArguments,
    *,
    latent: bool,
    tower: tuple[int, int] = (0, 0),
    used_bytes: int = 0,
    measured: Calibration = NOTHING_MEASURED,
) -> EngineBudget:
    """The pools' budget: free after loading, less the share of what was free before."""
    total = measured.gpu_memory_bytes or gpu.visible_memory_bytes
    context = PARALLEL_CONTEXT if arguments.tensor_parallel_size > 1 else CONTEXT
    context = UNIFIED_CONTEXT if gpu.unified_memory else context
    doubt = Doubt.both(UNIFIED_DOUBT if gpu.unified_memory else CONTEXT_DOUBT)
    if measured.non_torch_bytes is not None:
        context, doubt = measured.non_torch_bytes, Doubt()
    weights = measured.weight_bytes or weight_bytes
    weight_doubt = Doubt() if measured.weight_bytes else Doubt.both(WEIGHTS_DOUBT * weights)
    free = total - context - used_bytes
    fraction = arguments.mem_fraction_static
    notes: tuple[str, ...] = ()
    if fraction is None:
        reported = gpu.memory_bytes_reported or total
        fraction = automatic_fraction(reported // MIB, arguments, latent=latent, tower=tower)
        notes = (f"mem_fraction_static {float(fraction):.4g}, which SGLang {VERSION} works out",)
    left = free - int(free * fraction)
    parts = MemoryBudget(
        gpu_memory_bytes=total,
        weight_bytes=weights,
        activation_bytes=left,
        overhead_bytes=context + used_bytes,
    )
    budget = parts.kv_budget_bytes
    band = band_around(budget, (doubt, weight_doubt))
    found = EngineBudget(parts=parts, kv_budget_bytes=budget, band=band, assumptions=notes)
    return found.known_to_be(measured.kv_budget_bytes)


@dataclass(frozen=True, kw_only=True, slots=True)
class SglangPools:
    """Tokens of full layers, tokens of windowed ones, and slots of states, each a pool."""

    profile: KvProfile
    arguments: SglangArguments

    def fit(self, budget: int, context: int) -> PoolFit:
        """Whole pages of a sequence in each pool; the pool that runs out first decides."""
        budget = max(budget, 0)
        slots: int | None = None
        if self.profile.state_bytes:
            states = int(budget * STATE_SHARE / (1 + STATE_SHARE))
            per_request = 1 if self.arguments.disable_radix_cache else SLOTS_A_REQUEST
            slots = states // self.profile.state_bytes // per_request
            budget -= states
        full = Fraction(0)
        windowed = Fraction(0)
        window = 0
        for term in self.profile.terms:
            size = Fraction(term.bytes_per_entry, term.stride)
            if term.limit is None:
                full += size / self.profile.context_shards
            else:
                windowed += size
                window = max(window, term.limit)
        held = padded(context, self.arguments.page_size)
        share = WINDOW_SHARE if windowed and full else Fraction(1 if windowed else 0)
        per_token = full + windowed * share
        if not per_token:
            return PoolFit(
                sequences=None if slots is None else Fraction(slots),
                bytes_per_sequence=self.profile.state_bytes,
                tokens=0,
                ceiling=slots,
                ceiling_is="state_slots",
                counted=None if slots is None else (slots, 1),
            )
        tokens = int(budget / per_token)
        counts = [(tokens, held)] if full else []
        if windowed:
            inside = padded(min(context, window), self.arguments.page_size)
            counts.append((int(tokens * share), inside))
        counted = min(counts, key=lambda count: Fraction(*count))
        ceiling = self.arguments.max_running_requests or min(
            max(tokens * REQUESTS_A_CONTEXT // context, LEAST_REQUESTS), MOST_REQUESTS
        )
        bound_by_states = slots is not None and slots < ceiling
        return PoolFit(
            sequences=Fraction(*counted),
            bytes_per_sequence=self.profile.bytes_per_sequence(held),
            tokens=tokens,
            ceiling=slots if bound_by_states else ceiling,
            ceiling_is="state_slots" if bound_by_states else "max_num_seqs",
            counted=counted,
        )
