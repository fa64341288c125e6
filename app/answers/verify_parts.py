"""The differences that a log shows, split into parts that add up to the byte.

A part says what it adds to the cache of one GPU: a predicted weight that turns out larger takes
from it. What the log does not print, and what its rounding hides, is the last part.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from app.answers.room import EngineRoom, Room
from app.core.budget import DEFAULT_ACTIVATION_BYTES, DEFAULT_OVERHEAD_BYTES, MemoryBudget
from app.core.decode import decimal
from app.logs.found import difference, total_of
from app.logs.reading import ReadLog
from app.logs.templates import Size
from app.schemas.verify import Split, SplitPart

GIB = 2**30
PARTS = ("gpu_memory", "unrequested", "weights", "activation", "non_torch", "cuda_graphs")


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolParts:
    """What decides a cache's memory, of one GPU: predicted and, where the log prints it, measured.

    The memory counts for the cache, every other part against it; unless the cache is no rest but
    as large as its context asks (llama.cpp).
    """

    predicted: dict[str, int]
    measured: dict[str, Size]
    pool_predicted: int
    pool_measured: Size | None
    is_rest: bool = True

    def adds(self, name: str) -> int | None:
        """What the cache gains by the measured part in place of the predicted one."""
        if name not in self.measured:
            return None
        more = self.measured[name].bytes - self.predicted[name]
        return more if name == "gpu_memory" else -more


def predicted_parts(budget: MemoryBudget) -> dict[str, int]:
    """The parts of a budget by the names used here."""
    return {
        "gpu_memory": budget.gpu_memory_bytes,
        "unrequested": budget.unrequested_bytes,
        "weights": budget.weight_bytes,
        "activation": budget.activation_bytes,
        "non_torch": budget.overhead_bytes,
        "cuda_graphs": budget.cuda_graph_bytes,
    }


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


def split(parts: PoolParts, reasons: dict[str, str]) -> Split | None:
    """From the predicted cache memory to the measured one."""
    if parts.pool_measured is None:
        return None
    lines = []
    if parts.is_rest:
        lines = [
            SplitPart(part=name, bytes=added, reason=reasons[name])
            for name in PARTS
            if (added := parts.adds(name)) is not None
        ]
    rest = parts.pool_measured.bytes - parts.pool_predicted - sum(line.bytes for line in lines)
    lines.append(_rest(parts, rest))
    return Split(from_bytes=parts.pool_predicted, parts=lines, to_bytes=parts.pool_measured.bytes)


def _rest(parts: PoolParts, rest: int) -> SplitPart:
    unprinted, rounding = [], 0
    if parts.is_rest:
        unprinted = [n for n in PARTS if n not in parts.measured and parts.predicted.get(n)]
        rounding = sum(size.rounding for size in parts.measured.values())
    if parts.pool_measured is not None:
        rounding += parts.pool_measured.rounding
    if abs(rest) <= rounding:
        why = f"within the rounding of the printed figures ({rounding / GIB:.3f} GiB in all)"
    elif unprinted:
        words = ", ".join(name.replace("_", "-") for name in unprinted)
        why = f"what the log does not print: {words}"
    else:
        why = "no printed figure accounts for it"
    return SplitPart(part="not_printed" if unprinted else "unexplained", bytes=rest, reason=why)


def from_formula(room: Room, log: ReadLog, parts: PoolParts, context: int) -> Split | None:
    """From formula (4) with the calculator's headrooms to what the logged cache's tokens need.

    Ends at sequences x the bytes that their tokens need, divided evenly over the GPUs: what a
    calculator would multiply. Everything before that is memory that does not become tokens.
    """
    gpu, pool = room.deployment.gpu, parts.pool_measured
    if gpu is None or pool is None or log.engine != "vllm":
        return None
    weights = room.deployment.load.stages[0].weight_bytes
    start = gpu.memory_bytes - weights - DEFAULT_ACTIVATION_BYTES - DEFAULT_OVERHEAD_BYTES
    lines = list(_to_pool(parts, gpu.memory_bytes, weights))
    rest = pool.bytes - start - sum(line.bytes for line in lines)
    lines.append(_rest(parts, rest))
    end = pool.bytes
    if isinstance(room, EngineRoom):
        inside = list(_inside(room, pool.bytes, context))
        end += sum(line.bytes for line in inside)
        lines += inside
    return Split(from_bytes=start, parts=lines, to_bytes=end)


def _to_pool(parts: PoolParts, sold: int, weights: int) -> Iterator[SplitPart]:
    def best(name: str) -> tuple[int, str]:
        if name in parts.measured:
            return parts.measured[name].bytes, "as logged"
        return parts.predicted[name], "as predicted"

    total, how = best("gpu_memory")
    yield SplitPart(
        part="gib_against_gb",
        bytes=total - sold,
        reason=f"a process sees {total / GIB:.2f} GiB ({how}); the formula takes {sold / 1e9:g} GB",
    )
    share, how = best("unrequested")
    yield SplitPart(
        part="version_rule",
        bytes=-share,
        reason=f"the engine leaves alone what is beyond its share ({how})",
    )
    for name, expected in (
        ("weights", weights),
        ("activation", DEFAULT_ACTIVATION_BYTES),
        ("non_torch", DEFAULT_OVERHEAD_BYTES),
        ("cuda_graphs", 0),
    ):
        size, how = best(name)
        yield SplitPart(
            part=name,
            bytes=expected - size,
            reason=f"{size / GIB:.2f} GiB ({how}) in place of {expected / GIB:.2f} GiB",
        )


def _inside(room: EngineRoom, pool: int, context: int) -> Iterator[SplitPart]:
    """Inside the pool: what is not the tokens' own bytes."""
    plan, load = room.reserve(context).plan, room.deployment.load
    block, blocks = plan.stage_block_bytes[0], plan.blocks(context)
    if not block or not blocks or len(load.stages) > 1:
        return
    held = pool // block
    yield SplitPart(
        part="block_rounding_of_the_pool",
        bytes=-(pool - held * block),
        reason=f"{held:,} whole blocks of {block:,} bytes; the rest is less than a block",
    )
    sequences = Fraction(held, blocks)
    profile = load.stages[0].profile
    own = profile.bytes_per_sequence(context)
    padded = -(-context // plan.block_size) * plan.block_size
    rounded = profile.bytes_per_sequence(padded)
    even = Fraction(load.whole.bytes_per_sequence(context), load.tensor_parallel_size)
    reserved = blocks * block
    for name, size, why in (
        (
            "padding_layers",
            reserved - rounded,
            "groups of layers padded to one size, windows in flight, aligned pages",
        ),
        (
            "block_rounding",
            rounded - own,
            f"the last block of a sequence, of {plan.block_size} tokens, is not full",
        ),
        (
            "replicated_heads",
            own - even,
            "heads that every rank keeps because there are fewer than ranks",
        ),
    ):
        yield SplitPart(part=name, bytes=-round(sequences * size), reason=why)
