"""`/crossover`: formulas (6) and (7), the curve, and which optimisation pays where."""

from app.answers.deployment import Deployment, contexts_asked, deploy
from app.answers.kv import kv_steps
from app.answers.placement import Placement
from app.answers.remembering import remembering
from app.answers.rows import gpu_ref
from app.answers.steps import n, number, step
from app.core.crossover import (
    crossover_batch,
    crossover_context,
    crossover_token_slots,
    dominance,
    quantisation_speedup,
)
from app.core.decode import decode_bytes_per_step, inter_token_seconds, step_seconds
from app.errors import InputError
from app.resolve.gpu import ResolvedGpu, bandwidth_of
from app.resolve.model import ResolvedModel
from app.schemas.answer import Step
from app.schemas.crossover import (
    CrossoverAnswer,
    CrossoverAtBatch,
    CrossoverAtContext,
    DecodePoint,
    QuantisationSpeedup,
    Regime,
    RegimeName,
)
from app.schemas.request import CrossoverQuery

DEFAULT_BATCHES = (1, 8, 32, 64, 128, 256)
DEFAULT_CONTEXTS = (1024, 4096, 8192, 32768, 131072)
MAX_POINTS = 4096

SHORT_CHAT = (128, 1024)
"""Batch and context of the first regime: many short conversations."""

LONG_DOCUMENTS = (4, 65536)
"""Batch and context of the second: few long documents."""


def crossover_answer(
    request: CrossoverQuery, model: ResolvedModel, gpu: ResolvedGpu | None
) -> CrossoverAnswer:
    """Where the request's model crosses over.

    Raises:
        InputError: on what can't be deployed.
    """
    deployment = deploy(request, model, gpu)
    placed = deployment.placed
    weights, profile = placed.step_weights, placed.replica_profile
    batches, contexts, notes = _asked(request, deployment)
    points = [(batch, context) for batch in batches for context in contexts]
    answer = CrossoverAnswer(
        model=placed.model_ref,
        gpu=gpu_ref(deployment.gpu),
        assumptions=[*deployment.assumptions, *notes, *_assumptions(request, deployment)],
        kv_cache_dtype=deployment.layout.attention_dtype.name,
        weight_bytes=weights.all_bytes,
        kv_bytes_per_token=number(profile.bytes_per_token),
        crossover_token_slots=crossover_token_slots(weights.all_bytes, profile.bytes_per_token),
        by_batch=[
            CrossoverAtBatch(batch=batch, context=crossover_context(weights, profile, batch))
            for batch in batches
        ],
        by_context=[
            CrossoverAtContext(context=context, batch=crossover_batch(weights, profile, context))
            for context in contexts
        ],
        points=[_point(request, deployment, batch, context) for batch, context in points],
        regimes=regimes(placed, *points[0]),
    )
    if request.explain:
        answer.steps = _steps(request, deployment, answer)
    return answer


def _asked(
    request: CrossoverQuery, deployment: Deployment
) -> tuple[list[int], list[int], tuple[str, ...]]:
    """The batches and contexts to answer for, each once, the caller's own first.

    Raises:
        InputError: on `batches` where there are too many points.
    """
    single = [] if request.batch is None else [request.batch]
    batches = list(dict.fromkeys([*single, *request.batches])) or list(DEFAULT_BATCHES)
    one = [] if request.context is None else [request.context]
    contexts = list(dict.fromkeys([*one, *request.contexts]))
    notes: tuple[str, ...] = ()
    if contexts:
        _, notes = contexts_asked(deployment.shape, contexts[0], contexts)
    else:
        limit = deployment.shape.longest_context
        usual = [at for at in DEFAULT_CONTEXTS if limit is None or at <= limit]
        contexts = usual or [limit or DEFAULT_CONTEXTS[0]]
    if len(batches) * len(contexts) > MAX_POINTS:
        rule = f"{len(batches)} batches x {len(contexts)} contexts are over {MAX_POINTS} points"
        raise InputError.of("batches", rule)
    return batches, contexts, notes


