"""The table: quantity, predicted, measured, difference, reason; and what it refutes."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import floor

from app.answers.room import EngineRoom, PoolRoom, Room
from app.answers.verify_measured import first_engine_block, tokens_of
from app.answers.verify_parts import PARTS, PoolParts, own_share
from app.answers.verify_words import CLOSE, gib
from app.logs.reading import ReadLog
from app.logs.templates import Size
from app.schemas.verify import Refuted, Sequences, Unit, VerifyRow

CONCURRENCY_DIGITS = 0.005
OTHERWISE = "not what the logged memory gives: the cache is laid out otherwise"
OF_LOGGED_MEMORY = "_of_logged_memory"
MUCH_MEMORY = 0.02
"""Share of the memory that something else holds, from which it is worth a word."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One quantity, predicted and measured."""

    quantity: str
    unit: Unit
    predicted: float | int | None = None
    measured: float | int | None = None
    rounding: float | int = 0
    reason: str = "not predicted"

    @classmethod
    def of_size(
        cls, quantity: str, predicted: int | None, measured: Size | None, why: str
    ) -> "Row":
        """A row in bytes."""
        return cls(
            quantity=quantity,
            unit="bytes",
            predicted=predicted,
            measured=None if measured is None else measured.bytes,
            rounding=0 if measured is None else measured.rounding,
            reason=why,
        )

    @property
    def difference(self) -> float | int | None:
        """Measured less predicted."""
        if self.measured is None or self.predicted is None:
            return None
        return self.measured - self.predicted

    @property
    def share(self) -> float | None:
        """The difference as a share of the prediction."""
        if self.difference is None or not self.predicted:
            return None
        return self.difference / self.predicted

    @property
    def of_logged_memory(self) -> bool:
        """Whether it is worked out from the log's own memory."""
        return self.quantity.endswith(OF_LOGGED_MEMORY)

    @property
    def as_laid_out(self) -> bool:
        """False where the logged memory does not give this."""
        return not self.reason.startswith(OTHERWISE)

    @property
    def agrees(self) -> bool:
        """Whether the digits printed allow the prediction."""
        return self.difference is None or abs(self.difference) <= self.rounding

    def shown(self) -> VerifyRow:
        """For the answer."""
        return VerifyRow(
            quantity=self.quantity,
            predicted=self.predicted,
            measured=self.measured,
            difference=self.difference,
            rounding=self.rounding,
            unit=self.unit,
            reason=self.reason,
        )


def rows_of(parts: PoolParts, reasons: dict[str, str]) -> Iterator[Row]:
    """Memory: the parts, and what they leave."""
    for name in PARTS:
        measured, predicted = parts.measured.get(name), parts.predicted[name]
        if name == "weights" and not predicted:
            why = "not predicted: the file's own quantisation decides; name it (gguf_file)"
            yield Row.of_size(name, None, measured, why)
        elif measured is not None or predicted:
            yield Row.of_size(name, predicted, measured, reasons[name])
    pool = parts.pool_measured
    if pool is None:
        why = "not in the log"
    elif abs(pool.bytes - parts.pool_predicted) <= pool.rounding:
        why = "as predicted, to the digits printed"
    else:
        why = "the sum of the differences above: see kv_pool"
        if not parts.is_rest:
            why = "cells of every slot's whole context, in the type asked for, and states"
    yield Row.of_size("kv_pool", parts.pool_predicted, pool, why)


def capacity_rows(log: ReadLog, room: Room, parts: PoolParts, context: int) -> Iterator[Row]:
    """Tokens and sequences, from the prediction and from the memory that the log has."""
    fit, found = room.at(context), log.measured
    follows = "follows the cache's memory"
    tokens = fit.tokens
    if not parts.is_rest:
        tokens, follows = context * (fit.ceiling or 1), "the context that was asked for"
    yield Row(
        quantity="kv_cache_tokens",
        unit="tokens",
        predicted=tokens,
        measured=tokens_of(log),
        reason=follows,
    )
    if found.num_blocks is not None:
        yield Row(
            quantity="num_blocks",
            unit="blocks",
            predicted=fit.num_blocks,
            measured=found.num_blocks,
            reason=follows,
        )
    if log.engine != "llama.cpp":
        yield Row(
            quantity="max_concurrency",
            unit="sequences",
            predicted=None if fit.sequences is None else float(fit.sequences),
            measured=found.max_concurrency,
            rounding=CONCURRENCY_DIGITS,
            reason=f"sequences of {context:,} tokens; {follows}",
        )
    memory = found.available_kv_least or parts.pool_measured
    if memory is None or memory.bytes <= 0:
        return
    if isinstance(room, EngineRoom):
        yield from _of_logged_memory(log, room, memory, context)
    elif isinstance(room, PoolRoom) and parts.is_rest and found.kv_tokens is not None:
        yield _pool_tokens(room, parts.pool_measured or memory, found.kv_tokens, context)


