"""`/kv`: formulas (1) to (3) for a model, whole and per GPU."""

from fractions import Fraction

from app.answers.deployment import Deployment, contexts_asked, deploy, engine_length
from app.answers.engine import Reserve, reserve
from app.answers.engine_budgets import check_engine_cache
from app.answers.rows import gpu_ref, one_gpu
from app.answers.steps import n, number, step
from app.core.cache import CacheLayout, CachePart, FullAttention, MlaLatent, SlidingWindow
from app.core.kv import KvProfile
from app.resolve.gpu import ResolvedGpu
from app.resolve.model import ResolvedModel
from app.schemas.answer import Step
from app.schemas.kv import KvAnswer, KvAtContext, PerGpuKv
from app.schemas.request import KvQuery


def kv_answer(request: KvQuery, model: ResolvedModel, gpu: ResolvedGpu | None) -> KvAnswer:
    """Bytes of the cache the request describes: the tokens' own, or an engine's reserve.

    Raises:
        InputError: on what can't be deployed.
    """
    deployment = deploy(request, model, gpu)
    context, notes = contexts_asked(
        deployment.shape, request.context, request.contexts, engine_length(request)
    )
    answer = _content(request, deployment, context)
    answer.assumptions = [*deployment.assumptions, *notes]
    if request.engine == "vllm":
        _put_reserve(answer, request, deployment, context)
    elif request.engine != "formula":
        check_engine_cache(request)
        answer.assumptions.append(
            f"{request.engine}: the bytes that the tokens themselves need; its pools are in "
            "/concurrency"
        )
    return answer


def _content(request: KvQuery, deployment: Deployment, context: int) -> KvAnswer:
    placed, load = deployment.placed, deployment.load
    whole = load.whole
    rank = load.fullest_stage(context).profile
    contexts = list(dict.fromkeys([context, *request.contexts]))
    return KvAnswer(
        model=placed.model_ref,
        gpu=gpu_ref(deployment.gpu),
        assumptions=[],
        steps=_steps(deployment, context, request.batch) if request.explain else None,
        kv_cache_dtype=deployment.layout.attention_dtype.name,
        context=context,
        batch=request.batch,
        kv_bytes_per_token=number(whole.bytes_per_token),
        kv_bytes_per_sequence=whole.bytes_per_sequence(context),
        kv_bytes_total=whole.total_bytes(context, request.batch),
        state_bytes_per_sequence=whole.state_bytes,
        per_gpu=PerGpuKv(
            kv_bytes_per_token=number(rank.bytes_per_token),
            kv_bytes_per_sequence=rank.bytes_per_sequence(context),
            kv_bytes_total=rank.total_bytes(context, request.batch),
            state_bytes_per_sequence=rank.state_bytes,
        ),
        segments=placed.segments,
        layers=placed.layers,
        by_context=[
            KvAtContext(
                context=at,
                kv_bytes_per_sequence=whole.bytes_per_sequence(at),
                per_gpu_kv_bytes_per_sequence=load.fullest_stage(at).profile.bytes_per_sequence(at),
            )
            for at in contexts
        ],
        parameters=placed.parameters,
        weight_bytes=load.weight_bytes,
        weight_bytes_by_dtype=placed.weight_bytes_by_dtype,
    )


def _put_reserve(answer: KvAnswer, request: KvQuery, deployment: Deployment, context: int) -> None:
    """Put the engine's reserve in place of the tokens' own bytes."""
    held = reserve(request, deployment, context)
    answer.engine = held.shown(context)
    resolved = held.plan.settings.kv_cache_dtype
    if resolved != "auto":
        answer.kv_cache_dtype = resolved
    answer.assumptions += held.plan.assumptions
    answer.segments = []
    answer.kv_bytes_per_token = number(held.replica_bytes_per_token)
    answer.kv_bytes_per_sequence = held.replica_bytes(context)
    answer.kv_bytes_total = held.replica_bytes(context) * request.batch
    answer.state_bytes_per_sequence = held.gpu_state_bytes * deployment.load.gpus
    answer.per_gpu = PerGpuKv(
        kv_bytes_per_token=number(held.gpu_bytes_per_token),
        kv_bytes_per_sequence=held.gpu_bytes(context),
        kv_bytes_total=held.gpu_bytes(context) * request.batch,
        state_bytes_per_sequence=held.gpu_state_bytes,
    )
    answer.by_context = [
        KvAtContext(
            context=at.context,
            kv_bytes_per_sequence=held.replica_bytes(at.context),
            per_gpu_kv_bytes_per_sequence=held.gpu_bytes(at.context),
        )
        for at in answer.by_context
    ]
    if answer.steps is not None:
        answer.steps = _reserve_steps(held, answer, request.batch)


def _reserve_steps(held: Reserve, answer: KvAnswer, batch: int) -> list[Step]:
    """The engine's own arithmetic; the tokens' bytes have no place in it."""
    lines = held.steps(answer.context)
    per_sequence = answer.kv_bytes_per_sequence
    gpus = held.tensor_parallel_size * len(held.plan.stages)
    if gpus > 1:
        lines.append(
            step(
                "kv_bytes_per_sequence",
                "the same blocks on every GPU of the replica",
                f"{n(held.plan.blocks(answer.context))} x "
                f"({' + '.join(map(n, held.plan.stage_block_bytes))}) x "
                f"{held.tensor_parallel_size}",
                per_sequence,
            )
        )
    lines.append(
        step(
            "kv_bytes_total",
            "kv_bytes_per_sequence x batch",
            f"{n(per_sequence)} x {n(batch)}",
            answer.kv_bytes_total,
        )
    )
    return lines


