"""`/concurrency`: formulas (4) and (5), and advice where too little fits."""

from app.answers.advice import Advisor
from app.answers.budgets import Budgets, budget_steps, formula_budgets
from app.answers.deployment import Deployment, deploy, gpu_ref, longest, model_ref
from app.answers.kv import kv_steps, per_gpu_step
from app.answers.steps import n, step
from app.core.concurrency import Capacity, capacity_at
from app.resolve.gpu import ResolvedGpu
from app.resolve.model import ResolvedModel
from app.schemas.answer import Step
from app.schemas.concurrency import (
    ConcurrencyAnswer,
    ConcurrencyAtContext,
    LimitedBy,
    MemoryParts,
)
from app.schemas.request import ConcurrencyQuery


def concurrency_answer(
    request: ConcurrencyQuery, model: ResolvedModel, gpu: ResolvedGpu | None
) -> ConcurrencyAnswer:
    """How many sequences the request's GPU holds.

    Raises:
        InputError: on what can't be deployed.
    """
    deployment = deploy(request, model, gpu)
    wanted = request.context or (request.contexts[0] if request.contexts else None)
    context, notes = longest(deployment.shape, wanted)
    budgets = formula_budgets(request, deployment)
    here = capacity_at(deployment.load, context, budgets.per_stage)
    found = _bounded(here, request.max_num_seqs)
    fits = _fits(here)
    contexts = list(dict.fromkeys(request.contexts or [context]))
    return ConcurrencyAnswer(
        model=model_ref(model),
        gpu=gpu_ref(deployment.gpu),
        assumptions=[*deployment.assumptions, *notes, *budgets.assumptions],
        steps=_steps(deployment, budgets, here) if request.explain else None,
        kv_cache_dtype=deployment.layout.attention_dtype.name,
        context=context,
        fits=fits,
        max_concurrency=found,
        max_concurrency_exact=None if here.sequences is None else float(here.sequences),
        kv_budget_bytes=max(here.kv_budget_bytes, 0),
        kv_bytes_per_sequence=here.kv_bytes_per_sequence,
        kv_cache_tokens=None if here.sequences is None else int(here.sequences * context),
        limited_by=_limit(here, found),
        memory=_memory_parts(budgets, here),
        by_context=[
            _at(capacity_at(deployment.load, at, budgets.per_stage), request.max_num_seqs)
            for at in contexts
        ],
        advice=[]
        if fits and (found is None or found >= request.batch)
        else Advisor(request, model, gpu, here).advice(deployment.load, budgets.per_stage),
    )


def _fits(capacity: Capacity) -> bool:
    if capacity.sequences is None:
        return capacity.kv_budget_bytes >= 0
    return capacity.sequences >= 1


def _bounded(capacity: Capacity, max_num_seqs: int | None) -> int | None:
    whole = capacity.whole_sequences
    if whole is None:
        return max_num_seqs
    return whole if max_num_seqs is None else min(whole, max_num_seqs)


def _at(capacity: Capacity, max_num_seqs: int | None) -> ConcurrencyAtContext:
    return ConcurrencyAtContext(
        context=capacity.context,
        max_concurrency=_bounded(capacity, max_num_seqs),
        fits=_fits(capacity),
    )


def _limit(capacity: Capacity, found: int | None) -> LimitedBy:
    if capacity.kv_budget_bytes <= 0:
        return "weights"
    if found is not None and (capacity.sequences is None or found < int(capacity.sequences)):
        return "max_num_seqs"
    return "memory"


def _memory_parts(budgets: Budgets, capacity: Capacity) -> MemoryParts | None:
    part = next(
        (part for part in budgets.parts if part.weight_bytes == capacity.weight_bytes), None
    )
    if part is None:
        return None
    left = part.kv_budget_bytes
    return MemoryParts(
        gpu_memory_bytes=part.gpu_memory_bytes,
        weight_bytes=part.weight_bytes,
        activation_bytes=part.activation_bytes,
        overhead_bytes=part.overhead_bytes,
        kv_budget_bytes=max(left, 0),
        shortfall_bytes=max(-left, 0),
    )


def _steps(deployment: Deployment, budgets: Budgets, here: Capacity) -> list[Step]:
    lines = kv_steps(deployment, here.context)
    if deployment.load.gpus > 1:
        lines.append(per_gpu_step(deployment, here.context))
        lines.append(
            step(
                "weight_bytes_per_gpu",
                "weights split over the replica's GPUs",
                f"{n(deployment.load.weight_bytes)} over {deployment.load.gpus}",
                here.weight_bytes,
            )
        )
    lines += budget_steps(budgets, here)
    if here.sequences is not None:
        lines.append(
            step(
                "max_concurrency",
                "kv_budget / kv_bytes_per_sequence, fraction dropped",
                f"{n(max(here.kv_budget_bytes, 0))} / {n(here.kv_bytes_per_sequence)}",
                int(here.sequences),
                "sequences",
            )
        )
    return lines
