"""A model placed on the GPUs of one replica: precisions, sharding, what each of them holds.

A placement depends on nothing but the model and a few fields of the request, and most questions
differ in others: lengths, batches, the GPU, an engine's arguments. So placements are kept, and
what is derived from one is derived once.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import NamedTuple

from app.answers.rows import (
    layer_rows,
    model_ref,
    parameter_counts,
    segments,
    weight_bytes_by_dtype,
)
from app.core.cache import CacheLayout, MlaLatent
from app.core.engines.vllm_cache_dtype import checkpoint_cache_dtype
from app.core.kv import KvProfile
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
from app.resolve.model import ResolvedModel
from app.resolve.quantization.loading import weight_storage
from app.schemas.answer import ModelRef
from app.schemas.kv import KvSegment, LayerRow, Parameters

KEPT = 512


class Placing(NamedTuple):
    """What a request says of how a model is placed."""

    dtype: str | None
    quantization: str | None
    weight_bytes: int | None
    kv_cache_dtype: str
    tensor_parallel_size: int
    pipeline_parallel_size: int
    decode_context_parallel_size: int
    expert_parallel_size: int
    expert_tensor_parallel_size: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Placement:
    """A model on the GPUs of one replica.

    Attributes:
        model: The resolved model.
        weight_bytes: Total weight bytes, where the caller states them.
        layout: Cache precision and tensor parallelism.
        sharding: How weights are spread.
        stored: Bytes of a weight as it is loaded.
        load: Weights and cache on each stage's GPU.
        assumptions: What model, precision and quantisation take for granted.
    """

    model: ResolvedModel
    weight_bytes: int | None
    layout: CacheLayout
    sharding: Sharding
    stored: StoredBytes
    load: ReplicaLoad
    assumptions: tuple[str, ...]

    @property
    def shape(self) -> ModelShape:
        """The model's shape."""
        return self.model.shape

    @cached_property
    def gpu_step_weights(self) -> StepWeights:
        """What a decode step reads on one GPU; a caller's `weight_bytes` rescales the mix."""
        given = self.weight_bytes
        weights = step_weights(self.shape, self.stored, self.sharding)
        if given is None:
            return weights
        if self.sharding.expert_parallel_size > 1:
            loaded = loaded_bytes(self.shape, self.stored)
            return weights.times(Fraction(given, max(1, loaded)))
        return weights.rescaled(-(-given // self.load.gpus))

    @cached_property
    def step_weights(self) -> StepWeights:
        """What it reads on all GPUs of the replica, parts that ranks repeat as often as read."""
        given, gpus = self.weight_bytes, self.load.gpus
        if given is not None and gpus > 1 and self.sharding.expert_parallel_size == 1:
            return self.gpu_step_weights.rescaled(given)
        return self.gpu_step_weights if gpus == 1 else self.gpu_step_weights.times(gpus)

    @cached_property
    def replica_profile(self) -> KvProfile:
        """One sequence's cache on all GPUs of the replica, as terms in its length."""
        return self.load.replica_profile

    @cached_property
    def model_ref(self) -> ModelRef:
        """The model as every answer repeats it."""
        return model_ref(self.model)

    @cached_property
    def parameters(self) -> Parameters:
        """Parameters in total, active, and by part."""
        return parameter_counts(self.shape)

    @cached_property
    def weight_bytes_by_dtype(self) -> dict[str, int]:
        """Every parameter at each precision."""
        return weight_bytes_by_dtype(self.shape.parameters.total)

    @cached_property
    def layers(self) -> list[LayerRow]:
        """One row a kind of part, like parts of all layers together."""
        return layer_rows(self.shape, self.layout)

    @cached_property
    def segments(self) -> list[KvSegment]:
        """The cache of one sequence as straight lines in its length."""
        return segments(self.load.whole)


def place(model: ResolvedModel, placing: Placing) -> Placement:
    """Place a model.

    Raises:
        InputError: on a precision or a parallel size that can't be.
    """
    # Inline configs are new models each time: to keep them would only push others out.
    return (_kept if model.id is not None else _place)(model, placing)


def _place(model: ResolvedModel, placing: Placing) -> Placement:
    shape = model.shape
    computed = _computed_in(placing.dtype, shape)
    sharding = Sharding(
        tensor_parallel_size=placing.tensor_parallel_size,
        pipeline_parallel_size=placing.pipeline_parallel_size,
        expert_parallel_size=placing.expert_parallel_size,
        expert_tensor_parallel_size=placing.expert_tensor_parallel_size,
    )
    layout = CacheLayout(
        tensor_parallel_size=placing.tensor_parallel_size,
        attention_dtype=attention_precision(placing.kv_cache_dtype, shape, computed),
        model_dtype=computed,
    )
    stored, notes = weight_storage(
        shape,
        checkpoint_bytes=model.checkpoint_bytes,
        total_given=placing.weight_bytes is not None,
        dtype=placing.dtype,
        quantization=placing.quantization,
    )
    load = replica_load(
        shape,
        layout,
        stored,
        sharding=sharding,
        decode_context_parallel_size=placing.decode_context_parallel_size,
        weight_bytes=placing.weight_bytes,
    )
    return Placement(
        model=model,
        weight_bytes=placing.weight_bytes,
        layout=layout,
        sharding=sharding,
        stored=stored,
        load=load,
        assumptions=(*model.assumptions, *shape.assumptions, *notes, *_keeps_nothing(load)),
    )


_kept = lru_cache(maxsize=KEPT)(_place)


def _keeps_nothing(load: ReplicaLoad) -> tuple[str, ...]:
    """A zero is never left to be wondered at."""
    if load.whole.terms or load.whole.fixed_bytes:
        return ()
    return ("no layer of this model keeps anything between tokens: it encodes, it does not decode",)


def _computed_in(dtype: str | None, shape: ModelShape) -> Precision:
    """What the model computes in: `dtype` where it names a float of 16 bits or more."""
    if dtype is None or dtype == "auto":
        return shape.dtype
    named = precision(dtype)
    return named if named in (FLOAT32, BFLOAT16, FLOAT16) else shape.dtype


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