def kv_steps(deployment: Deployment, context: int) -> list[Step]:
    """Formulas (1) and (2) with the numbers put in: a line a kind of layer, then the sums."""
    layout = one_gpu(deployment.layout)
    whole = deployment.load.whole
    lines = []
    for group in deployment.shape.groups:
        lines += [_part_step(part, group.count, layout) for part in group.parts]
    per_token = number(whole.bytes_per_token)
    if len(lines) > 1:
        growing = " + ".join(n(s.value or 0) for s in lines if s.name == "kv_bytes_per_token")
        lines.append(
            step(
                "kv_bytes_per_token",
                "sum over layers that keep every token",
                growing or "0",
                per_token,
                "bytes per token",
            )
        )
    lines.append(_sequence_step("kv_bytes_per_sequence", whole, context))
    return lines


def _sequence_step(name: str, profile: KvProfile, context: int) -> Step:
    """Formula (2): on the segment that the context lies in, or where a rank holds whole tokens and
    a compressed cache whole entries, by these."""
    if profile.context_shards > 1 or any(term.stride > 1 for term in profile.terms):
        return _entries_step(name, profile, context)
    at = [segment for segment in profile.segments if segment.from_context <= context][-1]
    slope = n(at.bytes_per_token)
    formula, written = "kv_bytes_per_token x context", f"{slope} x {n(context)}"
    if at.fixed_bytes or at.bytes_per_token != profile.bytes_per_token:
        formula = "fixed_bytes + bytes_per_token x context, of the segment the context lies in"
        written = f"{n(at.fixed_bytes)} + {written}"
    return step(name, formula, written, profile.bytes_per_sequence(context))


def _entries_step(name: str, profile: KvProfile, context: int) -> Step:
    kept = [n(profile.fixed_bytes)] if profile.fixed_bytes else []
    on_fullest = -(-context // profile.context_shards)
    for term in profile.terms:
        tokens = on_fullest if term.limit is None else min(context, term.limit)
        kept.append(f"{n(term.bytes_per_entry)} x {n(tokens // term.stride)}")
    formula = "bytes_per_entry x whole entries"
    if profile.context_shards > 1:
        formula += " on the fullest rank"
    if profile.fixed_bytes:
        formula = f"fixed_bytes + {formula}"
    if len(profile.terms) > 1:
        formula += ", summed over kinds of layers"
    return step(name, formula, " + ".join(kept) or "0", profile.bytes_per_sequence(context))


def _part_step(part: CachePart, layers: int, layout: CacheLayout) -> Step:
    per_element = layout.attention_dtype.bytes_per_element
    size = n(per_element)
    per_token = Fraction(part.bytes_per_token(layout) * layers, part.stride)
    if isinstance(part, FullAttention) and part.fixed_bytes(layout) == 0:
        name = "kv_bytes_per_token"
        if isinstance(part, SlidingWindow) or part.limit:
            name = f"kv_bytes_per_token_within_{part.limit}"
        if part.head_dim == part.v_head_dim:
            return step(
                name,
                "2 x layers x kv_heads x head_dim x bytes_per_element",
                f"2 x {layers} x {part.num_key_value_heads} x {part.head_dim} x {size}",
                number(per_token),
                "bytes per token",
            )
        return step(
            name,
            "layers x kv_heads x (head_dim + v_head_dim) x bytes_per_element",
            f"{layers} x {part.num_key_value_heads} x ({part.head_dim} + {part.v_head_dim}) x {size}",
            number(per_token),
            "bytes per token",
        )
    if isinstance(part, MlaLatent):
        return step(
            "kv_bytes_per_token",
            "layers x (kv_lora_rank + qk_rope_head_dim) x bytes_per_element",
            f"{layers} x ({part.kv_lora_rank} + {part.qk_rope_head_dim}) x {size}",
            number(per_token),
            "bytes per token",
        )
    if fixed := part.fixed_bytes(layout):
        return step(
            f"{part.kind}_bytes_per_sequence",
            "layers x fixed_bytes",
            f"{layers} x {n(fixed)}",
            fixed * layers,
        )
    return step(
        "kv_bytes_per_token" if part.limit is None else f"kv_bytes_per_token_within_{part.limit}",
        "layers x bytes_per_entry / tokens_per_entry",
        f"{layers} x {n(part.bytes_per_token(layout))} / {part.stride}",
        number(per_token),
        "bytes per token",
    )


def _steps(deployment: Deployment, context: int, batch: int) -> list[Step]:
    whole = deployment.load.whole
    lines = kv_steps(deployment, context)
    per_sequence = whole.bytes_per_sequence(context)
    lines.append(
        step(
            "kv_bytes_total",
            "kv_bytes_per_sequence x batch",
            f"{n(per_sequence)} x {n(batch)}",
            whole.total_bytes(context, batch),
        )
    )
    if deployment.load.gpus > 1:
        lines += per_gpu_steps(deployment, context)
    return lines


def per_gpu_steps(deployment: Deployment, context: int) -> list[Step]:
    """The same on the fullest GPU: KV heads split over TP and none below one a GPU, latents
    repeated, layers split over the stages of a pipeline, tokens over context-parallel ranks."""
    profile = deployment.load.fullest_stage(context).profile
    return [
        step(
            "kv_bytes_per_token_per_gpu",
            "formula (1) over the heads, layers and tokens that one GPU holds",
            f"of {n(deployment.load.whole.bytes_per_token)} on one of {deployment.load.gpus} GPUs",
            number(profile.bytes_per_token),
            "bytes per token",
        ),
        _sequence_step("kv_bytes_per_sequence_per_gpu", profile, context),
    ]