def _of_logged_memory(log: ReadLog, room: EngineRoom, memory: Size, context: int) -> Iterator[Row]:
    plan, found = room.reserve(context).plan, log.measured
    budgets, own = _by_stage(log, memory, len(plan.stages)), own_share(room)
    # Where only one stage of several says what it has, another may have less.
    partly = len(plan.stages) > 1 and len(set(budgets)) == 1
    at, low, high = (
        plan.capacity([int(max(budget + more, 0) * own) for budget in budgets], context)
        for more in (0, -memory.rounding, memory.rounding)
    )
    version = plan.settings.rules.tokens_are == "blocks"
    lines: tuple[tuple[str, Unit, float | None, str], ...] = (
        (
            "kv_cache_tokens",
            "tokens",
            found.kv_tokens,
            "this version's token line is "
            + ("blocks x block size" if version else "concurrency x max_model_len"),
        ),
        (
            "num_blocks",
            "blocks",
            found.num_blocks,
            f"a block is {plan.bytes_per_block:,} bytes on each GPU",
        ),
        (
            "max_concurrency",
            "sequences",
            found.max_concurrency,
            f"a request of {context:,} tokens takes {plan.blocks(context):,} blocks",
        ),
    )
    for quantity, unit, logged, rule in lines:
        if logged is None:
            continue
        ours, least, most = (getattr(found_at, quantity) for found_at in (at, low, high))
        digits = CONCURRENCY_DIGITS if unit == "sequences" else 1
        spread = (most - least) / 2 + digits
        inside = least - digits <= logged <= most + digits or (partly and logged <= most)
        reason = _layout_words(inside=inside, ours=ours, logged=logged, rule=rule)
        if not inside and logged < ours and log.ranks == () and room.deployment.load.gpus > 1:
            held = memory.bytes * logged / ours
            reason += f"; or the rank with least, which decides, has {gib(held)} and not printed it"
        yield Row(
            quantity=quantity + OF_LOGGED_MEMORY,
            unit=unit,
            predicted=ours,
            measured=logged,
            rounding=spread,
            reason=reason,
        )


def _by_stage(log: ReadLog, memory: Size, stages: int) -> list[int]:
    """What each pipeline stage has: the least of its ranks, where they say."""
    said: dict[int, int] = {}
    for rank in log.ranks:
        if rank.available_kv is not None:
            held = said.get(rank.stage, rank.available_kv.bytes)
            said[rank.stage] = min(held, rank.available_kv.bytes)
    if said.keys() == set(range(stages)):
        return [said[stage] for stage in range(stages)]
    return [memory.bytes] * stages


def _pool_tokens(room: PoolRoom, memory: Size, tokens: int, context: int) -> Row:
    pools = room.budgets.pools[0]
    at, low, high = (
        pools.fit(max(memory.bytes + more, 0), context).tokens
        for more in (0, -memory.rounding, memory.rounding)
    )
    inside = low - 1 <= tokens <= high + 1
    rule = "the memory over the bytes of a token"
    return Row(
        quantity="kv_cache_tokens" + OF_LOGGED_MEMORY,
        unit="tokens",
        predicted=at,
        measured=tokens,
        rounding=(high - low) // 2 + 1,
        reason=_layout_words(inside=inside, ours=at, logged=tokens, rule=rule),
    )


