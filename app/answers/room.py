"""How many sequences of a length fit: by the formulas, or by an engine's own blocks."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, NamedTuple

from app.answers.budgets import Budgets, budgets_of
from app.answers.deployment import Deployment, deploy
from app.answers.engine import Reserve, reserve
from app.core.concurrency import max_concurrency, max_concurrency_exact
from app.core.engines.pools import Pools
from app.resolve.gpu import ResolvedGpu
from app.resolve.model import ResolvedModel
from app.schemas.request import BudgetedRequest


class Fit(NamedTuple):
    """What one replica holds at one context, on the stage with the least room.

    `by_memory` are the whole sequences that memory holds, `sequences` the same with the fraction,
    `tokens` those of the pool as the engine prints them, else of that many sequences; all None
    where a sequence takes nothing. `ceiling` is the engine's own limit on sequences and
    `ceiling_is` what sets it, None without one. `refusal` is why it does not start though a
    sequence fits. Bytes are those of the stage's GPU.
    """

    context: int
    stage: int
    kv_budget_bytes: int
    kv_bytes_per_sequence: int
    by_memory: int | None
    sequences: Fraction | float | None
    tokens: int | None
    fits: bool
    ceiling: int | None
    ceiling_is: Literal["max_num_seqs", "state_slots"] = "max_num_seqs"
    num_blocks: int | None = None
    refusal: str | None = None

    @property
    def admitted(self) -> int | None:
        """Whole sequences under both limits; None where there is neither."""
        if self.by_memory is None or self.ceiling is None:
            return self.ceiling if self.by_memory is None else self.by_memory
        return min(self.by_memory, self.ceiling)

    @property
    def served(self) -> int | None:
        """`admitted`, and 0 where not even one fits."""
        return self.admitted if self.fits else 0


@dataclass(frozen=True, kw_only=True, slots=True)
class FormulaRoom:
    """Formula (5) on every stage."""

    deployment: Deployment
    budgets: Budgets
    ceiling: int | None

    def at(self, context: int) -> Fit:
        """Budget over bytes of one sequence, of the tightest stage."""
        fits = [
            self._stage(index, stage.profile.bytes_per_sequence(context), budget, context)
            for index, (stage, budget) in enumerate(
                zip(self.deployment.load.stages, self.budgets.per_stage, strict=True)
            )
        ]
        return fits[0] if len(fits) == 1 else min(fits, key=_tightness)

    def holds(self, batch: int, context: int) -> bool:
        """Whether `batch` sequences of this length fit."""
        return all(
            stage.profile.bytes_per_sequence(context) * batch <= budget
            for stage, budget in zip(
                self.deployment.load.stages, self.budgets.per_stage, strict=True
            )
        )

    def _stage(self, index: int, per_sequence: int, budget: int, context: int) -> Fit:
        held = max_concurrency(budget, per_sequence) if per_sequence else None
        return Fit(
            context=context,
            stage=index,
            kv_budget_bytes=budget,
            kv_bytes_per_sequence=per_sequence,
            by_memory=held,
            sequences=max_concurrency_exact(budget, per_sequence) if per_sequence else None,
            tokens=max_concurrency(budget * context, per_sequence) if per_sequence else None,
            fits=budget >= 0 if held is None else held >= 1,
            ceiling=self.ceiling,
        )


def _tightness(fit: Fit) -> tuple[bool, int, Fraction | float, int]:
    return (fit.by_memory is None, fit.by_memory or 0, fit.sequences or 0, fit.kv_budget_bytes)


def _holds(fit: Fit, batch: int) -> bool:
    return fit.fits and (fit.by_memory is None or fit.by_memory >= batch)


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineRoom:
    """The engine's blocks. Without `max_model_len` each context is taken as its own."""

    deployment: Deployment
    budgets: Budgets
    request: BudgetedRequest

    def at(self, context: int) -> Fit:
        """Blocks of the pool over blocks of one request."""
        held = self.reserve(context)
        plan = held.plan
        budgets = [max(budget, 0) for budget in self.budgets.per_stage]
        found = plan.capacity(budgets, context)
        sizes = plan.stage_block_bytes
        stage = min(
            range(len(budgets)),
            key=lambda index: budgets[index] / sizes[index] if sizes[index] else float("inf"),
        )
        nothing = plan.bytes_per_block == 0
        ceiling, refusal = self._state_limit(held, found.num_blocks)
        refusal = self.budgets.refusal or refusal
        return Fit(
            context=context,
            stage=stage,
            kv_budget_bytes=self.budgets.per_stage[stage],
            kv_bytes_per_sequence=plan.blocks(context) * sizes[stage],
            by_memory=None if nothing else int(found.max_concurrency),
            sequences=None if nothing else found.max_concurrency,
            tokens=None if nothing else found.kv_cache_tokens,
            fits=found.fits and self.budgets.per_stage[stage] >= 0 and refusal is None,
            ceiling=ceiling,
            ceiling_is="state_slots" if ceiling < plan.settings.max_num_seqs else "max_num_seqs",
            num_blocks=found.num_blocks,
            refusal=refusal,
        )

    def holds(self, batch: int, context: int) -> bool:
        """Whether `batch` sequences of this length fit."""
        return _holds(self.at(context), batch)

    def _state_limit(self, held: Reserve, num_blocks: int) -> tuple[int, str | None]:
        """The engine's limit on sequences, and its refusal where states of that many have no
        blocks. A default that it would refuse is lowered.
        """
        settings = held.plan.settings
        checked = settings.rules.checks_state_blocks and not self.request.enforce_eager
        states = any(group.kind == "state" for group in held.plan.rows(1))
        if not checked or not states or settings.max_num_seqs <= num_blocks:
            return settings.max_num_seqs, None
        if self.request.max_num_seqs is None:
            return num_blocks, None
        return num_blocks, (
            f"vLLM {settings.version} does not start: max_num_seqs {settings.max_num_seqs} is more "
            f"than the {num_blocks} blocks there are for states; at most {num_blocks} is accepted"
        )

    def reserve(self, context: int) -> Reserve:
        """The engine's plan for requests of this length."""
        return reserve(self.request, self.deployment, context)


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolRoom:
    """Pools of tokens, on every stage."""

    deployment: Deployment
    budgets: Budgets

    def at(self, context: int) -> Fit:
        """What the pools hold, of the tightest stage."""
        pairs = zip(self.budgets.pools, self.budgets.per_stage, strict=True)
        fits = [
            self._stage(index, pools, budget, context)
            for index, (pools, budget) in enumerate(pairs)
        ]
        return fits[0] if len(fits) == 1 else min(fits, key=_tightness)

    def holds(self, batch: int, context: int) -> bool:
        """Whether `batch` sequences of this length fit."""
        return _holds(self.at(context), batch)

    def _stage(self, index: int, pools: Pools, budget: int, context: int) -> Fit:
        found = pools.fit(budget, context)
        enough = budget >= 0 if found.sequences is None else found.sequences >= 1
        return Fit(
            context=context,
            stage=index,
            kv_budget_bytes=budget,
            kv_bytes_per_sequence=found.bytes_per_sequence,
            by_memory=None if found.sequences is None else int(found.sequences),
            sequences=found.sequences,
            tokens=found.tokens,
            fits=enough and found.ceiling != 0 and found.refusal is None,
            ceiling=found.ceiling,
            ceiling_is=found.ceiling_is,
            refusal=found.refusal,
        )


Room = FormulaRoom | EngineRoom | PoolRoom


def room_of(
    request: BudgetedRequest,
    model: ResolvedModel,
    gpu: ResolvedGpu | None,
    context: int,
    *,
    node_overhead_per_gpu: int | None = None,
) -> Room:
    """The room a request describes, for sequences of up to `context` tokens.

    Raises:
        InputError: on what can't be deployed, or is missing.
    """
    deployment = deploy(request, model, gpu)
    budgets = budgets_of(request, deployment, context, node_overhead_per_gpu=node_overhead_per_gpu)
    if request.engine == "formula":
        return FormulaRoom(deployment=deployment, budgets=budgets, ceiling=request.max_num_seqs)
    if request.engine != "vllm":
        return PoolRoom(deployment=deployment, budgets=budgets)
    return EngineRoom(deployment=deployment, budgets=budgets, request=request)


def longest_fitting(room: Room, batch: int, at_most: int) -> int:
    """The longest context of which `batch` sequences fit, 0 where none does."""
    low, high = 0, at_most
    while low < high:
        middle = (low + high + 1) // 2
        if room.holds(batch, middle):
            low = middle
        else:
            high = middle - 1
    return low
