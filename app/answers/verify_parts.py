"""The differences that a log shows, split into parts that add up to the byte.

A part says what it adds to the cache of one GPU: a predicted weight that turns out larger takes
from it. What the log does not print, and what its rounding hides, is the last part.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from app.answers.drafting import draft_of
from app.answers.room import EngineRoom, Room
from app.answers.verify_measured import deciding_pool, measured_parts
from app.core.budget import DEFAULT_ACTIVATION_BYTES, DEFAULT_OVERHEAD_BYTES, MemoryBudget
from app.logs.reading import ReadLog
from app.logs.templates import Size
from app.schemas.request import ConcurrencyBody
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

    @property
    def unprinted(self) -> frozenset[str]:
        """The parts that the log does not print."""
        return frozenset(PARTS) - self.measured.keys()

    @property
    def unexplained(self) -> int:
        """How far the predicted cache is from the measured one, the measured parts put in."""
        if self.pool_measured is None:
            return 0
        put_in = self.pool_predicted + sum(self.adds(name) or 0 for name in PARTS)
        return abs(self.pool_measured.bytes - put_in)


def parts_of(log: ReadLog, room: Room, request: ConcurrencyBody) -> PoolParts:
    """What decides the cache's memory on a GPU of the first stage, the draft's cache included."""
    ours = _predicted(room.budgets.parts[0])
    charges = isinstance(room, EngineRoom) and room.reserve(1).plan.settings.rules.charges_graphs
    total = None if log.engine == "llama.cpp" else ours["gpu_memory"]
    measured = measured_parts(log, charges_graphs=charges, total_bytes=total)
    pool = room.budgets.per_stage[0]
    # What a draft takes of the cache is counted as overhead there, and a log counts it as cache.
    own = own_share(room)
    drafted = max(ceil(pool / own) - pool, 0) if own else 0
    ours["non_torch"] -= drafted
    if log.engine == "llama.cpp":
        pool = room.at(request.max_model_len or 1).kv_bytes_per_sequence
        pool *= request.max_num_seqs or 1
        if request.gguf_file is None:
            # The file's own quantisation decides, which a config does not tell.
            ours["weights"] = 0
    return PoolParts(
        predicted=ours,
        measured=measured,
        pool_predicted=pool + drafted,
        pool_measured=deciding_pool(log),
        is_rest=log.engine != "llama.cpp",
    )


def own_share(room: Room) -> Fraction:
    """The part of the cache that is the model's own; a draft's tokens take the rest."""
    if not isinstance(room, EngineRoom) or room.request.draft_model is None:
        return Fraction(1)
    draft = draft_of(room.request.draft_model, room.request.tensor_parallel_size)
    return 1 - draft.share(room.deployment.load)


def _predicted(budget: MemoryBudget) -> dict[str, int]:
    """The parts of a budget by the names used here."""
    return {
        "gpu_memory": budget.gpu_memory_bytes,
        "unrequested": budget.unrequested_bytes,
        "weights": budget.weight_bytes,
        "activation": budget.activation_bytes,
        "non_torch": budget.overhead_bytes,
        "cuda_graphs": budget.cuda_graph_bytes,
    }


def split(
    parts: PoolParts, reasons: dict[str, str], left_open: tuple[str, ...] = ()
) -> Split | None:
    """From the predicted cache memory to the measured one; `left_open` is what the parts that are
    not printed rest on, in words.
    """
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
    lines.append(_rest(parts, rest, left_open))
    return Split(from_bytes=parts.pool_predicted, parts=lines, to_bytes=parts.pool_measured.bytes)


def _rest(parts: PoolParts, rest: int, left_open: tuple[str, ...] = ()) -> SplitPart:
    unprinted, rounding = [], 0
    if parts.is_rest:
        unprinted = [n for n in PARTS if n in parts.unprinted and parts.predicted.get(n)]
        rounding = sum(size.rounding for size in parts.measured.values())
    if parts.pool_measured is not None:
        rounding += parts.pool_measured.rounding
    if abs(rest) <= rounding:
        why = f"within the rounding of the printed figures ({rounding / GIB:.3f} GiB in all)"
    elif unprinted:
        words = ", ".join(name.replace("_", "-") for name in unprinted)
        why = "; ".join((f"what the log does not print: {words}", *left_open))
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
    own = int(pool * own_share(room))
    if own < pool:
        yield SplitPart(
            part="draft_cache",
            bytes=own - pool,
            reason=f"the cache of {room.request.draft_model}, by bytes a token",
        )
    yield from _inside_own(room, own, context)


def _inside_own(room: EngineRoom, pool: int, context: int) -> Iterator[SplitPart]:
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
