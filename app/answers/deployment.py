"""A resolved request as the core takes it: precisions, sharding, and the load on the GPUs."""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from app.core.cache import CacheLayout, MlaLatent
from app.core.engines.vllm_cache_dtype import checkpoint_cache_dtype
from app.core.hardware import Gpu
from app.core.load import ReplicaLoad, replica_load
from app.core.model import ModelShape
from app.core.precision import (
    BFLOAT16,
    FLOAT16,
    FLOAT32,
    FP8_E4M3,
    INT4,
    INT8,
    NVFP4,
    Precision,
    precision,
)
from app.core.weights import Sharding, StepWeights, StoredBytes, loaded_bytes, step_weights
from app.errors import InputError
from app.resolve.gpu import ResolvedGpu
from app.resolve.model import ResolvedModel
from app.resolve.quantization.loading import weight_storage
from app.schemas.answer import GpuRef, ModelRef
from app.schemas.request import EngineFields, EngineRequest, ModelFields

KEPT = 1024

_VLLM_ALONE = frozenset(
    {
        "disable_hybrid_kv_cache_manager",
        "draft_model",
        "entry_point",
        "gpu_memory_utilization",
        "lora_rank",
        "max_loras",
        "num_speculative_tokens",
        "speculative_method",
    }
)
_HEADROOMS = frozenset({"activation_bytes", "overhead_bytes"})
_SGLANG_ALONE = frozenset({"max_running_requests", "mem_fraction_static"})
_UNHEARD: dict[str, frozenset[str]] = {
    "formula": frozenset(EngineFields.model_fields) - {"engine", "max_num_seqs"}
    | {"gpu_memory_used_bytes", "instances_per_gpu"},
    "vllm": _HEADROOMS | _SGLANG_ALONE | {"free_gpu_memory_fraction"},
    "sglang": _HEADROOMS | _VLLM_ALONE | {"free_gpu_memory_fraction"},
    "tensorrt-llm": _HEADROOMS
    | _VLLM_ALONE
    | _SGLANG_ALONE
    | {"enable_prefix_caching", "enforce_eager"},
    "llama.cpp": _HEADROOMS
    | _VLLM_ALONE
    | _SGLANG_ALONE
    | {
        "enable_prefix_caching",
        "enforce_eager",
        "free_gpu_memory_fraction",
        "max_num_batched_tokens",
    },
}
"""Fields of a request that an engine of that name does not have."""


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class Deployment:
    """A model on GPUs, as asked for.

    Attributes:
        model: The resolved model.
        gpu: The resolved GPU, or None where the request needs none.
        layout: Cache precision and tensor parallelism.
        sharding: How weights are spread.
        stored: Bytes of a weight as it is loaded.
        load: Weights and cache on each stage's GPU.
        assumptions: What was taken for granted so far.
    """

    model: ResolvedModel
    gpu: Gpu | None
    layout: CacheLayout
    sharding: Sharding
    stored: StoredBytes
    load: ReplicaLoad
    assumptions: tuple[str, ...]

    @property
    def shape(self) -> ModelShape:
        """The model's shape."""
        return self.model.shape


def deploy(request: ModelFields, model: ResolvedModel, gpu: ResolvedGpu | None) -> Deployment:
    """Place the model as the request says.

    Raises:
        InputError: on a precision or a parallel size that can't be.
    """
    shape = model.shape
    computed = _computed_in(request, shape)
    cache_dtype = attention_precision(request.kv_cache_dtype, shape, computed)
    layout = CacheLayout(
        tensor_parallel_size=request.tensor_parallel_size,
        attention_dtype=cache_dtype,
        model_dtype=computed,
    )
    if gpu is not None and gpu.gpu.mig_profile is not None:
        _check_slice(request)
    expert_ranks, ranks_an_expert = _expert_ranks(request)
    sharding = Sharding(
        tensor_parallel_size=request.tensor_parallel_size,
        pipeline_parallel_size=request.pipeline_parallel_size,
        expert_parallel_size=expert_ranks,
        expert_tensor_parallel_size=ranks_an_expert,
    )
    # Inline configs are new shapes each time: keeping their results would only push others out.
    keep = model.id is not None
    stored, notes = (_kept_storage if keep else weight_storage)(
        shape,
        checkpoint_bytes=model.checkpoint_bytes,
        total_given=request.weight_bytes is not None,
        dtype=request.dtype,
        quantization=request.quantization,
    )
    load = (_kept_load if keep else replica_load)(
        shape,
        layout,
        stored,
        sharding=sharding,
        decode_context_parallel_size=request.decode_context_parallel_size,
        weight_bytes=request.weight_bytes,
    )
    return Deployment(
        model=model,
        gpu=None if gpu is None else gpu.gpu,
        layout=layout,
        sharding=sharding,
        stored=stored,
        load=load,
        assumptions=(
            *model.assumptions,
            *shape.assumptions,
            *(() if gpu is None else gpu.assumptions),
            *notes,
            *_keeps_nothing(load),
            *_ineffective(request),
        ),
    )


