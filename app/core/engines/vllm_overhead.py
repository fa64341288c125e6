"""Memory that vLLM uses outside torch's allocator: contexts, collectives, CUDA graphs.

No source states these sizes: they were read off startup logs, by version (`vllm_rules`) and by
class of device, and each comes with the doubt that the logs show.
"""

from app.core.engines.budgets import GIB, Doubt
from app.core.engines.vllm_activation import widths_of
from app.core.engines.vllm_arguments import VllmSettings
from app.core.hardware import Gpu
from app.core.model import ModelShape

UNIFIED = round(3.3 * GIB)
"""One memory for CPU and GPU: the page cache and host allocations count as used."""
UNIFIED_DOUBT = 2.0 * GIB
STEPS = 51
"""Sizes captured by default on large devices, for which the graphs were measured."""
GRAPHS_BASE = round(0.61 * GIB)
GRAPHS_A_WIDTH = 1760
"""Bytes a layer and element of the hidden state (0.164 GiB for 1e5 of them)."""
GRAPHS_AN_EXPERT_LAYER = round(0.011 * GIB)
LARGEST_STEP = 512
LARGEST_STEP_BLACKWELL = 1024


def is_data_centre(gpu: Gpu) -> bool:
    """Whether a device has high-bandwidth memory of its own."""
    return (gpu.memory_type or "").upper().startswith("HBM") and not gpu.unified_memory


def non_torch(settings: VllmSettings, gpu: Gpu) -> tuple[int, Doubt]:
    """Bytes that appear between the engine's first look at the device and the end of its profile
    run and that torch does not know of.
    """
    rules = settings.rules
    parallel = settings.tensor_parallel_size > 1
    if gpu.unified_memory:
        return UNIFIED, Doubt.both(UNIFIED_DOUBT)
    if is_data_centre(gpu):
        if settings.pipeline_parallel_size > 1 and not parallel:
            return rules.pipelined_context, Doubt.both(0.1 * GIB)
        if parallel:
            return rules.hbm_parallel, Doubt.both(0.6 * GIB)
        return rules.hbm_context, Doubt.both(0.15 * GIB)
    if parallel:
        return rules.small_parallel, Doubt.both(0.35 * GIB)
    return rules.small_context, Doubt.both(0.25 * GIB)


def graphs(
    shape: ModelShape, settings: VllmSettings, gpu: Gpu, *, enforce_eager: bool, layers: int
) -> tuple[int, Doubt]:
    """The engine's own estimate of its CUDA graphs, where its version takes it off the budget."""
    if enforce_eager or not settings.rules.charges_graphs:
        return 0, Doubt()
    size = graph_estimate(shape, settings, gpu, layers)
    return size, Doubt.both(max(0.15 * GIB, size / 2))


def graph_estimate(shape: ModelShape, settings: VllmSettings, gpu: Gpu, layers: int) -> int:
    """What the engine says its graphs will take, counted in the budget or not (fitted)."""
    size = GRAPHS_BASE + GRAPHS_A_WIDTH * layers * shape.hidden_size
    if widths_of(shape).experts:
        size += GRAPHS_AN_EXPERT_LAYER * layers
    return size * capture_sizes(settings, gpu) // STEPS


def capture_sizes(settings: VllmSettings, gpu: Gpu) -> int:
    """How many batch sizes are captured: 1, 2, 4, then each 8 to 256, then each 16."""
    largest = LARGEST_STEP
    if gpu.compute_capability is not None and gpu.compute_capability[0] == 10:
        largest = LARGEST_STEP_BLACKWELL
    tokens = 1 + settings.num_speculative_tokens
    top = min(2 * settings.max_num_seqs * tokens, largest, settings.max_num_batched_tokens)
    small = sum(size <= top for size in (1, 2, 4))
    return max(small + min(top, 248) // 8 + max(top - 240, 0) // 16, 1)
