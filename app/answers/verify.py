"""`/verify`: what a startup log says, against what we would have predicted of the same start."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from app.answers.kv import kv_steps
from app.answers.room import EngineRoom, Room, room_of
from app.answers.rows import gpu_ref, model_ref
from app.answers.steps import n, step
from app.answers.verify_measured import deciding_pool, tokens_of
from app.answers.verify_open import Asked, LeftOpen, left_open
from app.answers.verify_parts import from_formula, parts_of, split
from app.answers.verify_request import (
    NamedModel,
    Prediction,
    gpu_of,
    named_model,
    prediction_of,
)
from app.answers.verify_rows import (
    OF_LOGGED_MEMORY,
    Row,
    capacity_rows,
    refuted,
    rows_of,
    sequences_of,
)
from app.answers.verify_shown import calibration, shown
from app.answers.verify_words import NAMES, failure_words, gib, part_reasons
from app.catalog.models import model_catalogue
from app.errors import AccessDenied, HubOffline, InputError, KvmathError, NotFound
from app.logs.reading import ReadLog
from app.resolve.gpu import ResolvedGpu
from app.resolve.model import ModelResolver, ResolvedModel
from app.schemas.answer import Step
from app.schemas.verify import Split, VerifyAnswer, VerifyBody


@dataclass(frozen=True, kw_only=True, slots=True)
class Predicted:
    """The start as we would have foreseen it; `room` is None where we could not."""

    prediction: Prediction
    context: int | None
    model: ResolvedModel | None
    gpu: ResolvedGpu | None
    room: Room | None = None
    missing: tuple[str, ...] = ()
    given: frozenset[str] = frozenset()


def unreadable() -> InputError:
    """A text in which nothing of an engine's start is found."""
    return InputError.of(
        "log",
        "holds no line by which vLLM, SGLang, TensorRT-LLM or llama.cpp report their memory or "
        "their cache at start ('Available KV cache memory', 'GPU KV cache size', '# GPU blocks', "
        "'KV Cache is allocated', 'Allocated ... for max tokens in paged KV cache', "
        "'llama_kv_cache: size')",
        type="unreadable_log",
    )


async def verify(
    asked: VerifyBody,
    log: ReadLog | None,
    models: ModelResolver,
    known: ResolvedModel | None = None,
) -> VerifyAnswer:
    """Explain a log; `known` is its model where the caller has it at hand.

    Raises:
        InputError: where nothing of an engine can be read, or the sender's own words can't be.
        NotFound, AccessDenied, HubError: on the model that the sender names; of one that the log
            names only trouble of the hub.
    """
    if log is None:
        raise unreadable()
    prediction = prediction_of(asked, log)
    gpu, no_gpu = gpu_of(asked, log)
    model, no_model = known, None
    if model is None:
        model, no_model = await _model(asked, log, models)
    found = Predicted(
        prediction=prediction,
        context=prediction.context,
        model=model,
        gpu=gpu,
        missing=tuple(words for words in (no_model, no_gpu) if words is not None),
        given=frozenset(asked.model_fields_set),
    )
    if model is not None and gpu is not None:
        found = _predicted(found, model, gpu)
    return _answer(asked, log, found)


async def _model(
    asked: VerifyBody, log: ReadLog, models: ModelResolver
) -> tuple[ResolvedModel | None, str | None]:
    """The sender's model, or the log's; or why there is none."""
    if asked.model is not None or asked.config is not None:
        return await models.resolve(asked, asked.config), None
    named = named_model(log)
    if named.id is None:
        return None, f"which model it was: {named.why_not}; name it (model), or send its config"
    try:
        return await _named(named, asked, models), None
    except (NotFound, AccessDenied, HubOffline, InputError) as error:
        return None, f"the model that the log names: {error.detail}"


async def _named(named: NamedModel, asked: VerifyBody, models: ModelResolver) -> ResolvedModel:
    request = asked.model_copy(update={"model": named.id, "revision": named.revision})
    if named.revision is None:
        return await models.resolve(request)
    try:
        return await models.resolve(request)
    except KvmathError:
        newest = await models.resolve(request.model_copy(update={"revision": None}))
    words = f"commit {named.revision} of the log could not be read: the newest is taken"
    return replace(newest, assumptions=(*newest.assumptions, words))


