"""From a log and what its sender adds to the request that predicts the same start."""

import re
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from app.answers.drafting import draft_of
from app.answers.verify_measured import LARGEST_BLOCK
from app.catalog.gpus import gpu_catalogue
from app.catalog.models import model_catalogue
from app.core.engines.versions import release
from app.core.engines.vllm_defaults import MODEL_FREE_METHODS
from app.core.engines.vllm_rules import NEWEST, RULES
from app.core.hardware import Gpu
from app.errors import InputError, UnknownGpu
from app.logs.reading import ReadLog
from app.resolve.gpu import ResolvedGpu, requested_gpu
from app.schemas.request import ConcurrencyBody
from app.schemas.verify import VerifyBody

_CACHED = re.compile(r"models--([\w.-]+?)--([\w.-]+)(?:/snapshots/([0-9a-f]{40}))?")
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_GGML_CACHES = {"f16": "float16", "bf16": "bfloat16", "f32": "float32"}
_LOG_CACHES = {"float8_e4m3fn": "fp8_e4m3", "float8_e5m2": "fp8_e5m2", "bf16": "bfloat16"}


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedModel:
    """What the log says about its model: a name the hub may know, or why it is none."""

    id: str | None = None
    revision: str | None = None
    why_not: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Prediction:
    """What to predict.

    Attributes:
        request: The start as `/concurrency` would be asked for it; its model is not settled yet.
        stated: Its fields that come from the log, and so may be left out.
        context: Tokens of a sequence, or None where neither says.
        notes: What was taken for granted.
    """

    request: ConcurrencyBody
    stated: frozenset[str]
    context: int | None
    notes: tuple[str, ...]

    def without(self, error: InputError) -> "Prediction | None":
        """The same without those fields of the log that an error is about; None if it is not."""
        wrong = {str(fault.loc[0]) for fault in error.errors} & self.stated
        if not wrong:
            return None
        if wrong & {"speculative_method", "draft_model"}:
            wrong |= {"speculative_method", "num_speculative_tokens"}
            wrong |= {"draft_model"} & self.stated
        defaults = {name: ConcurrencyBody.model_fields[name].get_default() for name in wrong}
        return Prediction(
            request=self.request.model_copy(update=defaults),
            stated=self.stated - wrong,
            context=self.context,
            notes=(*self.notes, f"left out of account: {error.detail}"),
        )


def named_model(log: ReadLog) -> NamedModel:
    """The model that the log names, with the commit where its path tells one."""
    name = log.settings.model
    if name is None:
        return NamedModel(why_not="the log names no model")
    if (found := _hub_id(name)) is None:
        return NamedModel(why_not=f"the log names its model by {name!r}, which is no hub id")
    id_, commit = found
    return NamedModel(id=id_, revision=commit if id_ != name else log.settings.revision)


def _hub_id(name: str) -> tuple[str, str | None] | None:
    """The hub id and commit that a name or a path in the hub's cache tells."""
    if cached := _CACHED.search(name):
        return f"{cached[1]}/{cached[2]}", cached[3]
    return (name, None) if _HUB_ID.fullmatch(name) and not name.startswith(".") else None


def prediction_of(asked: VerifyBody, log: ReadLog) -> Prediction:
    """The log's settings, each where the sender gives none.

    Raises:
        InputError: on what the sender gives and can't be.
    """
    given = {name: getattr(asked, name) for name in asked.model_fields_set - {"log"}}
    notes: list[str] = []
    said = _stated(log, notes, given)
    stated = {k: v for k, v in said.items() if v is not None and k not in given}
    stated["engine"] = given.pop("engine", None) or log.engine
    request, refused = _request(given, stated)
    notes += [f"the log's {name} is none that requests take" for name in refused]
    return Prediction(
        request=request,
        stated=frozenset(stated) - {"engine", *refused},
        context=_context(request, log),
        notes=tuple(notes),
    )


def _request(
    given: dict[str, Any], stated: dict[str, Any]
) -> tuple[ConcurrencyBody, tuple[str, ...]]:
    """The request, without what of the log is no value of its field."""
    try:
        return ConcurrencyBody.model_validate(stated | given), ()
    except ValidationError as error:
        refused = {str(fault["loc"][0]) for fault in error.errors() if fault["loc"]}
    kept = {name: value for name, value in stated.items() if name not in refused}
    request = ConcurrencyBody.model_validate(kept | given)
    return request, tuple(sorted(refused & stated.keys()))


def _stated(log: ReadLog, notes: list[str], given: dict[str, Any]) -> dict[str, Any]:
    """The log's settings by the request's names; notes only on what the sender does not give."""
    settings = log.settings
    vllm = log.engine == "vllm"
    sizes = _parallel_sizes(log, notes, given)
    cache = settings.kv_cache_dtype
    stated: dict[str, Any] = {
        "dtype": settings.dtype if vllm else None,
        "quantization": settings.quantization,
        "kv_cache_dtype": _GGML_CACHES.get(cache or "") or _LOG_CACHES.get(cache or "") or cache,
        **sizes,
        "decode_context_parallel_size": settings.decode_context_parallel_size,
        "enable_expert_parallel": settings.enable_expert_parallel,
        "max_model_len": settings.max_model_len,
        "max_num_seqs": settings.max_num_seqs,
        "max_num_batched_tokens": settings.max_num_batched_tokens,
        "enforce_eager": settings.enforce_eager,
        "enable_prefix_caching": settings.enable_prefix_caching,
        "block_size": settings.block_size,
    }
    if vllm:
        stated |= {
            "engine_version": None if "engine_version" in given else _version(log, notes),
            "data_parallel_size": settings.data_parallel_size,
            "gpu_memory_utilization": settings.gpu_memory_utilization,
            **_speculation(log, notes, given, sizes),
            "lora_rank": settings.max_lora_rank,
            "max_loras": settings.max_loras,
        }
        if (settings.block_size or 0) > LARGEST_BLOCK:  # the engine's doing, no argument
            stated["block_size"] = None
    elif log.engine == "sglang":
        stated["mem_fraction_static"] = settings.memory_fraction
        stated["max_num_seqs"] = None
    elif log.engine == "tensorrt-llm":
        stated["free_gpu_memory_fraction"] = settings.memory_fraction
    else:
        stated |= _llama_cpp(log)
    if not vllm and settings.draft_model is not None:
        notes.append(_undrafted(settings.draft_model, f"{log.engine}'s drafts are not modelled"))
    return stated


