"""What one replica puts on its GPUs: weights and cache of every pipeline stage."""

from dataclasses import dataclass

from app.core.cache import CacheLayout
from app.core.kv import KvProfile, merged, profile_of
from app.core.model import ModelShape
from app.core.parallel import pipeline_stages, split_evenly
from app.core.weights import Sharding, StoredBytes, gpu_weight_bytes, loaded_bytes
from app.errors import InputError


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """One GPU of a pipeline stage; the stage's GPUs are alike."""

    weight_bytes: int
    profile: KvProfile


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplicaLoad:
    """A model placed on the GPUs of one replica.

    `whole` is the cache as one GPU would hold it; `weight_bytes` the weights once.
    """

    weight_bytes: int
    whole: KvProfile
    stages: tuple[Stage, ...]
    tensor_parallel_size: int

    @property
    def gpus(self) -> int:
        """GPUs of the replica."""
        return self.tensor_parallel_size * len(self.stages)

    @property
    def gpu_weight_bytes(self) -> int:
        """Weights on all GPUs of the replica, replicated parts counted as often as they are."""
        return sum(stage.weight_bytes for stage in self.stages) * self.tensor_parallel_size

    def replica_bytes_per_sequence(self, context: int) -> int:
        """One sequence's cache on all GPUs of the replica, replicated heads included."""
        stages = sum(stage.profile.bytes_per_sequence(context) for stage in self.stages)
        return stages * self.tensor_parallel_size

    @property
    def replica_profile(self) -> KvProfile:
        """One sequence's cache on all GPUs of the replica, as terms in its length."""
        return merged(
            tuple(stage.profile for stage in self.stages), times=self.tensor_parallel_size
        )

    def fullest_stage(self, context: int) -> Stage:
        """The stage that needs most bytes for one sequence of this length."""
        return max(self.stages, key=lambda stage: stage.profile.bytes_per_sequence(context))


def replica_load(
    model: ModelShape,
    layout: CacheLayout,
    stored: StoredBytes,
    *,
    sharding: Sharding,
    decode_context_parallel_size: int = 1,
    weight_bytes: int | None = None,
) -> ReplicaLoad:
    """Place a model; `weight_bytes` (total) replaces the computed weights: split evenly, or in
    proportion to what was computed where whole experts are dealt out.

    Raises `InputError` on `tensor_parallel_size` or `pipeline_parallel_size` where the heads or
    the layers do not divide, on `decode_context_parallel_size` where it does not divide TP.
    """
    tp = sharding.tensor_parallel_size
    if model.num_attention_heads:
        split_evenly(model.num_attention_heads, tp, "num_attention_heads")
    if tp % decode_context_parallel_size:
        raise InputError.of(
            "decode_context_parallel_size",
            f"has to divide tensor_parallel_size ({tp}), whose ranks it shares",
            type="not_divisible",
        )
    pp = sharding.pipeline_parallel_size
    ranges: tuple[range | None, ...] = (None,)
    if pp > 1:
        ranges = pipeline_stages(model.num_hidden_layers, pp)
    loaded = loaded_bytes(model, stored)
    stages = tuple(
        Stage(
            weight_bytes=_stage_bytes(
                gpu_weight_bytes(model, stored, sharding, layers), loaded, weight_bytes, sharding
            ),
            profile=profile_of(
                model.groups,
                layout,
                layers=layers,
                context_shards=decode_context_parallel_size,
            ),
        )
        for layers in ranges
    )
    one_gpu = CacheLayout(
        attention_dtype=layout.attention_dtype,
        model_dtype=layout.model_dtype,
        num_speculative_tokens=layout.num_speculative_tokens,
    )
    return ReplicaLoad(
        weight_bytes=loaded if weight_bytes is None else weight_bytes,
        whole=profile_of(model.groups, one_gpu),
        stages=stages,
        tensor_parallel_size=tp,
    )


def _stage_bytes(computed: int, loaded: int, given: int | None, sharding: Sharding) -> int:
    if given is None:
        return computed
    if sharding.expert_parallel_size > 1:
        return -(-computed * given // max(1, loaded))
    return -(-given // (sharding.tensor_parallel_size * sharding.pipeline_parallel_size))
