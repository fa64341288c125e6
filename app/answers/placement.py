"""A model placed on the GPUs of one replica: precisions, sharding, what each of them holds.

A placement depends on nothing but the model and a few fields of the request, and most questions
differ in others: lengths, batches, the GPU, an engine's arguments. So placements are kept, and
what is derived from one is derived once.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

from app.answers.remembering import remembering
from app.answers.rows import (
    layer_rows,
    model_ref,
    parameter_counts,
    segments,
    weight_bytes_by_dtype,
)
from app.core.cache import CacheLayout
from app.core.cache_precision import cache_precision
from app.core.kv import KvProfile
from app.core.load import ReplicaLoad, replica_load
from app.core.model import ModelShape
from app.core.precision import BFLOAT16, FLOAT16, FLOAT32, Precision, precision
from app.core.weights import Sharding, StepWeights, StoredBytes, loaded_bytes, step_weights
from app.resolve.model import ResolvedModel
from app.resolve.quantization.loading import weight_storage
from app.schemas.answer import ModelRef
from app.schemas.kv import KvSegment, LayerRow, Parameters


class Placing(NamedTuple):
    """What a request says of how a model is placed: its own fields, by their names."""

    dtype: str | None
    quantization: str | None
    weight_bytes: int | None
    kv_cache_dtype: str
    tensor_parallel_size: int
    pipeline_parallel_size: int
    decode_context_parallel_size: int


class ExpertRanks(NamedTuple):
    """Ranks that whole experts are dealt out over, and ranks that share each of them."""

    dealt_over: int
    sharing: int


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


def place(model: ResolvedModel, placing: Placing, experts: ExpertRanks) -> Placement:
    """Place a model.

    Raises:
        InputError: on a precision or a parallel size that can't be.
    """
    return _placed(model)(model, placing, experts)


def _place(model: ResolvedModel, placing: Placing, experts: ExpertRanks) -> Placement:
    shape = model.shape
    computed = _computed_in(placing.dtype, shape)
    sharding = Sharding(
        tensor_parallel_size=placing.tensor_parallel_size,
        pipeline_parallel_size=placing.pipeline_parallel_size,
        expert_parallel_size=experts.dealt_over,
        expert_tensor_parallel_size=experts.sharing,
    )
    layout = CacheLayout(
        tensor_parallel_size=placing.tensor_parallel_size,
        attention_dtype=cache_precision(placing.kv_cache_dtype, shape, computed),
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


_placed = remembering(_place)


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
