"""How many sequences of a length fit: by the formulas, or by an engine's own blocks."""

from dataclasses import dataclass
from fractions import Fraction

from app.answers.budgets import Budgets, budgets_of
from app.answers.deployment import Deployment, deploy
from app.answers.engine import Reserve, reserve
from app.core.concurrency import max_concurrency
from app.resolve.gpu import ResolvedGpu
from app.resolve.model import ResolvedModel
from app.schemas.request import BudgetedRequest


@dataclass(frozen=True, kw_only=True, slots=True)
class Fit:
    """What one replica holds at one context, on the stage with the least room.

    `sequences` is None where a sequence takes nothing. `ceiling` is the engine's own limit on
    sequences (`max_num_seqs`), None without one. Bytes are those of the stage's GPU.
    """

    context: int
    stage: int
    kv_budget_bytes: int
    kv_bytes_per_sequence: int
    sequences: Fraction | float | None
    fits: bool
    ceiling: int | None
    num_blocks: int | None = None

    @property
    def by_memory(self) -> int | None:
        """Whole sequences that memory holds; the fraction is dropped."""
        return None if self.sequences is None else int(self.sequences)

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

    @property
    def tokens(self) -> int | None:
        """Tokens of that many sequences, as engines print it: `int(sequences x context)`."""
        return None if self.sequences is None else int(self.sequences * self.context)


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

    def _stage(self, index: int, per_sequence: int, budget: int, context: int) -> Fit:
        sequences = max_concurrency(budget, per_sequence) if per_sequence else None
        return Fit(
            context=context,
            stage=index,
            kv_budget_bytes=budget,
            kv_bytes_per_sequence=per_sequence,
            sequences=sequences,
            fits=budget >= 0 if sequences is None else sequences >= 1,
            ceiling=self.ceiling,
        )


def _tightness(fit: Fit) -> tuple[bool, Fraction | float, int]:
    return (fit.sequences is None, fit.sequences or 0, fit.kv_budget_bytes)


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
        return Fit(
            context=context,
            stage=stage,
            kv_budget_bytes=self.budgets.per_stage[stage],
            kv_bytes_per_sequence=plan.blocks(context) * sizes[stage],
            sequences=None if nothing else found.max_concurrency,
            fits=found.fits and self.budgets.per_stage[stage] >= 0,
            ceiling=plan.settings.max_num_seqs,
            num_blocks=found.num_blocks,
        )

    def reserve(self, context: int) -> Reserve:
        """The engine's plan for requests of this length."""
        return reserve(self.request, self.deployment, context)


Room = FormulaRoom | EngineRoom


def room_of(
    request: BudgetedRequest,
    model: ResolvedModel,
    gpu: ResolvedGpu | None,
    *,
    node_overhead_per_gpu: int | None = None,
) -> Room:
    """The room a request describes.

    Raises:
        InputError: on what can't be deployed, or is missing.
    """
    deployment = deploy(request, model, gpu)
    budgets = budgets_of(request, deployment, node_overhead_per_gpu=node_overhead_per_gpu)
    if request.engine == "formula":
        return FormulaRoom(deployment=deployment, budgets=budgets, ceiling=request.max_num_seqs)
    return EngineRoom(deployment=deployment, budgets=budgets, request=request)


def longest_fitting(room: Room, batch: int, at_most: int) -> int:
    """The longest context of which `batch` sequences fit, 0 where none does."""
    low, high = 0, at_most
    while low < high:
        middle = (low + high + 1) // 2
        fit = room.at(middle)
        if fit.fits and (fit.by_memory is None or fit.by_memory >= batch):
            low = middle
        else:
            high = middle - 1
    return low