def _keeps_nothing(load: ReplicaLoad) -> tuple[str, ...]:
    """A zero is never left to be wondered at."""
    if load.whole.terms or load.whole.fixed_bytes:
        return ()
    return ("no layer of this model keeps anything between tokens: it encodes, it does not decode",)


def _computed_in(request: ModelFields, shape: ModelShape) -> Precision:
    """What the model computes in: `dtype` where it names a float of 16 bits or more."""
    if request.dtype in (None, "auto"):
        return shape.dtype
    named = precision(request.dtype)
    return named if named in (FLOAT32, BFLOAT16, FLOAT16) else shape.dtype


def _check_slice(request: ModelFields) -> None:
    """A slice of a GPU has no link to another: one replica has to fit on it alone."""
    for field in ("tensor_parallel_size", "pipeline_parallel_size"):
        if getattr(request, field) > 1:
            raise InputError.of(field, "has to be 1 on a MIG slice, which has no peer link")


def _ineffective(request: ModelFields) -> list[str]:
    """What the request says to no effect, so that nobody believes it was heard.

    Raises:
        InputError: on `engine` where measured parts are given without the engine they are of.
    """
    notes = []
    if isinstance(request, EngineRequest):
        if request.engine == "formula" and "calibration" in request.model_fields_set:
            rule = "is needed beside calibration: what was measured is an engine's"
            raise InputError.of("engine", rule, type="missing")
        unheard = sorted(request.model_fields_set & _UNHEARD[request.engine])
        if unheard:
            notes.append(f"engine={request.engine} takes no account of {', '.join(unheard)}")
    if request.data_parallel_size > 1:
        notes.append(
            f"figures are of one of the {request.data_parallel_size} data-parallel ranks, each of "
            "which batches and caches for itself"
        )
    return notes


def _expert_ranks(request: ModelFields) -> tuple[int, int]:
    """Ranks that whole experts are dealt out over, and ranks that share each of them.

    vLLM's switch deals them out over all ranks of tensor and data parallelism; other engines say
    how many, and split each expert over the ranks that are left.

    Raises:
        InputError: on `expert_parallel_size` where the ranks do not divide so.
    """
    ranks = request.tensor_parallel_size * request.data_parallel_size
    given = request.expert_parallel_size
    if given is None:
        return (ranks, 1) if request.enable_expert_parallel else (1, 1)
    if ranks % given:
        rule = f"has to divide tensor_parallel_size x data_parallel_size ({ranks})"
        raise InputError.of("expert_parallel_size", rule, type="not_divisible")
    if isinstance(request, EngineRequest) and request.engine == "vllm" and given not in (1, ranks):
        rule = f"is 1 or tensor_parallel_size x data_parallel_size ({ranks}) in vLLM"
        raise InputError.of("expert_parallel_size", rule)
    return given, ranks // given if given > 1 else 1


def attention_precision(name: str, shape: ModelShape, computed: Precision) -> Precision:
    """The precision of cached keys and values; `auto` is the checkpoint's own cache scheme, else
    the precision the model computes in.

    Raises:
        InputError: on `kv_cache_dtype` for a precision without a known size.
    """
    if name == "auto":
        own = checkpoint_cache_dtype(shape)
        scheme_for_attention_only = own == "fp8" and _has_latents(shape)
        return computed if own == "auto" or scheme_for_attention_only else precision(own)
    return _PACKED.get(name) or precision(name, field="kv_cache_dtype")


def _has_latents(shape: ModelShape) -> bool:
    return any(isinstance(part, MlaLatent) for group in shape.groups for part in group.parts)


