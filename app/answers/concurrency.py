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
from app.schemas.concurrency import ConcurrencyAnswer, ConcurrencyAtContext, LimitedBy
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
    limited_by = here.limited_by(model.shape.longest_context)
    return ConcurrencyAnswer(
        model=deployment.placed.model_ref,
        gpu=gpu_ref(deployment.gpu),
        assumptions=[
            *deployment.assumptions,
            *notes,
            *before_start(room, here),
            *budgets.assumptions,
        ],
        steps=_steps(room, here, limited_by) if request.explain else None,
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
        limited_by=limited_by,
        memory=budgets.memory(here.stage),
        by_context=[_at(here if at == context else room.at(at)) for at in contexts],
        advice=[] if enough else Advisor(request, model, gpu).advice(room, here),
    )


def _at(fit: Fit) -> ConcurrencyAtContext:
    return ConcurrencyAtContext(context=fit.context, max_concurrency=fit.served, fits=fit.fits)


def _steps(room: Room, here: Fit, limited_by: LimitedBy) -> list[Step]:
    deployment = room.deployment
    lines = []
    if not isinstance(room, EngineRoom):
        lines = kv_steps(deployment, here.context)
    if deployment.load.gpus > 1:
        if not isinstance(room, EngineRoom):
            lines += per_gpu_steps(deployment, here.context)
        lines.append(_weights_step(room, here.stage))
    lines += room.budgets.steps(here.stage)
    if isinstance(room, EngineRoom):
        lines += room.reserve(here.context).steps(here.context)
        lines.append(_pool_step(room, here))
    if here.by_memory is None:
        return lines
    whole = here.served == here.by_memory
    lines.append(_held_step(room, here, "max_concurrency" if whole else "sequences by memory"))
    if not whole:
        lines.append(
            step(
                "max_concurrency",
                "sequences by memory, unless something else allows fewer",
                f"{limited_by} allows {n(here.served or 0)} of {n(here.by_memory)}",
                here.served,
                "sequences",
            )
        )
    return lines


def _held_step(room: Room, here: Fit, name: str) -> Step:
    formula = "kv_budget / kv_bytes_per_sequence"
    held, one = max(here.kv_budget_bytes, 0), here.kv_bytes_per_sequence
    if here.counted is not None:
        held, one = here.counted
        formula = "tokens of the pool that runs out first / tokens of a sequence in it"
        if isinstance(room, EngineRoom):
            formula = "num_blocks / blocks_per_sequence"
        elif one == 1:
            formula = "slots for the states of a sequence"
    return step(
        name, f"{formula}, fraction dropped", f"{n(held)} / {n(one)}", here.by_memory, "sequences"
    )


def _weights_step(room: Room, stage: int) -> Step:
    """What one GPU loads: its part of the weights, and of what stands on several GPUs."""
    load, parts = room.deployment.load, room.budgets.parts or room.deployment.load.stages
    tp, sizes = load.tensor_parallel_size, [part.weight_bytes for part in parts]
    others = sum(sizes) - sizes[stage]
    more = sum(sizes) * tp - load.weight_bytes
    written, formula = n(load.weight_bytes), "weight_bytes"
    if more:
        written = f"({written} {'+' if more > 0 else '-'} {n(abs(more))})"
        said = " + what ranks repeat and the engine adds" if room.budgets.parts else ""
        said = said or " + what ranks repeat"
        formula = f"({formula}{said if more > 0 else ' - experts of other ranks'})"
    if tp > 1:
        written, formula = f"{written} / {tp}", f"{formula} / tensor_parallel_size"
    if others:
        written, formula = f"{written} - {n(others)}", f"{formula} - the other stages"
    return step("weight_bytes_per_gpu", formula, written, sizes[stage])


def _pool_step(room: EngineRoom, here: Fit) -> Step:
    block = room.reserve(here.context).plan.stage_block_bytes[here.stage]
    return step(
        "num_blocks",
        "kv_budget / bytes_per_block, fraction dropped",
        f"{n(max(here.kv_budget_bytes, 0))} / {n(block)}",
        here.num_blocks or 0,
        "blocks",
    )