def _assumptions(request: CrossoverQuery, deployment: Deployment) -> list[str]:
    notes = []
    load = deployment.load
    if load.gpus > 1:
        notes.append(
            f"bytes are those that the {load.gpus} GPUs of a replica read together; what ranks "
            "repeat (latents, KV heads beyond one a rank) is read by each"
        )
    if deployment.placed.step_weights.routed and request.weight_bytes is None:
        notes.append(
            "routed experts are read as a batch is expected to touch them, E x (1 - (1 - k/E)^B) "
            "under uniform routing; crossover_token_slots counts all of them"
        )
    if deployment.gpu is not None:
        notes.append(
            f"itl_ms expects {request.efficiency:g} of the roofline"
            + (
                f" and {request.tp_overhead:g} on top for tensor parallelism"
                if request.tensor_parallel_size > 1
                else ""
            )
        )
    notes.append(
        "regimes compare halving the bits of all weights with halving those of the cache, "
        "recurrent states excepted"
    )
    limit, longest = deployment.shape.longest_context, LONG_DOCUMENTS[1]
    if limit is not None and limit < longest:
        notes.append(f"long documents are cut to the model's own maximum of {limit} tokens")
    return notes


def _point(
    request: CrossoverQuery, deployment: Deployment, batch: int, context: int
) -> DecodePoint:
    weight_bytes = deployment.placed.step_weights.bytes_for(batch)
    kv_bytes = deployment.placed.replica_profile.total_bytes(context, batch)
    step_ms = itl_ms = tokens_per_s = expected_tokens_per_s = None
    if deployment.gpu is not None:
        on_gpu = _gpu_bytes(deployment, batch, context)
        roofline = step_seconds(on_gpu, bandwidth_of(deployment.gpu)) * len(deployment.load.stages)
        expected = inter_token_seconds(
            roofline,
            efficiency=request.efficiency,
            tp_overhead=request.tp_overhead,
            tensor_parallel_size=request.tensor_parallel_size,
        )
        step_ms, itl_ms = roofline * 1000, expected * 1000
        tokens_per_s, expected_tokens_per_s = batch / roofline, batch / expected
    return DecodePoint(
        batch=batch,
        context=context,
        weight_bytes=weight_bytes,
        kv_bytes=kv_bytes,
        step_bytes=weight_bytes + kv_bytes,
        kv_to_weight_ratio=kv_bytes / weight_bytes,
        dominated_by=dominance(weight_bytes, kv_bytes).value,
        step_ms=step_ms,
        itl_ms=itl_ms,
        tokens_per_s=tokens_per_s,
        expected_tokens_per_s=expected_tokens_per_s,
    )


def regimes(placed: Placement, batch: int, context: int) -> list[Regime]:
    """Short chat, long documents and the caller's own: what dominates and what to quantise."""
    return [*_usual(placed.model)(placed), _regime(placed, "yours", batch, context)]


def _usual_regimes(placed: Placement) -> tuple[Regime, Regime]:
    limit = placed.shape.longest_context
    batch, context = LONG_DOCUMENTS
    return (
        _regime(placed, "short_chat", *SHORT_CHAT),
        _regime(placed, "long_documents", batch, min(context, limit or context)),
    )


_usual = remembering(_usual_regimes)


def _regime(placed: Placement, name: RegimeName, batch: int, context: int) -> Regime:
    kept = placed.replica_profile.state_bytes * batch
    weight_bytes = placed.step_weights.bytes_for(batch)
    kv_bytes = placed.replica_profile.total_bytes(context, batch)
    speedup = quantisation_speedup(
        weight_bytes=weight_bytes,
        kv_bytes=kv_bytes,
        quantised_weight_bytes=weight_bytes // 2,
        quantised_kv_bytes=kept + (kv_bytes - kept) // 2,
    )
    return Regime(
        name=name,
        batch=batch,
        context=context,
        dominated_by=dominance(weight_bytes, kv_bytes).value,
        prioritise=speedup.prioritise,
        speedup=QuantisationSpeedup(
            weight_quantisation=speedup.weight_quantisation,
            kv_quantisation=speedup.kv_quantisation,
        ),
    )