def _layout_words(*, inside: bool, ours: float, logged: float, rule: str) -> str:
    if inside:
        return f"as the logged memory gives it, to its rounding ({rule})"
    words = f"{OTHERWISE} ({rule})"
    if ours > 0 and logged > 0:
        times = ours / logged
        if min(abs(times - whole) for whole in (0.25, 0.5, 2, 4)) < CLOSE * times:
            words += f"; {times:.2f} times the bytes a token: another precision of the cache"
    return words


def sequences_of(log: ReadLog, room: Room | None, context: int | None) -> Sequences | None:
    """Blocks as sequences: the log's own, or those that its tokens make."""
    found = log.measured
    length = found.concurrency_len or context
    if log.engine not in {"vllm", "tensorrt-llm"} or length is None:
        return None
    plan = room.reserve(length).plan if isinstance(room, EngineRoom) else None
    size = log.settings.block_size or first_engine_block(log)
    if size is None and plan is not None:
        size = plan.block_size
    if size is None:
        return None
    blocks = found.num_blocks
    if blocks is None and found.kv_tokens is not None and _one_group(room):
        blocks = found.kv_tokens // size
    if not blocks:
        return None
    per_sequence = -(-length // size)
    if plan is not None and plan.block_size == size:
        per_sequence = plan.blocks(length)
    return Sequences(
        context=length,
        block_size=size,
        num_blocks=blocks,
        blocks_per_sequence=per_sequence,
        sequences=blocks / per_sequence,
        logged=found.max_concurrency,
        working=(
            f"{blocks:,} blocks x {size:,} tokens = {blocks * size:,} tokens; a sequence of "
            f"{length:,} tokens takes {per_sequence:,} blocks; {blocks:,} / {per_sequence:,} = "
            f"{blocks / per_sequence:.2f}, so {floor(blocks / per_sequence):,} whole sequences"
        ),
    )


def _one_group(room: Room | None) -> bool:
    """Whether tokens over block size are blocks: where all layers share one table of them."""
    return room is None or (isinstance(room, EngineRoom) and len(room.reserve(1).plan.groups) == 1)


def refuted(log: ReadLog, room: Room | None, rows: list[Row], context: int | None) -> list[Refuted]:
    """Assumptions of the prediction that the log contradicts."""
    by_name = {row.quantity: row for row in rows}
    return [*_figures(by_name), *_others(log, by_name), *_layout(log, room, context)]


def _figures(rows: dict[str, Row]) -> Iterator[Refuted]:
    for name, assumption, tolerance in (
        ("gpu_memory", "the GPU's memory as a process sees it", CLOSE),
        ("weights", "the weights as the config and its quantisation tell them", CLOSE),
    ):
        row = rows.get(name)
        if row is None or row.share is None or row.agrees or abs(row.share) <= tolerance:
            continue
        predicted, measured = row.predicted or 0, row.measured or 0
        yield Refuted(
            assumption=f"{assumption}: {gib(predicted)}", log=f"{gib(measured)} ({row.share:+.1%})"
        )
    for row in rows.values():
        if not row.as_laid_out:
            yield Refuted(
                assumption=f"how the cache is laid out: {row.predicted:,.6g} {row.unit} in the "
                "logged memory",
                log=f"{row.measured:,.6g} {row.unit}",
            )


def _others(log: ReadLog, rows: dict[str, Row]) -> Iterator[Refuted]:
    """What was taken before the engine loaded anything, where that is more than its own."""
    found, total, outside = log.measured, rows.get("gpu_memory"), rows.get("non_torch")
    held = 0.0
    if found.total is not None and found.free_at_start is not None:
        held = found.total.bytes - found.free_at_start.bytes
    elif log.engine == "sglang" and outside is not None:
        held = outside.difference or 0
    memory = 0 if total is None else total.measured or total.predicted or 0
    if held > MUCH_MEMORY * memory > 0:
        yield Refuted(
            assumption="nothing else holds memory on the GPU",
            log=f"{gib(held)} taken before the engine loaded anything",
        )


def _layout(log: ReadLog, room: Room | None, context: int | None) -> Iterator[Refuted]:
    if not isinstance(room, EngineRoom):
        return
    stated = log.settings.block_size
    planned = room.reserve(context or 1).plan.block_size
    if stated is not None and stated != planned:
        yield Refuted(
            assumption=f"blocks of {planned:,} tokens", log=f"blocks of {stated:,} tokens"
        )
