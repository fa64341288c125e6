"""What a log's measurements come to: the parts of the memory, the pool that decides, its tokens."""

from math import ceil

from app.core.decode import decimal
from app.logs.found import difference, total_of
from app.logs.reading import Measured, ReadLog
from app.logs.templates import Size

FIRST_BLOCK = 16
"""Tokens a block of vLLM's first engine on GPUs, where its log does not say."""
LARGEST_BLOCK = 256
"""Tokens of the largest block that kernels take; larger ones the engine makes to match states."""


def measured_parts(
    log: ReadLog, *, charges_graphs: bool, total_bytes: int | None = None
) -> dict[str, Size]:
    """The same as measured, by what each engine prints.

    `total_bytes` is the GPU's memory where the log prints only what of it was free at the start.
    """
    found = log.measured
    parts: dict[str, Size | None] = {"gpu_memory": found.total, "weights": found.weights}
    if log.engine == "vllm":
        non_torch = found.non_torch or difference(found.consumed, found.weights)
        graphs = found.graphs_estimated if charges_graphs else Size(0)
        parts |= {
            "unrequested": difference(found.total, _requested(log)),
            "activation": found.activation,
            "non_torch": non_torch,
            "cuda_graphs": Size(0) if log.settings.enforce_eager else graphs,
        }
    elif log.engine == "sglang" and found.free_at_start is not None:
        free, share = found.free_at_start, log.settings.memory_fraction
        if share is not None:
            left = free.bytes - int(free.bytes * decimal(share))
            parts["activation"] = Size(left, free.rounding)
        total = found.total or (None if total_bytes is None else Size(total_bytes))
        parts["non_torch"] = difference(total, free)
    elif log.engine == "tensorrt-llm":
        parts |= {"activation": found.activation, "non_torch": found.non_torch}
        taken = total_of(s for s in (found.weights, found.activation, found.non_torch) if s)
        free_after = difference(found.total, taken)
        share = log.settings.memory_fraction
        if free_after is not None and share is not None and None not in parts.values():
            kept = free_after.bytes - int(free_after.bytes * decimal(share))
            parts["unrequested"] = Size(kept, free_after.rounding)
    elif log.engine == "llama.cpp":
        parts["activation"] = found.activation
    return {name: size for name, size in parts.items() if size is not None}


def _requested(log: ReadLog) -> Size | None:
    found, share = log.measured, log.settings.gpu_memory_utilization
    if found.requested is not None or found.total is None or share is None:
        return found.requested
    return Size(ceil(found.total.bytes * decimal(share)), found.total.rounding)


def pool_of(found: Measured) -> Size | None:
    """All memory of the cache: states and further pools included."""
    pools = tuple(pool.size for pool in found.pools) or (found.available_kv,)
    return total_of(size for size in (*pools, found.state) if size is not None)


def deciding_pool(log: ReadLog) -> Size | None:
    """The same of the rank that has least, which decides; of pipeline stages, of the first one."""
    pool, found = pool_of(log.measured), log.measured
    least = found.available_kv_least
    first = log.ranks[0].stage if log.ranks else None
    if any(rank.stage != first for rank in log.ranks):
        held = [rank.available_kv for rank in log.ranks if rank.stage == first]
        least = min((size for size in held if size is not None), key=_size, default=None)
    if pool is None or least is None or found.pools or found.state is not None:
        return pool
    return min(least, pool, key=_size)


def _size(size: Size) -> int:
    return size.bytes


def first_engine_block(log: ReadLog) -> int | None:
    """Tokens a block where a log counts only blocks, as vLLM's first engine does: as it states
    them, or that engine's default.
    """
    found, stated = log.measured, log.settings.block_size
    if log.engine != "vllm" or found.num_blocks is None or found.kv_tokens is not None:
        return None
    return None if (stated or 0) > LARGEST_BLOCK else stated or FIRST_BLOCK


def tokens_of(log: ReadLog) -> int | None:
    """Tokens of the cache: as printed, or those of the blocks that are."""
    found, block = log.measured, first_engine_block(log)
    if found.num_blocks is None or block is None:
        return found.kv_tokens
    return found.num_blocks * block
