"""`/crossover`: formulas (6) and (7), the curve, and which optimisation pays where."""

from dataclasses import dataclass

from app.answers.deployment import Deployment, deploy, gpu_ref, longest, model_ref, step_weights_of
from app.answers.kv import kv_steps
from app.answers.steps import n, number, step
from app.core.crossover import (
    crossover_batch,
    crossover_context,
    crossover_token_slots,
    dominance,
    quantisation_speedup,
)
from app.core.decode import decode_bytes_per_step, inter_token_seconds, step_seconds
from app.core.kv import KvProfile, profile_of
from app.core.precision import FP8_E4M3, NVFP4
from app.core.weights import Sharding, StepWeights
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
)
from app.schemas.request import CrossoverQuery

DEFAULT_BATCHES = (1, 8, 32, 64, 128, 256)
DEFAULT_CONTEXTS = (1024, 4096, 8192, 32768, 131072)
MAX_POINTS = 4096

SHORT_CHAT = (128, 1024)
"""Batch and context of the first regime: many short conversations."""

LONG_DOCUMENTS = (4, 65536)
"""Batch and context of the second: few long documents."""


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class Reading:
    """What decoding reads: by the whole model, and on one GPU of it."""

    weights: StepWeights
    profile: KvProfile
    gpu_weights: StepWeights
    deployment: Deployment


def reading(request: CrossoverQuery, model: ResolvedModel, gpu: ResolvedGpu | None) -> Reading:
    """What the request's model reads in a step.

    Raises:
        InputError: on what can't be deployed.
    """
    deployment = deploy(request, model, gpu)
    alone = Deployment(
        model=model,
        gpu=None,
        layout=deployment.layout,
        sharding=Sharding(),
        stored=deployment.stored,
        load=deployment.load,
        assumptions=(),
    )
    weights = step_weights_of(alone, None)
    if request.weight_bytes is not None:
        weights = weights.rescaled(request.weight_bytes)
    return Reading(
        weights=weights,
        profile=deployment.load.whole,
        gpu_weights=step_weights_of(deployment, request.weight_bytes),
        deployment=deployment,
    )


def crossover_answer(
    request: CrossoverQuery, model: ResolvedModel, gpu: ResolvedGpu | None
) -> CrossoverAnswer:
    """Where the request's model crosses over.

    Raises:
        InputError: on what can't be deployed.
    """
    read = reading(request, model, gpu)
    deployment = read.deployment
    batches, contexts, notes = _asked(request, deployment)
    points = [(batch, context) for batch in batches for context in contexts][:MAX_POINTS]
    yours = points[0]
    return CrossoverAnswer(
        model=model_ref(model),
        gpu=gpu_ref(deployment.gpu),
        assumptions=[*deployment.assumptions, *notes, *_assumptions(request, read)],
        steps=_steps(read, *yours) if request.explain else None,
        kv_cache_dtype=deployment.layout.attention_dtype.name,
        weight_bytes=read.weights.all_bytes,
        kv_bytes_per_token=number(read.profile.bytes_per_token),
        crossover_token_slots=crossover_token_slots(
            read.weights.all_bytes, read.profile.bytes_per_token
        ),
        by_batch=[
            CrossoverAtBatch(
                batch=batch, context=crossover_context(read.weights, read.profile, batch)
            )
            for batch in batches
        ],
        by_context=[
            CrossoverAtContext(
                context=context, batch=crossover_batch(read.weights, read.profile, context)
            )
            for context in contexts
        ],
        points=[_point(request, read, batch, context) for batch, context in points],
        regimes=regimes(read, *yours),
    )


def _asked(
    request: CrossoverQuery, deployment: Deployment
) -> tuple[list[int], list[int], tuple[str, ...]]:
    """The batches and contexts to answer for, each once, the caller's own first."""
    single = [] if request.batch is None else [request.batch]
    batches = list(dict.fromkeys([*single, *request.batches])) or list(DEFAULT_BATCHES)
    one = [] if request.context is None else [request.context]
    contexts = list(dict.fromkeys([*one, *request.contexts]))
    if contexts:
        _, notes = longest(deployment.shape, max(contexts))
        return batches, contexts, notes
    limit = deployment.shape.max_position_embeddings
    usual = [at for at in DEFAULT_CONTEXTS if limit is None or at <= limit]
    return batches, usual or [limit or DEFAULT_CONTEXTS[0]], ()


