"""Weight bytes: of the whole model, of one GPU, and of what one decode step reads."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import ceil, prod

from app.core.inventory import Part, Split, Weight
from app.core.model import ModelShape
from app.core.precision import Precision

ENCODERS = frozenset({Part.VISION, Part.AUDIO, Part.PROJECTOR})
"""Parts that work in prefill only."""
_OUTSIDE_DECODING = ENCODERS | {Part.MTP}

STORED_TIED_HEAD = "stored_tied_head"
"""Trait of a family whose checkpoints hold the head although it is tied to the embedding."""

Bytes = int | Fraction
"""A size in bytes; a fraction only where packed elements leave part of a byte."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Stored:
    """Copies of a weight that are stored alike.

    Attributes:
        layers: Their layers, or None for what stands outside the layers.
        experts: How many of them there are in each.
        size: Bytes of one copy, scales and zero points included, without its bias.
        bias: Bytes of one copy's bias.
        format: What they are stored as: a precision's name, or `fp8`, `int4`, `nvfp4`, ...
    """

    layers: tuple[int, ...] | None
    experts: int
    size: Bytes
    bias: Bytes
    format: str

    @property
    def copies(self) -> int:
        """Copies in all layers."""
        return self.experts if self.layers is None else self.experts * len(self.layers)

    @property
    def total(self) -> Bytes:
        """Bytes of all copies."""
        return (self.size + self.bias) * self.copies


