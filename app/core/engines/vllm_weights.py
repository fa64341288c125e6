"""What vLLM's "Model loading took" counts: the weights of one GPU as its allocator holds them.

Fused parameters, the padded vocabulary, tables of rotary positions, the copies that latent
attention makes of its up-projection, adapters' slots. Confirmed on the startup logs in
`tests/truth`; the rules by version stand in `vllm_rules`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, prod

from app.core.engines.budgets import MIB
from app.core.engines.vllm_facts import UNDIVIDED_TOWERS
from app.core.engines.vllm_rules import VllmRules
from app.core.hardware import Gpu
from app.core.inventory import Part, Split, Weight
from app.core.model import ModelShape
from app.core.weights import ENCODERS, Sharding, Share, StoredBytes, gpu_shares

LARGE = 10 * MIB
"""Requests from here on get segments of their own, rounded up to `SEGMENT`."""
SEGMENT = 2 * MIB
UNSPLIT = MIB
"""A rest of a segment up to this size stays with its block (CUDACachingAllocator)."""
VOCAB_MULTIPLE = 64
WHOLE_TOWERS = UNDIVIDED_TOWERS | {"mistral3", "pixtral"}
"""Model types whose vision towers every rank loads whole."""
MERGED = {
    "in_proj_qkv": "in_proj_qkvz",
    "in_proj_z": "in_proj_qkvz",
    "in_proj_b": "in_proj_ba",
    "in_proj_a": "in_proj_ba",
}
"""What the engine merges beside the usual projections: gated delta nets' inputs."""
ADAPTER_BYTES = 2
HOPPER = 9
BLACKWELL = (10,)
FP32_BYTES = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Adapters:
    """Slots for LoRA adapters: `max_loras` of rank `rank` at every linear layer."""

    max_loras: int
    rank: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Padding:
    """What a kernel for MXFP4 experts rounds its matrices up to: the hidden width, a rank's share
    of the expert's width, and packed columns once more when they are interleaved.
    """

    hidden: int = 1
    inside: int = 1
    columns: int = 1
    extra: int = 0

    def applied(self, weight: Weight, size: Fraction | int, tensor_parallel_size: int) -> Fraction:
        """Bytes of a rank's experts of one layer, of which `size` are without padding."""
        out, into = weight.shape
        row = weight.split is Split.ROW
        own = (into if row else out) // tensor_parallel_size
        hidden = out if row else into
        wide, inner = _up(hidden, self.hidden), _up(own, self.inside)
        rows, columns = (wide, inner) if row else (inner, wide)
        columns = _up(columns, self.columns)
        return Fraction(size) * rows * columns / (own * hidden) + self.extra


HIDDEN_ONLY = Padding(hidden=256)
MARLIN = Padding(hidden=256, inside=128)
TRTLLM = Padding(hidden=256, inside=256)
INTERLEAVED = Padding(hidden=256, inside=64, columns=128, extra=2 * MIB // 3)
"""Triton's layout for Hopper; `extra` is fitted: 2 MiB a layer."""


def mxfp4_padding(rules: VllmRules, gpu: Gpu) -> Padding:
    """By the kernel the engine picks (`fused_moe/oracle/mxfp4.py`)."""
    if gpu.vendor == "AMD":
        return TRTLLM
    major = (gpu.compute_capability or (9, 0))[0]
    if major == HOPPER:
        return INTERLEAVED if rules.interleaves_experts else HIDDEN_ONLY
    return TRTLLM if major in BLACKWELL else MARLIN


def _up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


def allocated(size: int) -> int:
    """Bytes that torch's allocator counts for a request of `size`.

    A large request whose segment would leave at most 1 MiB keeps the whole segment.
    """
    if size < LARGE:
        return -(-size // 512) * 512
    segment = -(-size // SEGMENT) * SEGMENT
    return segment if segment - size <= UNSPLIT else size


def vllm_weight_bytes(
    shape: ModelShape,
    stored: StoredBytes,
    sharding: Sharding,
    layers: range | None = None,
    *,
    drafting: bool = False,
    adapters: Adapters | None = None,
    rules: VllmRules,
    gpu: Gpu,
) -> int:
    """Bytes of weights on one GPU of a pipeline stage (`layers`; None for all of them)."""
    padded = replace(sharding, vocab_multiple=VOCAB_MULTIPLE)
    shares = list(
        gpu_shares(shape, stored, padded, layers, whole=_runs_whole(shape), drafting=drafting)
    )
    pad = mxfp4_padding(rules, gpu)
    total = sum(
        allocated(size) * count
        for size, count in _parameters(shares, pad, sharding.tensor_parallel_size)
    )
    total += sum(size * count for size, count in _latent_copies(shape, layers))
    if adapters is not None:
        total += _adapter_bytes(shares, sharding, adapters)
    return total + sum(
        allocated(table.rows * table.width * (FP32_BYTES if table.fp32 else _item(shape)))
        for table in shape.rotary_tables
    )


def _item(shape: ModelShape) -> int:
    return ceil(shape.dtype.bytes_per_element)


def _runs_whole(shape: ModelShape) -> Callable[[Weight], bool]:
    towers = shape.model_type in WHOLE_TOWERS

    def whole(weight: Weight) -> bool:
        return weight.part is Part.AUDIO or (towers and weight.part in ENCODERS)

    return whole


def _parameters(
    shares: list[Share], pad: Padding, tensor_parallel_size: int
) -> Iterator[tuple[int, int]]:
    """(bytes, how many) of the engine's parameters, those it merges together."""
    merged: dict[tuple[str, tuple[int, ...] | None, int], Fraction | int] = {}
    for share in shares:
        weight = share.weight
        size = share.size
        if share.format == "mxfp4" and weight.experts > 1:
            size = pad.applied(weight, size, tensor_parallel_size)
        merged_into = weight.fused or MERGED.get(weight.name.rpartition(".")[2])
        if merged_into is None:
            yield ceil(size), share.count
            continue
        key = (weight.name.rpartition(".")[0] + merged_into, share.layers, share.count)
        merged[key] = merged.get(key, 0) + size
    for (_, _, count), size in merged.items():
        yield ceil(size), count


def _latent_copies(shape: ModelShape, layers: range | None) -> Iterator[tuple[int, int]]:
    """Latent attention keeps its up-projection once more, absorbed into queries and outputs
    (`W_UK_T`, `W_UV`), in the model's precision and, as the logs show, undivided.
    """
    for weight in shape.weights:
        if weight.part is Part.ATTENTION and weight.name.endswith(".kv_b_proj"):
            inside = weight.layers or ()
            if layers is not None:
                inside = tuple(index for index in inside if index in layers)
            yield prod(weight.shape) * _item(shape), len(inside)


def _adapter_bytes(shares: list[Share], sharding: Sharding, adapters: Adapters) -> int:
    """Both factors of every adapter slot: the divided side of a layer is divided here too."""
    tp = sharding.tensor_parallel_size
    total = 0
    for share in shares:
        weight = share.weight
        if not weight.linear or weight.part in ENCODERS or weight.part is Part.MTP:
            continue
        down, up = weight.shape[-1], prod(weight.shape[:-1])
        if weight.split is Split.ROW:
            down //= tp
        elif weight.split is Split.KV_HEADS:
            up //= min(tp, weight.kv_heads or tp)
        elif weight.split is not Split.REPLICATED:
            up //= tp
        total += (down + up) * adapters.rank * share.count * weight.experts
    return total * adapters.max_loras * ADAPTER_BYTES