def _assumptions(request: CrossoverQuery, read: Reading) -> list[str]:
    notes = []
    if read.weights.routed and request.weight_bytes is None:
        notes.append(
            "routed experts are read as a batch is expected to touch them, E x (1 - (1 - k/E)^B) "
            "under uniform routing; crossover_token_slots counts all of them"
        )
    if read.deployment.gpu is not None:
        notes.append(
            f"itl_ms expects {request.efficiency:g} of the roofline"
            + (
                f" and {request.tp_overhead:g} on top for tensor parallelism"
                if request.tensor_parallel_size > 1
                else ""
            )
        )
    return notes


def _point(request: CrossoverQuery, read: Reading, batch: int, context: int) -> DecodePoint:
    weight_bytes = read.weights.bytes_for(batch)
    kv_bytes = read.profile.total_bytes(context, batch)
    point = DecodePoint(
        batch=batch,
        context=context,
        weight_bytes=weight_bytes,
        kv_bytes=kv_bytes,
        step_bytes=weight_bytes + kv_bytes,
        kv_to_weight_ratio=kv_bytes / weight_bytes,
        dominated_by=dominance(weight_bytes, kv_bytes).value,
    )
    gpu = read.deployment.gpu
    if gpu is not None:
        load = read.deployment.load
        per_sequence = load.fullest_stage(context).profile.bytes_per_sequence(context)
        on_gpu = decode_bytes_per_step(read.gpu_weights.bytes_for(batch), per_sequence, batch)
        roofline = step_seconds(on_gpu, bandwidth_of(gpu)) * len(load.stages)
        expected = inter_token_seconds(
            roofline,
            efficiency=request.efficiency,
            tp_overhead=request.tp_overhead,
            tensor_parallel_size=request.tensor_parallel_size,
        )
        point.step_ms = roofline * 1000
        point.itl_ms = expected * 1000
        point.tokens_per_s = batch / roofline
        point.expected_tokens_per_s = batch / expected
    return point


def regimes(read: Reading, batch: int, context: int) -> list[Regime]:
    """Short chat, long documents and the caller's own: what dominates and what to quantise."""
    limit = read.deployment.shape.max_position_embeddings
    long_batch, long_context = LONG_DOCUMENTS
    named = (
        ("short_chat", *SHORT_CHAT),
        ("long_documents", long_batch, min(long_context, limit or long_context)),
        ("yours", batch, context),
    )
    return [_regime(read, name, b, c) for name, b, c in named]


def _regime(read: Reading, name: str, batch: int, context: int) -> Regime:
    layout = read.deployment.layout
    halved = NVFP4 if layout.attention_dtype.bits <= FP8_E4M3.bits else FP8_E4M3
    quantised = profile_of(
        read.deployment.shape.groups,
        type(layout)(attention_dtype=halved, model_dtype=layout.model_dtype),
    )
    weight_bytes = read.weights.bytes_for(batch)
    kv_bytes = read.profile.total_bytes(context, batch)
    speedup = quantisation_speedup(
        weight_bytes=weight_bytes,
        kv_bytes=kv_bytes,
        quantised_weight_bytes=weight_bytes // 2,
        quantised_kv_bytes=quantised.total_bytes(context, batch),
    )
    return Regime.model_validate(
        {
            "name": name,
            "batch": batch,
            "context": context,
            "dominated_by": dominance(weight_bytes, kv_bytes).value,
            "prioritise": speedup.prioritise,
            "speedup": QuantisationSpeedup(
                weight_quantisation=speedup.weight_quantisation,
                kv_quantisation=speedup.kv_quantisation,
            ),
        }
    )


def _steps(read: Reading, batch: int, context: int) -> list[Step]:
    lines = kv_steps(read.deployment, context)
    weight_bytes = read.weights.all_bytes
    per_token = read.profile.bytes_per_token
    slots = crossover_token_slots(weight_bytes, per_token)
    if slots is not None:
        lines.append(
            step(
                "crossover_token_slots",
                "weight_bytes / kv_bytes_per_token, fraction dropped",
                f"{n(weight_bytes)} / {n(per_token)}",
                slots,
                "token slots",
            )
        )
    here = read.weights.bytes_for(batch)
    per_sequence = read.profile.bytes_per_sequence(context)
    lines.append(
        step(
            "decode_bytes_per_step",
            "weight_bytes + kv_bytes_per_sequence x batch",
            f"{n(here)} + {n(per_sequence)} x {n(batch)}",
            decode_bytes_per_step(here, per_sequence, batch),
        )
    )
    return lines
