"""Other GPUs, parallel sizes and cache precisions that serve the same workload, ranked."""

from collections.abc import Callable, Iterator

from app.answers.engine_budgets import eight_bits
from app.catalog.gpus import gpu_catalogue
from app.core.hardware import Gpu
from app.core.plan import Plan
from app.errors import InputError
from app.resolve.gpu import ResolvedGpu
from app.resolve.model import ResolvedModel
from app.schemas.plan import Alternative
from app.schemas.request import PlanQuery

SHOWN = 5
COMPARED = (
    "h100-sxm-80gb",
    "h200-sxm-141gb",
    "b200-sxm-180gb",
    "a100-sxm-80gb",
    "l40s-48gb",
    "mi300x-192gb",
    "mi355x-288gb",
)
"""Accelerators that several clouds rent by the node of eight; all in the catalogue."""

PlanOf = Callable[[PlanQuery, ResolvedModel, ResolvedGpu], Plan]


def alternatives(
    request: PlanQuery, model: ResolvedModel, plan_of: PlanOf, own: Gpu | None
) -> list[Alternative]:
    """The best few by GPUs needed, the caller's own choice left out."""
    if request.kv_budget_bytes is not None:
        return []
    found = []
    for gpu, changed in _candidates(request, own):
        try:
            made = plan_of(changed, model, gpu)
        except InputError:
            continue
        if made.nodes is None or not made.meets_slo:
            continue
        found.append(
            Alternative(
                gpu=gpu.gpu.id,
                tensor_parallel_size=changed.tensor_parallel_size,
                kv_cache_dtype=changed.kv_cache_dtype,
                nodes=made.nodes,
                gpus=made.nodes * changed.gpus_per_node,
                sequences_per_node=made.sequences_per_unit // made.layout.nodes_per_unit,
                itl_ms=(made.itl_seconds or 0.0) * 1000,
            )
        )
    found.sort(key=lambda a: (a.gpus, a.itl_ms))
    return found[:SHOWN]


def _candidates(request: PlanQuery, own: Gpu | None) -> Iterator[tuple[ResolvedGpu, PlanQuery]]:
    sizes = [size for size in (1, 2, 4, 8) if size <= request.gpus_per_node]
    dtypes = dict.fromkeys([request.kv_cache_dtype, eight_bits(request)])
    gpus = [gpu_catalogue().find(name).gpu for name in COMPARED]
    if own is not None and own.id not in COMPARED:
        gpus.append(own)
    for gpu in gpus:
        for size in sizes:
            for dtype in dtypes:
                same = (
                    own is not None
                    and gpu.id == own.id
                    and size == request.tensor_parallel_size
                    and dtype == request.kv_cache_dtype
                )
                if not same:
                    update = {"tensor_parallel_size": size, "kv_cache_dtype": dtype}
                    yield ResolvedGpu(gpu=gpu), request.model_copy(update=update)