def _predicted(found: Predicted, model: ResolvedModel, gpu: ResolvedGpu) -> Predicted:
    """The prediction; without settings of the log that we refuse, which are named.

    Raises:
        InputError: on what the sender gives and can't be.
    """
    left: Prediction | None = _as_loaded(found.prediction, model)
    while left is not None:
        try:
            context = left.context or model.shape.max_position_embeddings
            if context is None:
                raise InputError.of("context", "is needed: neither log nor model states a length")
            room = room_of(left.request, model, gpu, context)
            room.at(context)
        except InputError as error:
            refused, left = error, left.without(error)
        else:
            return replace(found, prediction=left, context=context, room=room)
    if {str(fault.loc[0]) for fault in refused.errors} & found.given:
        raise refused
    return replace(found, missing=(*found.missing, f"a prediction: {refused.detail}"))


def _as_loaded(prediction: Prediction, model: ResolvedModel) -> Prediction:
    """Without what the checkpoint's own description says more exactly: precision, quantisation."""
    request, shape = prediction.request, model.shape
    changes: dict[str, object] = {"kv_cache_memory_bytes": None, "kv_budget_bytes": None}
    if request.dtype == shape.dtype.name:
        changes["dtype"] = None
    if shape.quantization is not None and "quantization" in prediction.stated:
        changes["quantization"] = None
    return replace(prediction, request=request.model_copy(update=changes))


def _answer(asked: VerifyBody, log: ReadLog, predicted: Predicted) -> VerifyAnswer:
    room, context, gpu = predicted.room, predicted.context, predicted.gpu
    rows: list[Row] = []
    pool = formula = None
    assumptions = list(predicted.prediction.notes)
    if room is not None and context is not None:
        request = predicted.prediction.request
        parts = parts_of(log, room, request)
        reasons = part_reasons(parts, log, request, room, context)
        rows = [*rows_of(parts, reasons), *capacity_rows(log, room, parts, context)]
        opened = list(_left_open(log, predicted, room, context))
        for one in opened:
            rows = [one.added_to(row) for row in rows]
        assumptions += [one.assumption for one in opened]
        resting = tuple(one.assumption for one in opened if one.affects & parts.unprinted)
        pool = split(parts, reasons | {row.quantity: row.reason for row in rows}, resting)
        formula = from_formula(room, log, parts, context)
        assumptions += [*room.deployment.assumptions, *room.budgets.assumptions]
        if isinstance(room, EngineRoom):
            assumptions += room.reserve(context).plan.assumptions
    elif gpu is not None:
        assumptions += gpu.assumptions
    if not rows:
        rows = list(_measured_only(log))
    sequences = sequences_of(log, room, context)
    return VerifyAnswer(
        read=shown(log),
        model=None if predicted.model is None else model_ref(predicted.model),
        gpu=None if gpu is None else gpu_ref(gpu.gpu),
        fits=_fits(log),
        summary=list(_summary(log, rows, pool, room)),
        table=[row.shown() for row in rows],
        kv_pool=pool,
        from_formula=formula,
        sequences=sequences,
        refuted=refuted(log, room, rows, context),
        assumptions=list(dict.fromkeys(assumptions)),
        missing=[*predicted.missing, *log.missing],
        warnings=[*log.warnings, *_another_model(log, predicted.model)],
        calibration=calibration(log),
        steps=_steps(log, room, context) if asked.explain else None,
    )


def _left_open(log: ReadLog, predicted: Predicted, room: Room, context: int) -> Iterator[LeftOpen]:
    if predicted.model is None or predicted.gpu is None:
        return iter(())
    asked = Asked(
        read=log,
        request=predicted.prediction.request,
        model=predicted.model,
        gpu=predicted.gpu,
        context=context,
        given=predicted.given,
    )
    return left_open(asked, room)


