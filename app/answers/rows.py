"""What answers show of a model, a GPU and a cache, as rows of their schemas."""

from fractions import Fraction

from app.answers.steps import number
from app.core.cache import CacheLayout, CachePart, FullAttention, MlaLatent
from app.core.hardware import Gpu
from app.core.inventory import Part
from app.core.kv import KvProfile
from app.core.model import ModelShape
from app.core.precision import BFLOAT16, FLOAT32, FP8_E4M3, INT4, INT8, MXFP4, NVFP4
from app.core.weights import weights_at_precision
from app.resolve.model import ResolvedModel
from app.schemas.answer import GpuRef, ModelRef
from app.schemas.kv import KvSegment, LayerRow, Parameters

_AT_PRECISIONS = (FLOAT32, BFLOAT16, FP8_E4M3, INT8, INT4, NVFP4, MXFP4)
_PRECISION_NAMES = {FP8_E4M3.name: "fp8"}


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


def parameter_counts(shape: ModelShape) -> Parameters:
    """Parameters in total, active, and by part."""
    counted = shape.parameters
    return Parameters(
        total=counted.total,
        active=counted.active,
        embedding=counted.by_part.get(Part.EMBEDDING, 0),
        by_part={part.value: count for part, count in counted.by_part.items()},
    )


def weight_bytes_by_dtype(parameters: int) -> dict[str, int]:
    """Every parameter at each precision; real quantised checkpoints leave some parts wider."""
    return {
        _PRECISION_NAMES.get(dtype.name, dtype.name): weights_at_precision(parameters, dtype)
        for dtype in _AT_PRECISIONS
    }


def layer_rows(shape: ModelShape, layout: CacheLayout) -> list[LayerRow]:
    """One row a kind of part, like parts of all layers together, of the whole model."""
    whole = one_gpu(layout)
    counts: dict[CachePart, int] = {}
    empty = 0
    for group in shape.groups:
        empty += 0 if group.parts else group.count
        for part in group.parts:
            counts[part] = counts.get(part, 0) + group.count
    rows = [_row(part, count, whole) for part, count in counts.items()]
    if empty:
        rows.append(LayerRow(kind="none", layers=empty, bytes_per_token=0, fixed_bytes=0))
    return rows


def _row(part: CachePart, layers: int, layout: CacheLayout) -> LayerRow:
    # What never grows (an encoder's keys) has its bytes under `fixed_bytes` alone.
    grown = Fraction(0 if part.limit == 0 else part.bytes_per_token(layout), part.stride)
    row = LayerRow(
        kind=part.kind,
        layers=layers,
        bytes_per_token=number(grown),
        fixed_bytes=part.fixed_bytes(layout),
        window=part.limit or None,
    )
    if isinstance(part, FullAttention):
        row.kv_heads = part.num_key_value_heads
        row.head_dim = part.head_dim
        row.v_head_dim = part.v_head_dim
    elif isinstance(part, MlaLatent):
        row.kv_heads, row.head_dim = 1, part.kv_lora_rank + part.qk_rope_head_dim
    return row


def segments(profile: KvProfile) -> list[KvSegment]:
    """A cache as straight lines in the length of its sequence."""
    return [
        KvSegment(
            from_context=segment.from_context,
            fixed_bytes=segment.fixed_bytes,
            bytes_per_token=number(segment.bytes_per_token),
        )
        for segment in profile.segments
    ]


def one_gpu(layout: CacheLayout) -> CacheLayout:
    """The same cache, not split."""
    return CacheLayout(attention_dtype=layout.attention_dtype, model_dtype=layout.model_dtype)
