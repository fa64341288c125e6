"""What each GPU's memory leaves for the cache: formula (4), an engine's rule, or a given figure."""

from dataclasses import dataclass
from math import ceil

from app.answers.deployment import Deployment
from app.answers.steps import n, step
from app.core.budget import DEFAULT_ACTIVATION_BYTES, DEFAULT_OVERHEAD_BYTES, MemoryBudget
from app.core.decode import decimal
from app.core.hardware import Gpu
from app.errors import InputError
from app.schemas.answer import Step
from app.schemas.concurrency import MemoryParts
from app.schemas.request import BudgetedRequest

DEFAULT_UTILIZATION = 0.92
"""`gpu_memory_utilization` of vLLM 0.33 (`config/cache.py`)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Budgets:
    """What each stage's GPU leaves for the cache, and how that was worked out.

    `parts` has one entry a stage, none where the caller gave the budget itself.
    """

    per_stage: tuple[int, ...]
    parts: tuple[MemoryBudget, ...] = ()
    assumptions: tuple[str, ...] = ()

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
        ):
            if size:
                formula += f" - {name}"
                written += f" - {n(size)}"
        return [step("kv_budget_bytes", formula, written, part.kv_budget_bytes)]


def budgets_of(
    request: BudgetedRequest, deployment: Deployment, *, node_overhead_per_gpu: int | None = None
) -> Budgets:
    """The budget of every stage's GPU.

    Raises:
        InputError: on `gpu` where there is neither a GPU nor a budget.
    """
    stages = deployment.load.stages
    given = request.kv_budget_bytes
    if given is None and request.engine != "formula":
        given = request.kv_cache_memory_bytes
    if given is not None:
        return Budgets(per_stage=(given,) * len(stages))
    gpu = deployment.gpu
    if gpu is None or not gpu.memory_bytes:
        raise InputError.of("gpu", "is needed, or kv_budget_bytes", type="missing")
    notes: list[str] = []
    activation, overhead = 0, node_overhead_per_gpu or 0
    if node_overhead_per_gpu is None:
        activation = _headroom(
            request.activation_bytes, DEFAULT_ACTIVATION_BYTES, "activations", notes
        )
        overhead = _headroom(
            request.overhead_bytes, DEFAULT_OVERHEAD_BYTES, "framework overhead", notes
        )
    memory, unrequested = _memory(request, gpu, notes)
    parts = tuple(
        MemoryBudget(
            gpu_memory_bytes=memory,
            weight_bytes=stage.weight_bytes,
            activation_bytes=activation,
            overhead_bytes=overhead,
            unrequested_bytes=unrequested,
        )
        for stage in stages
    )
    return Budgets(
        per_stage=tuple(part.kv_budget_bytes for part in parts),
        parts=parts,
        assumptions=tuple(notes),
    )


def _memory(request: BudgetedRequest, gpu: Gpu, notes: list[str]) -> tuple[int, int]:
    """Memory of a GPU and the share of it that an engine leaves alone.

    The formula takes the memory as sold; engines multiply what a process sees.
    """
    if request.engine == "formula":
        return gpu.memory_bytes, 0
    utilization = request.gpu_memory_utilization
    if utilization is None:
        utilization = DEFAULT_UTILIZATION
        notes.append(f"gpu_memory_utilization {utilization:g}, the engine's default")
    total = gpu.visible_memory_bytes
    if gpu.visible_memory_basis != "memory_bytes_cuda":
        notes.append(f"what a process sees of {gpu.name} is not known: {gpu.visible_memory_basis}")
    return total, total - ceil(total * decimal(utilization))


def _headroom(value: int | None, default: int, what: str, notes: list[str]) -> int:
    if value is not None:
        return value
    notes.append(f"{default / 1e9:g} GB per GPU are kept for {what}")
    return default
