"""`/concurrency`: formulas (4) and (5), or an engine's blocks, and advice where too little fits."""

from app.answers.advice import Advisor
from app.answers.deployment import contexts_asked, engine_length
from app.answers.kv import kv_steps, per_gpu_steps
from app.answers.room import EngineRoom, Fit, Room, before_start, room_of
from app.answers.rows import gpu_ref
from app.answers.steps import n, step
from app.resolve.gpu import ResolvedGpu
from app.resolve.model import ResolvedModel
from app.schemas.answer import Step
from app.schemas.concurrency import ConcurrencyAnswer, ConcurrencyAtContext
from app.schemas.request import ConcurrencyQuery


def concurrency_answer(
    request: ConcurrencyQuery, model: ResolvedModel, gpu: ResolvedGpu | None
) -> ConcurrencyAnswer:
    """How many sequences the request's GPU holds.

    Raises:
        InputError: on what can't be deployed, or is missing.
    """
    context, notes = contexts_asked(
        model.shape, request.context, request.contexts, engine_length(request)
    )
    room = room_of(request, model, gpu, context)
    deployment, budgets = room.deployment, room.budgets
    here = room.at(context)
    cache_dtype, block_size = deployment.layout.attention_dtype.name, None
    if isinstance(room, EngineRoom):
        plan = room.reserve(context).plan
        block_size = plan.block_size
        if plan.settings.kv_cache_dtype != "auto":
            cache_dtype = plan.settings.kv_cache_dtype
    contexts = list(dict.fromkeys([context, *request.contexts]))
    served = here.served
    enough = served is None or served >= request.batch
    return ConcurrencyAnswer(
        model=deployment.placed.model_ref,
        gpu=gpu_ref(deployment.gpu),
        assumptions=[
            *deployment.assumptions,
            *notes,
            *before_start(room, here),
            *budgets.assumptions,
        ],
        steps=_steps(room, here) if request.explain else None,
        kv_cache_dtype=cache_dtype,
        context=context,
        fits=here.fits,
        max_concurrency=served,
        max_concurrency_exact=None if here.sequences is None else float(here.sequences),
        kv_budget_bytes=max(here.kv_budget_bytes, 0),
        kv_budget_band_bytes=budgets.band(here.stage),
        kv_bytes_per_sequence=here.kv_bytes_per_sequence,
        kv_cache_tokens=here.tokens,
        num_blocks=here.num_blocks,
        block_size=block_size,
        limited_by=here.limited_by(model.shape.longest_context),
        memory=budgets.memory(here.stage),
        by_context=[_at(here if at == context else room.at(at)) for at in contexts],
        advice=[] if enough else Advisor(request, model, gpu).advice(room, here),
    )


def _at(fit: Fit) -> ConcurrencyAtContext:
    return ConcurrencyAtContext(context=fit.context, max_concurrency=fit.served, fits=fit.fits)


def _steps(room: Room, here: Fit) -> list[Step]:
    deployment = room.deployment
    lines = []
    if not isinstance(room, EngineRoom):
        lines = kv_steps(deployment, here.context)
    if deployment.load.gpus > 1:
        if not isinstance(room, EngineRoom):
            lines += per_gpu_steps(deployment, here.context)
        lines.append(
            step(
                "weight_bytes_per_gpu",
                "weights split over the replica's GPUs",
                f"{n(deployment.load.weight_bytes)} over {deployment.load.gpus}",
                room.budgets.parts[here.stage].weight_bytes
                if room.budgets.parts
                else deployment.load.stages[here.stage].weight_bytes,
            )
        )
    lines += room.budgets.steps(here.stage)
    budget = max(here.kv_budget_bytes, 0)
    if isinstance(room, EngineRoom):
        lines += room.reserve(here.context).steps(here.context)
        lines.append(_pool_step(room, here, budget))
    if here.by_memory is not None:
        over = (
            f"{n(here.num_blocks)} / blocks_per_sequence"
            if here.num_blocks is not None
            else f"{n(budget)} / {n(here.kv_bytes_per_sequence)}"
        )
        lines.append(
            step(
                "max_concurrency",
                "kv_budget / kv_bytes_per_sequence, fraction dropped",
                over,
                here.by_memory,
                "sequences",
            )
        )
    return lines


def _pool_step(room: EngineRoom, here: Fit, budget: int) -> Step:
    block = room.reserve(here.context).plan.stage_block_bytes[here.stage]
    return step(
        "num_blocks",
        "kv_budget / bytes_per_block, fraction dropped",
        f"{n(budget)} / {n(block)}",
        here.num_blocks or 0,
        "blocks",
    )