def _parallel_sizes(log: ReadLog, notes: list[str], given: dict[str, Any]) -> dict[str, int | None]:
    """As the log states them, or by the ranks that wrote it; None where it shows one process."""
    sizes = {
        "tensor_parallel_size": 1 + max((rank.rank for rank in log.ranks), default=0),
        "pipeline_parallel_size": 1 + max((rank.stage for rank in log.ranks), default=0),
    }
    found: dict[str, int | None] = {}
    for name, size in sizes.items():
        found[name] = getattr(log.settings, name)
        if found[name] is None and size > 1 and name not in given:
            found[name] = size
            notes.append(f"{name} {size}, by the ranks that wrote the log")
    return found


def _speculation(
    log: ReadLog,
    notes: list[str],
    given: dict[str, Any],
    sizes: dict[str, int | None],
) -> dict[str, Any]:
    """How vLLM drafts. Prediction modules bear the model's own name, n-grams one in brackets."""
    settings = log.settings
    method, draft = settings.speculative_method, settings.draft_model
    if draft is not None and (bare := draft.strip("[]")) in MODEL_FREE_METHODS:
        method, draft = bare, None
    stated = {
        "speculative_method": method,
        "num_speculative_tokens": settings.num_speculative_tokens,
    }
    if draft is None or draft == settings.model or method in MODEL_FREE_METHODS:
        return stated
    if "draft_model" in given:
        return stated
    named = _hub_id(draft)
    entry = None if named is None else model_catalogue().find(named[0])
    if entry is None:
        notes.append(_undrafted(draft, "it is not in the catalogue"))
        return {}
    try:
        draft_of(entry.id, (sizes | given).get("tensor_parallel_size") or 1)
    except InputError as error:
        notes.append(_undrafted(draft, error.detail))
        return {}
    return {**stated, "draft_model": entry.id}


def _undrafted(draft: str, why: str) -> str:
    return (
        f"the log drafts with {draft!r}, of which neither weights nor cache are in the prediction: "
        + why
    )


def _llama_cpp(log: ReadLog) -> dict[str, Any]:
    """Slots with cells of their own, each with its part of the context."""
    length, pools = log.settings.max_model_len, log.measured.pools
    streams = pools[0].streams if pools else 1
    if length is None and pools:
        length = max(pool.tokens for pool in pools)
    return {
        "max_num_seqs": streams,
        "max_model_len": None if length is None else length // streams,
        "max_num_batched_tokens": None,
        "block_size": None,
    }


def _version(log: ReadLog, notes: list[str]) -> str | None:
    """The log's version as rules know it; the nearest that they know where it is none."""
    text = log.version
    if text is None and log.measured.num_blocks is not None and log.measured.kv_tokens is None:
        first = ".".join(map(str, RULES[0].since))
        notes.append(f"the log states no version, its lines are those of the first engine: {first}")
        return first
    if text is None:
        notes.append(f"the log states no version of vLLM: the rules of {NEWEST} are taken")
        return None
    known = [rules.since for rules in RULES]
    try:
        found = release(text)
    except InputError:
        found = (0, 0)
    if found[:2] < (0, 2) or found[:2] > release(NEWEST)[:2]:
        notes.append(f"{text} is no release whose rules are known: those of {NEWEST} are taken")
        return None
    if found < known[0]:
        first = ".".join(map(str, known[0]))
        notes.append(f"rules before {first} were not read: those of {first} are taken for {text}")
        return first
    return ".".join(map(str, found))


def _context(request: ConcurrencyBody, log: ReadLog) -> int | None:
    if request.context is not None or log.engine == "llama.cpp":
        return request.context or request.max_model_len
    return log.measured.concurrency_len or request.max_model_len


def gpu_of(asked: VerifyBody, log: ReadLog) -> tuple[ResolvedGpu | None, str | None]:
    """The GPU: the sender's, the one that the log names, or its memory alone; or why there is none.

    Raises:
        UnknownGpu: where the sender's name is none of the catalogue.
    """
    given = requested_gpu(asked, asked.gpu_spec)
    if given is not None:
        return given, None
    if log.gpu is not None:
        try:
            match = gpu_catalogue().find(log.gpu.replace("_", " "))
        except UnknownGpu:
            pass
        else:
            said = f"the log's device {log.gpu!r} is taken as {match.gpu.id}"
            return ResolvedGpu(gpu=match.gpu, assumptions=(said, *match.assumptions)), None
    total = log.measured.total
    if total is None:
        return None, "which GPU it was: name it (gpu)"
    memory = Gpu(
        id="custom",
        name="GPU of the log",
        memory_bytes=total.bytes,
        memory_bytes_cuda=total.bytes,
        source="request",
    )
    said = "of the GPU only its memory is known: name it (gpu) for a closer prediction"
    return ResolvedGpu(gpu=memory, assumptions=(said,)), None