_PACKED = {
    "int8_per_token_head": INT8,
    "int4_per_token_head": INT4,
    "fp8_per_token_head": FP8_E4M3,
    "nvfp4_4over6": NVFP4,
    "fp8_ds_mla": FP8_E4M3,
    "nvfp4_ds_mla": NVFP4,
    "turboquant_k8v4": Precision("turboquant_k8v4", Fraction(6)),
    "turboquant_4bit_nc": Precision("turboquant_4bit_nc", Fraction(4)),
    "turboquant_k3v4_nc": Precision("turboquant_k3v4_nc", Fraction(7, 2)),
    "turboquant_3bit_nc": Precision("turboquant_3bit_nc", Fraction(3)),
    "q8_0": Precision("q8_0", Fraction(17, 2)),
    "q5_1": Precision("q5_1", Fraction(6)),
    "q5_0": Precision("q5_0", Fraction(11, 2)),
    "q4_1": Precision("q4_1", Fraction(5)),
    "q4_0": Precision("q4_0", Fraction(9, 2)),
    "iq4_nl": Precision("iq4_nl", Fraction(9, 2)),
}
"""vLLM's packed caches by the mean bits of an element, without their scales; what the engine
reserves for them is worked out in `app.core.engines`, scales included. llama.cpp's by the bits of
an element in blocks of 32, scales included."""


def step_weights_of(deployment: Deployment, weight_bytes: int | None) -> StepWeights:
    """What a decode step reads on one GPU; a caller's `weight_bytes` rescales the mix."""
    sized = _kept_step_weights if deployment.model.id else step_weights
    weights = sized(deployment.shape, deployment.stored, deployment.sharding)
    if weight_bytes is None:
        return weights
    if deployment.sharding.expert_parallel_size > 1:
        loaded = loaded_bytes(deployment.shape, deployment.stored)
        return weights.times(Fraction(weight_bytes, max(1, loaded)))
    return weights.rescaled(-(-weight_bytes // deployment.load.gpus))


_kept_storage = lru_cache(maxsize=KEPT)(weight_storage)
_kept_load = lru_cache(maxsize=KEPT)(replica_load)
_kept_step_weights = lru_cache(maxsize=KEPT)(step_weights)


def contexts_asked(
    shape: ModelShape, context: int | None, contexts: list[int], max_model_len: int | None = None
) -> tuple[int, tuple[str, ...]]:
    """The context to answer for, and what that and the others take for granted.

    The first of `context`, `contexts`, `max_model_len` and the model's own maximum.

    Raises:
        InputError: on `context` where none is given and the model states no maximum.
    """
    limit = shape.longest_context
    if context is None and not contexts:
        if max_model_len is not None:
            return max_model_len, (f"no context given: max_model_len of {max_model_len} is taken",)
        if limit is None:
            rule = "is needed: the model states no maximum of its own"
            raise InputError.of("context", rule, type="missing")
        return limit, (f"no context given: the model's own maximum of {limit} tokens is taken",)
    notes = []
    longest = max([*contexts, context or 0])
    if limit is not None and longest > limit:
        notes.append(f"context {longest} is beyond the model's own maximum of {limit} tokens")
    if max_model_len is not None and longest > max_model_len:
        notes.append(
            f"context {longest} is beyond max_model_len {max_model_len}: the engine would turn "
            "such a request away"
        )
    return context or contexts[0], tuple(notes)


def engine_length(request: EngineRequest) -> int | None:
    """`max_model_len`, where an engine heeds it."""
    return None if request.engine == "formula" else request.max_model_len


def model_ref(model: ResolvedModel) -> ModelRef:
    """The model as every answer repeats it."""
    return ModelRef(
        id=model.id,
        revision=model.revision,
        architecture=model.shape.architecture,
        model_type=model.shape.model_type,
        source=model.source,
        stale=model.stale,
    )


def gpu_ref(gpu: Gpu | None) -> GpuRef | None:
    """The GPU as every answer repeats it."""
    if gpu is None:
        return None
    return GpuRef(
        id=gpu.id,
        name=gpu.name,
        memory_bytes=gpu.memory_bytes or None,
        memory_bandwidth_bytes_per_s=gpu.memory_bandwidth_bytes_per_s,
    )
