"""Weight bytes: of the whole model, of one GPU, and of what one decode step reads."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, prod

from app.core.inventory import Part, Split, Weight
from app.core.model import ModelShape
from app.core.precision import Precision

StoredBytes = Callable[[Weight], Fraction]
"""Bytes of one copy of a weight as the checkpoint stores it, scales and zero points included."""

_OUTSIDE_DECODING = frozenset({Part.VISION, Part.AUDIO, Part.PROJECTOR, Part.MTP})


@dataclass(frozen=True, kw_only=True, slots=True)
class Sharding:
    """How weights are spread over GPUs.

    `expert_parallel_size` is the number of ranks over which whole experts are dealt out; 1 means
    that experts are split like any other matrix.
    """

    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    expert_parallel_size: int = 1


def weights_at_precision(parameters: int, precision: Precision) -> int:
    """Parameters x bytes an element: every parameter in that format, rounded up to a byte."""
    return ceil(parameters * precision.bytes_per_element)


def uniform_storage(precision: Precision) -> StoredBytes:
    """Every weight in one precision, but those that have one of their own (fp32 biases)."""

    def stored(weight: Weight) -> Fraction:
        return weight.elements * (weight.dtype or precision).bytes_per_element

    return stored


def checkpoint_bytes(model: ModelShape, stored: StoredBytes) -> int:
    """Bytes of the published tensors, multi-token-prediction modules included."""
    return _sum(model.weights, stored)


def loaded_bytes(model: ModelShape, stored: StoredBytes) -> int:
    """Bytes a server without speculation loads: the checkpoint without its MTP modules."""
    return _sum((w for w in model.weights if w.part is not Part.MTP), stored)


def gpu_weight_bytes(
    model: ModelShape, stored: StoredBytes, sharding: Sharding, layers: range | None = None
) -> int:
    """Bytes of the weights on one GPU of a pipeline stage (`layers`; None for all).

    Matrices are split by `Weight.split`, KV projections replicated beyond their heads, norms and
    routers kept whole; the embedding stands on the first stage, the head on the last.
    """
    total = Fraction(0)
    for weight in model.weights:
        if weight.part is Part.MTP:
            continue
        copies = _copies_on_stage(weight, layers, model)
        if copies:
            total += stored(weight) * copies * _share(weight, sharding) * weight.experts
    return ceil(total)


def expected_experts_touched(num_experts: int, top_k: int, batch: int) -> Fraction:
    """Distinct experts of one layer that a batch reads in one step: E (1 - (1 - k/E)^B).

    Expectation under uniform, independent routing; k of E for one token, all E for many.
    """
    if top_k >= num_experts or batch <= 0:
        return Fraction(num_experts if batch > 0 else 0)
    untouched = (1 - top_k / num_experts) ** batch
    return Fraction(num_experts) * (1 - Fraction(untouched))


@dataclass(frozen=True, kw_only=True, slots=True)
class StepWeights:
    """Weight bytes that one decode step reads, as a function of the batch.

    `always_bytes` are read in every step; each entry of `routed` is (bytes of one expert in all
    its layers, experts a layer, experts a token), of which a step reads the touched ones.
    """

    always_bytes: int
    routed: tuple[tuple[Fraction, int, int], ...] = ()

    def bytes_for(self, batch: int) -> int:
        """Expected bytes of one step with `batch` sequences, rounded up."""
        if not self.routed:
            return self.always_bytes
        touched = sum(
            (
                per_expert * expected_experts_touched(num_experts, top_k, batch)
                for per_expert, num_experts, top_k in self.routed
            ),
            Fraction(0),
        )
        return self.always_bytes + ceil(touched)

    @property
    def all_bytes(self) -> int:
        """Bytes of a step that touches every expert."""
        return self.always_bytes + ceil(
            sum((size * experts for size, experts, _ in self.routed), Fraction(0))
        )

    def rescaled(self, total_bytes: int) -> "StepWeights":
        """The same mix at another total, rounded to whole bytes."""
        factor = Fraction(total_bytes, self.all_bytes) if self.all_bytes else Fraction(0)
        if not self.routed:
            return StepWeights(always_bytes=total_bytes)
        return StepWeights(
            always_bytes=round(self.always_bytes * factor),
            routed=tuple((size * factor, experts, k) for size, experts, k in self.routed),
        )


def step_weights(model: ModelShape, stored: StoredBytes, sharding: Sharding) -> StepWeights:
    """What a decode step reads of the weights on one GPU.

    Encoders and projectors of other modalities work in prefill only and are left out. The
    embedding table is counted in full, as formula (6) does.
    """
    always = Fraction(0)
    routed: dict[tuple[int, int], Fraction] = {}
    for weight in model.weights:
        if weight.part in _OUTSIDE_DECODING:
            continue
        size = stored(weight) * weight.occurrences * _share(weight, sharding)
        if weight.experts > 1:
            key = (weight.experts, weight.active)
            routed[key] = routed.get(key, Fraction(0)) + size
        else:
            always += size
    per_stage = sharding.pipeline_parallel_size
    return StepWeights(
        always_bytes=ceil(always / per_stage),
        routed=tuple((size / per_stage, experts, k) for (experts, k), size in routed.items()),
    )


def _sum(weights: Iterable[Weight], stored: StoredBytes) -> int:
    sizes = (stored(weight) * weight.occurrences * weight.experts for weight in weights)
    return ceil(sum(sizes, Fraction(0)))


def _share(weight: Weight, sharding: Sharding) -> Fraction:
    """The part of one copy that one GPU holds."""
    if weight.experts > 1 and sharding.expert_parallel_size > 1:
        dealt = ceil(weight.experts / sharding.expert_parallel_size)
        return Fraction(dealt, weight.experts)
    tp = sharding.tensor_parallel_size
    if tp == 1 or weight.split is Split.REPLICATED:
        return Fraction(1)
    if weight.split is Split.KV_HEADS:
        return Fraction(1, min(tp, weight.kv_heads or tp))
    if weight.split is Split.ROW and weight.bias:
        matrix = prod(weight.shape)
        return Fraction(matrix + weight.bias * tp, weight.elements * tp)
    return Fraction(1, tp)


def _copies_on_stage(weight: Weight, layers: range | None, model: ModelShape) -> int:
    if layers is None:
        return weight.occurrences
    if weight.layers is not None:
        return sum(index in layers for index in weight.layers)
    first, last = layers.start == 0, layers.stop >= model.num_hidden_layers
    if weight.part is Part.EMBEDDING:
        return int(first or (last and model.tie_word_embeddings))
    if weight.part in (Part.HEAD, Part.NORM, Part.OTHER):
        return int(last)
    return int(first)