def _steps(request: CrossoverQuery, deployment: Deployment, answer: CrossoverAnswer) -> list[Step]:
    """The curve at the first batch and context, and the first point's decode step."""
    point = answer.points[0]
    batch, context = point.batch, point.context
    lines = kv_steps(deployment, context)
    weight_bytes, per_token = (
        deployment.placed.step_weights.all_bytes,
        deployment.placed.replica_profile.bytes_per_token,
    )
    if deployment.load.gpus > 1:
        slopes = [n(stage.profile.bytes_per_token) for stage in deployment.load.stages]
        lines.append(
            step(
                "kv_bytes_per_token on all GPUs",
                "what one token adds on each GPU, summed",
                f"({' + '.join(slopes)}) x {deployment.load.tensor_parallel_size}",
                number(per_token),
                "bytes per token",
            )
        )
    lines += [
        step(
            "crossover_token_slots",
            "weight_bytes / kv_bytes_per_token, fraction dropped",
            f"{n(weight_bytes)} / {n(per_token)}" if per_token else "a token adds nothing",
            answer.crossover_token_slots,
            "token slots",
        ),
        _context_step(deployment, point, answer.by_batch[0].context),
        _batch_step(deployment, point, answer.by_context[0].batch),
        step(
            "step_bytes",
            "weight_bytes + kv_bytes_per_sequence x batch",
            f"{n(point.weight_bytes)} + {n(deployment.placed.replica_profile.bytes_per_sequence(context))} x {n(batch)}",
            point.step_bytes,
        ),
    ]
    gpu = deployment.gpu
    if gpu is None or point.step_ms is None or point.itl_ms is None:
        return lines
    load = deployment.load
    on_gpu, bandwidth = _gpu_bytes(deployment, batch, context), bandwidth_of(gpu)
    stages = f" x {len(load.stages)}" if len(load.stages) > 1 else ""
    overhead = f" x (1 + {request.tp_overhead:g})" if request.tensor_parallel_size > 1 else ""
    return [
        *lines,
        step(
            "step_ms",
            "bytes that one GPU reads / memory_bandwidth"
            + (" x stages" if stages else "")
            + " x 1,000",
            f"{n(on_gpu)} / {n(bandwidth)}{stages} x 1,000",
            point.step_ms,
            "ms",
        ),
        step(
            "itl_ms",
            "step_ms x (1 + tp_overhead) / efficiency" if overhead else "step_ms / efficiency",
            f"{n(point.step_ms)}{overhead} / {request.efficiency:g}",
            point.itl_ms,
            "ms",
        ),
    ]


def _context_step(deployment: Deployment, point: DecodePoint, found: int | None) -> Step:
    """The context at which a batch's cache equals the weights it reads, on the segment it lies in."""
    name, unit = f"crossover context at batch {point.batch}", "tokens"
    weights, segments = point.weight_bytes, deployment.placed.replica_profile.segments
    at = [segment for segment in segments if segment.from_context <= (found or 0)][-1]
    if found is None or not at.bytes_per_token or weights < at.fixed_bytes * point.batch:
        said = "no cache equals the weights read" if found is None else "its fixed bytes are more"
        return step(name, "the context whose cache, x batch, equals them", said, found, unit)
    formula, written = "weights read / batch", f"{n(weights)} / {n(point.batch)}"
    if at.fixed_bytes:
        formula, written = f"({formula} - fixed_bytes)", f"({written} - {n(at.fixed_bytes)})"
    formula += " / bytes_per_token, fraction dropped"
    return step(name, formula, f"{written} / {n(at.bytes_per_token)}", found, unit)


def _batch_step(deployment: Deployment, point: DecodePoint, found: int | None) -> Step:
    """The batch whose cache equals the weights it reads; of routed experts a larger one reads more."""
    name, unit = f"crossover batch at context {point.context}", "sequences"
    one = deployment.placed.replica_profile.bytes_per_sequence(point.context)
    if found is None:
        return step(name, "the batch whose cache equals the weights", "none is kept", found, unit)
    if deployment.placed.step_weights.routed:
        formula = "the largest batch whose cache is no more than the weights that it reads"
        read = deployment.placed.step_weights.bytes_for(max(1, found))
        return step(name, formula, f"{n(found)} of {n(one)} against {n(read)}", found, unit)
    formula = "weights read / kv_bytes_per_sequence, fraction dropped"
    return step(name, formula, f"{n(point.weight_bytes)} / {n(one)}", found, unit)


def _gpu_bytes(deployment: Deployment, batch: int, context: int) -> int:
    """Bytes of a step on the GPU that reads most."""
    stage = deployment.load.fullest_stage(context)
    per_sequence = stage.profile.bytes_per_sequence(context)
    return decode_bytes_per_step(
        deployment.placed.gpu_step_weights.bytes_for(batch), per_sequence, batch
    )
