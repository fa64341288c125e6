"""How many sequences of a length fit: by the formulas, or by an engine's own blocks."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, NamedTuple

from app.answers.budgets import Budgets, budgets_of
from app.answers.deployment import Deployment, deploy
from app.answers.engine import Reserve, Reserves, version_notes
from app.core.concurrency import max_concurrency, max_concurrency_exact
from app.core.engines.pools import Pools
from app.core.engines.vllm import VllmCapacity, VllmPlan
from app.resolve.gpu import ResolvedGpu
from app.resolve.model import ResolvedModel
from app.schemas.concurrency import LimitedBy
from app.schemas.request import BudgetedRequest


class Fit(NamedTuple):
    """What one replica holds at one context, on the stage with the least room.

    `by_memory` are the whole sequences that memory holds, `sequences` the same with the fraction,
    `tokens` those of the pool as the engine prints them, else of that many sequences; all None
    where a sequence takes nothing. `counted` are the two numbers that `sequences` is the quotient
    of: blocks or tokens of the pool and of a sequence; None where they are bytes. `ceiling` is the engine's own limit on sequences and
    `ceiling_is` what sets it, None without one. `refused_by` is what keeps the engine from serving
    sequences that the memory holds, `refusal` the same in words where it does not even start. Bytes
    are those of the stage's GPU.
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
    counted: tuple[int, int] | None = None
    refused_by: LimitedBy | None = None
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

    def limited_by(self, longest_context: int | None) -> LimitedBy:
        """What keeps the sequences from being more, of a model of that maximum."""
        if self.kv_budget_bytes <= 0:
            return "weights"
        if not self.fits:
            return self.refused_by or "memory"
        if self.ceiling is not None and (self.by_memory is None or self.ceiling < self.by_memory):
            return self.ceiling_is
        if longest_context is not None and self.context > longest_context:
            return "max_position_embeddings"
        return "memory"


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
    reserves: Reserves

    def at(self, context: int) -> Fit:
        """Blocks of the pool over blocks of one request."""
        plan = self.reserve(context).plan
        budgets = [max(budget, 0) for budget in self.budgets.per_stage]
        found = plan.capacity(budgets, context)
        sizes = plan.stage_block_bytes
        stage = min(
            range(len(budgets)),
            key=lambda index: budgets[index] / sizes[index] if sizes[index] else float("inf"),
        )
        nothing, blocks = plan.bytes_per_block == 0, plan.blocks(context)
        ceiling = self._ceiling(plan, found.num_blocks)
        refused_by, refusal = self._refused(plan, found, budgets, ceiling)
        return Fit(
            context=context,
            stage=stage,
            kv_budget_bytes=self.budgets.per_stage[stage],
            kv_bytes_per_sequence=blocks * sizes[stage],
            by_memory=None if nothing else int(found.max_concurrency),
            sequences=None if nothing else found.max_concurrency,
            tokens=None if nothing else found.kv_cache_tokens,
            fits=found.fits and self.budgets.per_stage[stage] >= 0 and refused_by is None,
            ceiling=ceiling,
            ceiling_is="state_slots" if ceiling < plan.settings.max_num_seqs else "max_num_seqs",
            num_blocks=found.num_blocks,
            counted=(found.num_blocks, blocks),
            refused_by=refused_by,
            refusal=refusal,
        )

    def holds(self, batch: int, context: int) -> bool:
        """Whether `batch` sequences of this length fit."""
        return _holds(self.at(context), batch)

    def reserve(self, context: int) -> Reserve:
        """The engine's plan for requests of this length."""
        return self.reserves.of(context)

    def _ceiling(self, plan: VllmPlan, num_blocks: int) -> int:
        """The engine's limit on sequences, which states of that many have to have blocks for. A
        default that it would refuse is lowered.
        """
        settings = plan.settings
        checked = settings.rules.checks_state_blocks and not self.request.enforce_eager
        if not checked or settings.max_num_seqs <= num_blocks:
            return settings.max_num_seqs
        states = any(group.kind == "state" for group in plan.rows(1))
        return num_blocks if states else settings.max_num_seqs

    def _refused(
        self, plan: VllmPlan, found: VllmCapacity, budgets: list[int], ceiling: int
    ) -> tuple[LimitedBy | None, str | None]:
        """Why the engine serves no such request, and in words why it does not start at all."""
        settings = plan.settings
        if self.budgets.refusal is not None:
            return "memory", self.budgets.refusal
        if ceiling < settings.max_num_seqs and self.request.max_num_seqs is not None:
            return "state_slots", (
                f"vLLM {settings.version} does not start: max_num_seqs {settings.max_num_seqs} is "
                f"more than the {ceiling} blocks there are for states; at most {ceiling} is accepted"
            )
        longest = self.request.max_model_len
        if longest is None or longest == found.context:
            return None, None
        if longest < found.context:
            return "max_position_embeddings", None
        start = plan.capacity(budgets, longest)
        if start.fits or not found.fits:
            return None, None
        return "memory", (
            f"vLLM {settings.version} does not start: one sequence of max_model_len {longest} takes "
            f"{plan.request_bytes(longest)} bytes of cache; at most {start.auto_fit_max_len} is accepted"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolRoom:
    """Pools of tokens, on every stage; with `allocates_whole` a sequence of any length takes what
    one of `max_model_len` does.
    """

    deployment: Deployment
    budgets: Budgets
    max_model_len: int | None
    allocates_whole: bool

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
        longest = self.max_model_len or context
        found = pools.fit(budget, longest if self.allocates_whole else context)
        enough = budget >= 0 if found.sequences is None else found.sequences >= 1
        refused_by: LimitedBy | None = None if found.refusal is None else "memory"
        if context > longest:
            refused_by = "max_position_embeddings"
        return Fit(
            context=context,
            stage=index,
            kv_budget_bytes=budget,
            kv_bytes_per_sequence=found.bytes_per_sequence,
            by_memory=None if found.sequences is None else int(found.sequences),
            sequences=found.sequences,
            tokens=found.tokens,
            fits=enough and found.ceiling != 0 and refused_by is None,
            ceiling=found.ceiling,
            ceiling_is=found.ceiling_is,
            counted=found.counted,
            refused_by=refused_by,
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
    reserves = Reserves(request, deployment) if request.engine == "vllm" else None
    budgets = budgets_of(
        request, deployment, context, reserves, node_overhead_per_gpu=node_overhead_per_gpu
    )
    if reserves is not None:
        return EngineRoom(
            deployment=deployment, budgets=budgets, request=request, reserves=reserves
        )
    if request.engine == "formula":
        return FormulaRoom(deployment=deployment, budgets=budgets, ceiling=request.max_num_seqs)
    return PoolRoom(
        deployment=deployment,
        budgets=budgets,
        max_model_len=request.max_model_len,
        allocates_whole=request.engine == "llama.cpp",
    )


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


def before_start(room: Room, here: Fit) -> tuple[str, ...]:
    """What an engine's answer rests on, and what to know before the engine is started on it."""
    said: list[str] = []
    if isinstance(room, EngineRoom):
        plan = room.reserve(here.context).plan
        said += [*version_notes(room.request), *plan.assumptions]
    if here.refusal is not None:
        return (*said, here.refusal)
    if here.ceiling_is == "state_slots":
        said.append(
            f"states have room for {here.ceiling} sequences: start the engine with max_num_seqs of "
            "at most that"
        )
    band = room.budgets.band(here.stage)
    if band is None or here.refused_by is not None:
        return tuple(said)
    if here.fits and band.low < here.kv_bytes_per_sequence:
        said.append(
            "tight: at the low end of kv_budget_band_bytes not one sequence fits, and the engine "
            "may refuse to start"
        )
    elif not here.fits and band.high >= here.kv_bytes_per_sequence:
        said.append("close: at the high end of kv_budget_band_bytes a sequence would fit")
    return tuple(said)
