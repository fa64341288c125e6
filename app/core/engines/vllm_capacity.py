"""Blocks, bytes, tokens and concurrency of a planned cache, for any context and budget.

`v1/core/kv_cache_planning.py` and `kv_cache_utils.py` of vLLM 0.33.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from app.core.engines.vllm_arguments import VllmSettings
from app.core.engines.vllm_groups import Group
from app.core.engines.vllm_specs import LayerSpec


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupRow:
    """One group in words and numbers, for explanation."""

    kind: str
    layers: int
    block_size: int
    window: int | None
    block_bytes: int
    blocks: int
    """Blocks one request of the given context takes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VllmCapacity:
    """What a budget holds.

    Attributes:
        fits: Whether the engine starts: one request of `context` beside the null block.
        num_blocks: Blocks of the pool, the null block included.
        max_concurrency: Requests of `context` at once, as the engine prints it.
        kv_cache_tokens: As the engine prints it: `int(max_concurrency x context)`, before 0.21
            the blocks of each group x block size.
        auto_fit_max_len: Longest context that would fit, 0 where none does.
    """

    context: int
    fits: bool
    num_blocks: int
    max_concurrency: float
    kv_cache_tokens: int
    auto_fit_max_len: int


@dataclass(frozen=True, kw_only=True)
class VllmPlan:
    """A cache as vLLM lays it out. Bytes are per GPU.

    `stages` are the layers of each pipeline stage, whose pools all get the smallest stage's number
    of blocks. `assumptions` says in words what was taken for granted.
    """

    settings: VllmSettings
    groups: tuple[Group, ...]
    stages: tuple[range, ...]
    assumptions: tuple[str, ...] = ()

    @property
    def block_size(self) -> int:
        """Tokens a block of the main layers, as the engine reports it."""
        return self.settings.block_size

    @cached_property
    def stage_block_bytes(self) -> tuple[int, ...]:
        """Bytes of one block on each pipeline stage: of its largest group, since all groups draw
        blocks from one pool.
        """
        if len(self.stages) == 1:
            return (max((group.block_bytes for group in self.groups), default=0),)
        return tuple(
            max((group.block_bytes_of(stage) for group in self.groups), default=0)
            for stage in self.stages
        )

    @property
    def bytes_per_block(self) -> int:
        """Bytes of one block on the stage where it is largest."""
        return max(self.stage_block_bytes)

    @cached_property
    def _rules(self) -> tuple[tuple[LayerSpec, ...], ...]:
        return tuple(
            tuple({(s.kind, s.block_size, s.window): s for s in specs}.values())
            for specs in ([entry.spec for entry in group.entries] for group in self.groups)
        )

    def blocks_by_group(self, context: int) -> tuple[int, ...]:
        """Blocks that one request of `context` tokens takes in each group."""
        return tuple(
            max(_blocks(spec, context, self.settings) for spec in specs) for specs in self._rules
        )

    def blocks(self, context: int) -> int:
        """Blocks that one request takes in all groups."""
        return sum(self.blocks_by_group(context))

    def request_bytes(self, context: int) -> int:
        """Bytes reserved for one request on one GPU (of the stage with the largest blocks)."""
        return self.blocks(context) * self.bytes_per_block

    def rows(self, context: int) -> tuple[GroupRow, ...]:
        """The groups, for explanation."""
        return tuple(
            GroupRow(
                kind=group.entries[0].spec.kind,
                layers=group.count,
                block_size=group.entries[0].spec.block_size,
                window=group.entries[0].spec.window,
                block_bytes=group.block_bytes,
                blocks=blocks,
            )
            for group, blocks in zip(self.groups, self.blocks_by_group(context), strict=True)
        )

    def capacity(
        self, kv_budget_bytes: int | Sequence[int], context: int | None = None
    ) -> VllmCapacity:
        """What `kv_budget_bytes` per GPU hold; a sequence gives each pipeline stage its own.

        Without `context` requests are of `max_model_len` tokens, as in the engine's log.
        """
        length = self.settings.max_model_len if context is None else context
        budgets = self._budgets(kv_budget_bytes)
        if not budgets:
            return VllmCapacity(
                context=length,
                fits=True,
                num_blocks=1,
                max_concurrency=0.0,
                kv_cache_tokens=0,
                auto_fit_max_len=length,
            )
        request = self.blocks(length)
        num_blocks = max(0, min(budget // block for budget, block in budgets))
        usable = min((budget - block) // block for budget, block in budgets)
        concurrency = num_blocks / request
        return VllmCapacity(
            context=length,
            fits=request <= usable,
            num_blocks=num_blocks,
            max_concurrency=concurrency,
            kv_cache_tokens=self._tokens(num_blocks, concurrency, length),
            auto_fit_max_len=length if request <= usable else self._longest(usable, length),
        )

    def _tokens(self, num_blocks: int, concurrency: float, length: int) -> int:
        if self.settings.rules.tokens_are == "length":
            return int(concurrency * length)
        block = min(group.entries[0].spec.block_size for group in self.groups)
        shards = self.settings.decode_context_parallel_size
        return num_blocks // len(self.groups) * block * shards

    def _budgets(self, given: int | Sequence[int]) -> list[tuple[int, int]]:
        """(budget, block bytes) of the stages that cache anything."""
        each = [given] * len(self.stages) if isinstance(given, int) else given
        return [pair for pair in zip(each, self.stage_block_bytes, strict=True) if pair[1]]

    def _longest(self, usable_blocks: int, limit: int) -> int:
        """The longest context whose blocks are at most `usable_blocks`; they never shrink."""
        low, high = 0, limit
        while low < high:
            middle = (low + high + 1) // 2
            if self.blocks(middle) <= usable_blocks:
                low = middle
            else:
                high = middle - 1
        return low


def _blocks(spec: LayerSpec, context: int, settings: VllmSettings) -> int:
    """Blocks one request takes in a layer of this spec."""
    size = spec.block_size
    if spec.is_full:
        own = -(-context // settings.decode_context_parallel_size)
        return -(-own // size)
    if spec.kind == "state":
        return spec.fixed_blocks
    if spec.kind == "cross":
        return -(-settings.max_num_encoder_input_tokens // size)
    if spec.kind == "chunk":
        return -(-min((spec.window or 0) + settings.max_in_flight_tokens, context) // size)
    held = (spec.window or 0) - 1 + spec.retained + settings.max_in_flight_tokens
    return -(-min(held, context) // size) + 1