def _another_model(log: ReadLog, model: ResolvedModel | None) -> Iterator[str]:
    """That the sender's model is another than the one that the log names by its id."""
    named = named_model(log).id
    if named is None or model is None or model.id is None:
        return
    entry = model_catalogue().find(named)
    same = named if entry is None else entry.id
    if model.id.lower() not in (named.lower(), same.lower()):
        yield f"the log names {named}, and what is predicted is {model.id}, as it was asked for"


def _fits(log: ReadLog) -> bool | None:
    found = log.measured
    if log.failures or (
        found.available_kv_least is not None and found.available_kv_least.bytes <= 0
    ):
        return False
    if found.max_concurrency is not None:
        return found.max_concurrency >= 1
    return True if found.kv_tokens or found.num_blocks or found.pools else None


def _measured_only(log: ReadLog) -> Iterator[Row]:
    """Rows where nothing could be predicted."""
    found = log.measured
    for quantity, size in (
        ("gpu_memory", found.total),
        ("weights", found.weights),
        ("activation", found.activation),
        ("non_torch", found.non_torch),
        ("cuda_graphs", found.graphs),
        ("kv_pool", deciding_pool(log)),
    ):
        if size is not None:
            yield Row.of_size(quantity, None, size, "not predicted")
    if (tokens := tokens_of(log)) is not None:
        yield Row(quantity="kv_cache_tokens", measured=tokens, unit="tokens")
    if found.num_blocks is not None:
        yield Row(quantity="num_blocks", measured=found.num_blocks, unit="blocks")
    if found.max_concurrency is not None:
        yield Row(quantity="max_concurrency", measured=found.max_concurrency, unit="sequences")


def _summary(log: ReadLog, rows: list[Row], pool: Split | None, room: Room | None) -> Iterator[str]:
    yield from failure_words(log)
    found = log.measured
    if pool is not None:
        more = pool.to_bytes - pool.from_bytes
        share = f" ({more / pool.from_bytes:+.1%})" if pool.from_bytes > 0 else ""
        words = f"a difference of {more / 2**30:+.2f} GiB{share}" if more else "the same"
        yield (
            f"The cache has {gib(pool.to_bytes)}{_each(log)}; {gib(pool.from_bytes)} were "
            f"predicted, {words}."
        )
        largest = max(pool.parts, key=lambda part: abs(part.bytes))
        if abs(largest.bytes) > 2**30 // 50:
            yield f"Most of it is {NAMES[largest.part]} ({largest.bytes / 2**30:+.2f} GiB): {largest.reason}."
    elif (measured := deciding_pool(log)) is not None:
        yield f"The cache has {gib(measured.bytes)}{_each(log)}."
    yield from _layout_sentences(rows)
    if found.estimated_max_len is not None:
        yield f"The engine suggests at most {found.estimated_max_len:,} tokens a request."
    if room is None:
        yield "Nothing could be predicted; see what is missing."


def _each(log: ReadLog) -> str:
    return " on each GPU" if (log.settings.tensor_parallel_size or 1) > 1 else ""


def _layout_sentences(rows: list[Row]) -> Iterator[str]:
    """Whether the logged memory gives what the log counts in it."""
    counted = [row for row in rows if row.quantity.endswith(OF_LOGGED_MEMORY)]
    amiss = [row for row in counted if not row.as_laid_out]
    if counted and not amiss:
        words = " and ".join(f"{n(row.measured or 0)} {row.unit}" for row in counted)
        yield f"{words} are what that memory gives: the cache is laid out as expected."
    for row in amiss:
        yield f"{n(row.measured or 0)} {row.unit}: {row.reason}."


def _steps(log: ReadLog, room: Room | None, context: int | None) -> list[Step]:
    if room is None or context is None:
        return []
    lines = [*kv_steps(room.deployment, context), *room.budgets.steps(0)]
    if isinstance(room, EngineRoom):
        lines += room.reserve(context).steps(context)
    sequences = sequences_of(log, room, context)
    if sequences is not None:
        lines.append(
            step(
                "sequences",
                "blocks of the log / blocks_per_sequence",
                f"{n(sequences.num_blocks)} / {n(sequences.blocks_per_sequence)}",
                sequences.sequences,
                "sequences",
            )
        )
    return lines
