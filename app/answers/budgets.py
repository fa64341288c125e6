"""What each GPU's memory leaves for the cache: formula (4), or the caller's own figure."""

from dataclasses import dataclass

from app.answers.deployment import Deployment
from app.answers.steps import n, step
from app.core.budget import DEFAULT_ACTIVATION_BYTES, DEFAULT_OVERHEAD_BYTES, MemoryBudget
from app.core.concurrency import Capacity
from app.core.hardware import Gpu
from app.errors import InputError
from app.schemas.answer import Step
from app.schemas.request import BudgetFields


@dataclass(frozen=True, kw_only=True, slots=True)
class Budgets:
    """What each stage's GPU leaves for the cache, and how that was worked out."""

    per_stage: tuple[int, ...]
    parts: tuple[MemoryBudget, ...]
    assumptions: tuple[str, ...]


def formula_budgets(
    request: BudgetFields, deployment: Deployment, *, node_overhead_per_gpu: int | None = None
) -> Budgets:
    """Formula (4) on every stage, or the caller's own `kv_budget_bytes`.

    Raises:
        InputError: on `gpu` where there is neither a GPU nor a budget.
    """
    stages = deployment.load.stages
    if request.kv_budget_bytes is not None:
        return Budgets(per_stage=(request.kv_budget_bytes,) * len(stages), parts=(), assumptions=())
    memory = _memory(deployment.gpu)
    notes: list[str] = []
    if node_overhead_per_gpu is not None:
        activation, overhead = 0, node_overhead_per_gpu
    else:
        activation = _headroom(
            request.activation_bytes, DEFAULT_ACTIVATION_BYTES, "activations", notes
        )
        overhead = _headroom(
            request.overhead_bytes, DEFAULT_OVERHEAD_BYTES, "framework overhead", notes
        )
    parts = tuple(
        MemoryBudget(
            gpu_memory_bytes=memory,
            weight_bytes=stage.weight_bytes,
            activation_bytes=activation,
            overhead_bytes=overhead,
        )
        for stage in stages
    )
    return Budgets(
        per_stage=tuple(part.kv_budget_bytes for part in parts),
        parts=parts,
        assumptions=tuple(notes),
    )


def _memory(gpu: Gpu | None) -> int:
    if gpu is None:
        raise InputError.of("gpu", "is needed, or kv_budget_bytes", type="missing")
    return gpu.memory_bytes


def _headroom(value: int | None, default: int, what: str, notes: list[str]) -> int:
    if value is not None:
        return value
    notes.append(f"{default / 1e9:g} GB per GPU are kept for {what}")
    return default


def budget_steps(budgets: Budgets, here: Capacity) -> list[Step]:
    """Formula (4) with the numbers put in; nothing where the caller gave the budget."""
    return [
        step(
            "kv_budget_bytes",
            "gpu_memory - weights - activation - overhead",
            f"{n(part.gpu_memory_bytes)} - {n(part.weight_bytes)} - {n(part.activation_bytes)}"
            f" - {n(part.overhead_bytes)}",
            part.kv_budget_bytes,
        )
        for part in budgets.parts
        if part.weight_bytes == here.weight_bytes
    ][:1]