StoredBytes = Callable[[Weight], tuple[Stored, ...]]
"""How a checkpoint stores a weight: all its copies, those that are stored alike together."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sharding:
    """How weights are spread over GPUs.

    `expert_parallel_size` is the number of ranks over which whole experts are dealt out; 1 means
    that experts are split like any other matrix. `expert_tensor_parallel_size` are the ranks that
    then share each expert. Engines pad the vocabulary to a multiple before
    they split it: `vocab_multiple` (1 for none).
    """

    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    expert_parallel_size: int = 1
    expert_tensor_parallel_size: int = 1
    vocab_multiple: int = 1


def weights_at_precision(parameters: int, precision: Precision) -> int:
    """Parameters x bytes an element: every parameter in that format, rounded up to a byte."""
    return ceil(parameters * precision.bytes_per_element)


def uniform_storage(precision: Precision) -> StoredBytes:
    """Every weight in one precision, but those that have one of their own (fp32 biases)."""

    def stored(weight: Weight) -> tuple[Stored, ...]:
        return (plainly_stored(weight, precision),)

    return stored


def plainly_stored(weight: Weight, precision: Precision) -> Stored:
    """All copies of a weight in one precision, or in that which the weight has of its own."""
    kept = weight.dtype or precision
    return Stored(
        layers=weight.layers,
        experts=weight.experts,
        size=bytes_of(prod(weight.shape), kept),
        bias=bytes_of(weight.bias, kept) if weight.bias else 0,
        format=kept.name,
    )


def bytes_of(elements: int, precision: Precision) -> Bytes:
    """Bytes of so many elements, exactly."""
    size = elements * precision.bits.numerator
    unit = 8 * precision.bits.denominator
    return Fraction(size, unit) if size % unit else size // unit


def checkpoint_bytes(model: ModelShape, stored: StoredBytes) -> int:
    """Bytes of the published tensors, multi-token-prediction modules included."""
    tied = STORED_TIED_HEAD in model.traits and model.tie_word_embeddings
    whole = inventory_bytes(model, stored)
    return whole + (tied_head_bytes(model, stored) if tied else 0)


def inventory_bytes(model: ModelShape, stored: StoredBytes) -> int:
    """Bytes of every weight of the model once, multi-token-prediction modules included."""
    return _sum(model.weights, stored)


def tied_head_bytes(model: ModelShape, stored: StoredBytes) -> int:
    """Bytes of the head where it is tied and a checkpoint stores it all the same."""
    return _sum((w for w in model.weights if w.part is Part.EMBEDDING), stored)


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
    total: Bytes = 0
    for weight in model.weights:
        if weight.part is Part.MTP:
            continue
        for run in stored(weight):
            copies = _copies_on_stage(weight, run, layers, model)
            if copies:
                total += _gpu_share(weight, run, sharding) * copies
    return ceil(total)


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """What one GPU holds of a weight: `size` bytes (all its experts of a layer) in each of `count`
    layers; `layers` are those of the model that are stored alike.
    """

    weight: Weight
    size: Bytes
    count: int
    layers: tuple[int, ...] | None
    format: str


def gpu_shares(
    model: ModelShape,
    stored: StoredBytes,
    sharding: Sharding,
    layers: range | None = None,
    *,
    whole: Callable[[Weight], bool] = lambda _: False,
    drafting: bool = False,
) -> Iterator[Share]:
    """The weights on one GPU of a pipeline stage, one entry for copies that are alike.

    `whole` names weights that are not divided whatever they say (towers that every rank runs);
    prediction modules count under `drafting`, on the last stage.
    """
    undivided = replace(sharding, tensor_parallel_size=1)
    for weight in model.weights:
        own = undivided if whole(weight) else sharding
        for run in stored(weight):
            if weight.part is Part.MTP:
                last = layers is None or layers.stop >= model.num_hidden_layers
                copies = run.copies if drafting and last else 0
            else:
                copies = _copies_on_stage(weight, run, layers, model)
            if copies:
                yield Share(
                    weight=weight,
                    size=_gpu_share(weight, run, own) * run.experts,
                    count=copies // run.experts,
                    layers=run.layers,
                    format=run.format,
                )


def expected_experts_touched(num_experts: int, top_k: int, batch: int) -> Fraction:
    """Distinct experts of one layer that a batch reads in one step: E (1 - (1 - k/E)^B).

    Expectation under uniform, independent routing; k of E for one token, all E for many.
    """
    if top_k >= num_experts or batch <= 0:
        return Fraction(num_experts if batch > 0 else 0)
    untouched = (1 - top_k / num_experts) ** batch
    return Fraction(num_experts) * (1 - Fraction(untouched))


@dataclass(frozen=True, kw_only=True)
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

    @cached_property
    def all_bytes(self) -> int:
        """Bytes of a step that touches every expert."""
        return self.always_bytes + ceil(
            sum((size * experts for size, experts, _ in self.routed), Fraction(0))
        )

    def rescaled(self, total_bytes: int) -> "StepWeights":
        """The same mix at another total, rounded to whole bytes."""
        if not self.routed:
            return StepWeights(always_bytes=total_bytes)
        return self.times(Fraction(total_bytes, max(1, self.all_bytes)))

    def times(self, factor: Fraction | int) -> "StepWeights":
        """Everything `factor` times, rounded to whole bytes."""
        return StepWeights(
            always_bytes=round(self.always_bytes * factor),
            routed=tuple((size * factor, experts, k) for size, experts, k in self.routed),
        )


def step_weights(model: ModelShape, stored: StoredBytes, sharding: Sharding) -> StepWeights:
    """What a decode step reads of the weights on one GPU.

    Encoders and projectors of other modalities work in prefill only and are left out. The
    embedding table is counted in full, as formula (6) does.
    """
    always: Bytes = 0
    routed: dict[tuple[int, int], Bytes] = {}
    for weight in model.weights:
        if weight.part in _OUTSIDE_DECODING:
            continue
        size: Bytes = 0
        for run in stored(weight):
            size += _gpu_share(weight, run, sharding) * run.copies
        if weight.experts > 1:
            key = (weight.experts, weight.active)
            routed[key] = routed.get(key, 0) + size
        else:
            always += size
    per_stage = sharding.pipeline_parallel_size
    return StepWeights(
        always_bytes=ceil(Fraction(always) / per_stage),
        routed=tuple(
            (Fraction(size) / (per_stage * experts), experts, k)
            for (experts, k), size in routed.items()
        ),
    )


def _sum(weights: Iterable[Weight], stored: StoredBytes) -> int:
    return ceil(sum((run.total for weight in weights for run in stored(weight)), 0))


def _gpu_share(weight: Weight, run: Stored, sharding: Sharding) -> Bytes:
    """Bytes of one copy that one GPU holds, on average over the copies where they are dealt out."""
    whole = run.size + run.bias
    ep = sharding.expert_parallel_size
    if weight.experts > 1 and ep > 1:
        dealt = -(-weight.experts // ep)
        return _part(whole * dealt, weight.experts * sharding.expert_tensor_parallel_size)
    if weight.split is Split.VOCAB:
        whole = _padded(weight, whole, sharding.vocab_multiple)
    tp = sharding.tensor_parallel_size
    if tp == 1 or weight.split is Split.REPLICATED:
        return whole
    if weight.split is Split.KV_HEADS:
        return _part(whole, min(tp, weight.kv_heads or tp))
    if weight.split is Split.ROW:
        return _part(run.size, tp) + run.bias
    return _part(whole, tp)


def _part(size: Bytes, parts: int) -> Bytes:
    """`size / parts`, a whole number where it is one."""
    return Fraction(size, parts) if size % parts else size // parts


def _padded(weight: Weight, size: Bytes, multiple: int) -> Bytes:
    rows = weight.shape[0]
    padded = -(-rows // multiple) * multiple
    return size if padded == rows else Fraction(size) * padded / rows


def _copies_on_stage(weight: Weight, run: Stored, layers: range | None, model: ModelShape) -> int:
    if layers is None:
        return run.copies
    first, last = layers.start == 0, layers.stop >= model.num_hidden_layers
    if weight.part in ENCODERS:
        return run.copies * first
    if run.layers is not None:
        inside = sum(layers.start <= index < layers.stop for index in run.layers)
        return inside * run.experts
    if weight.part is Part.EMBEDDING:
        return run.experts * (first or (last and model.tie_word_embeddings))
    if weight.part in (Part.HEAD, Part.NORM, Part.OTHER):
        return run.experts * last
    return run.experts * first
