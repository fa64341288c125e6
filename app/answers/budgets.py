"""What each GPU's memory leaves for the cache: formula (4), an engine's rule, or a given figure."""

from typing import NamedTuple

from app.answers.deployment import Deployment
from app.answers.engine import Reserves
from app.answers.engine_budgets import EngineStart, engine_start
from app.answers.steps import n, step
from app.core.budget import DEFAULT_ACTIVATION_BYTES, DEFAULT_OVERHEAD_BYTES, MemoryBudget
from app.core.engines.budgets import Band
from app.core.engines.pools import Pools
from app.errors import InputError
from app.schemas.answer import Step
from app.schemas.concurrency import BandBytes, MemoryParts
from app.schemas.request import BudgetedRequest

_ACTIVATIONS = f"{DEFAULT_ACTIVATION_BYTES / 1e9:g} GB per GPU are kept for activations"
_OVERHEAD = f"{DEFAULT_OVERHEAD_BYTES / 1e9:g} GB per GPU are kept for framework overhead"


class Budgets(NamedTuple):
    """What each stage's GPU leaves for the cache, and how that was worked out.

    `parts` has one entry a stage, none where the caller gave the budget itself. `bands` say how
    sure an engine's budget is, `refusal` why it does not start; `pools` are those of engines that
    keep tokens in pools.
    """

    per_stage: tuple[int, ...]
    parts: tuple[MemoryBudget, ...] = ()
    assumptions: tuple[str, ...] = ()
    bands: tuple[Band, ...] = ()
    refusal: str | None = None
    pools: tuple[Pools, ...] = ()

    def band(self, stage: int) -> BandBytes | None:
        """How sure one stage's budget is, for the answer."""
        if not self.bands:
            return None
        band = self.bands[stage]
        return BandBytes(low=max(band.low, 0), high=max(band.high, 0))

    def memory(self, stage: int) -> MemoryParts | None:
        """The parts of one stage's GPU, for the answer."""
        if not self.parts:
            return None
        part = self.parts[stage]
        left = part.kv_budget_bytes
        return MemoryParts(
            gpu_memory_bytes=part.gpu_memory_bytes,
            weight_bytes=part.weight_bytes,
            activation_bytes=part.activation_bytes,
            overhead_bytes=part.overhead_bytes,
            cuda_graph_bytes=part.cuda_graph_bytes,
            unrequested_bytes=part.unrequested_bytes,
            unexplained_bytes=part.unexplained_bytes,
            kv_budget_bytes=max(left, 0),
            shortfall_bytes=max(-left, 0),
        )

    def steps(self, stage: int) -> list[Step]:
        """Formula (4) with the numbers put in; nothing where the caller gave the budget."""
        if not self.parts:
            return []
        part = self.parts[stage]
        formula = "gpu_memory - weights - activation - overhead"
        written = (
            f"{n(part.gpu_memory_bytes)} - {n(part.weight_bytes)} - {n(part.activation_bytes)}"
            f" - {n(part.overhead_bytes)}"
        )
        for name, size in (
            ("cuda_graphs", part.cuda_graph_bytes),
            ("unrequested", part.unrequested_bytes),
            ("unexplained", part.unexplained_bytes),
        ):
            if size:
                formula += f" - {name}"
                written += f" - {n(size)}"
        return [step("kv_budget_bytes", formula, written, part.kv_budget_bytes)]


def budgets_of(
    request: BudgetedRequest,
    deployment: Deployment,
    context: int,
    reserves: Reserves | None,
    *,
    node_overhead_per_gpu: int | None = None,
) -> Budgets:
    """The budget of every stage's GPU; engines are started for sequences of `context` tokens.

    `reserves` are vLLM's, None for the others.

    Raises:
        InputError: on `gpu` where there is neither a GPU nor a budget.
    """
    stages = deployment.load.stages
    given = request.kv_budget_bytes
    gpu = deployment.gpu
    if gpu is None or not gpu.memory_bytes:
        if given is None and request.engine == "vllm":
            given = request.kv_cache_memory_bytes
        if given is not None and request.engine in ("formula", "vllm"):
            return Budgets(per_stage=(given,) * len(stages), assumptions=_undrafted(request))
        raise InputError.of("gpu", "is needed, or kv_budget_bytes", type="missing")
    if request.engine != "formula":
        return _of_engine(request, engine_start(request, deployment, gpu, context, reserves))
    if given is not None:
        return Budgets(per_stage=(given,) * len(stages))
    notes: tuple[str, ...] = ()
    if node_overhead_per_gpu is None:
        activation, overhead = request.activation_bytes, request.overhead_bytes
        if activation is None:
            activation, notes = DEFAULT_ACTIVATION_BYTES, (_ACTIVATIONS,)
        if overhead is None:
            overhead, notes = DEFAULT_OVERHEAD_BYTES, (*notes, _OVERHEAD)
    else:
        activation, overhead = 0, node_overhead_per_gpu
    parts = tuple(
        MemoryBudget(
            gpu_memory_bytes=gpu.memory_bytes,
            weight_bytes=stage.weight_bytes,
            activation_bytes=activation,
            overhead_bytes=overhead,
        )
        for stage in stages
    )
    return Budgets(
        per_stage=tuple(part.kv_budget_bytes for part in parts),
        parts=parts,
        assumptions=notes,
    )


def _of_engine(request: BudgetedRequest, start: EngineStart) -> Budgets:
    given = request.kv_budget_bytes
    if given is not None:
        return Budgets(
            per_stage=(given,) * len(start.budgets),
            pools=start.pools or (),
            assumptions=_undrafted(request),
        )
    known = request.kv_cache_memory_bytes is None
    return Budgets(
        per_stage=tuple(budget.kv_budget_bytes for budget in start.budgets),
        parts=tuple(budget.parts for budget in start.budgets) if known else (),
        assumptions=start.assumptions,
        bands=tuple(budget.band for budget in start.budgets),
        refusal=next((b.refusal for b in start.budgets if b.refusal is not None), None),
        pools=start.pools or (),
    )


def _undrafted(request: BudgetedRequest) -> tuple[str, ...]:
    """A budget that is given stands as it is."""
    if request.engine != "vllm" or request.draft_model is None:
        return ()
    return (f"the cache's budget is given: nothing of it is counted for {request.draft_model}",)
