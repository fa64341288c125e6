"""The weights of DeepSeek-V4, by the names of its own checkpoints."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.core.inventory import Part, Split, Weight
from app.core.precision import FLOAT32, Precision
from app.resolve.architectures.blocks_moe import Moe, as_mtp, correction
from app.resolve.architectures.common_shape import Dims
from app.resolve.architectures.common_weights import linear, norms, vector, vocabulary
from app.resolve.architectures.llama_like import mixture

INDEXED_RATIO = 4
EXPERT_NAMES = ("w1", "w3", "w2")


@dataclass(frozen=True, kw_only=True, slots=True)
class Sizes:
    """What the common sizes of a decoder leave out; `streams` are those of hyper-connections,
    `hashed` the layers that look their experts up, `ratios` the tokens an entry in each layer.
    """

    head_dim: int
    rope: int
    window: int
    q_rank: int
    o_groups: int
    o_rank: int
    index_heads: int
    index_dim: int
    streams: int
    hashed: int
    ratios: tuple[int, ...]
    moe: Moe
    expert_dtype: Precision | None


def v4_weights(prefix: str, dims: Dims, sizes: Sizes, modules: Sequence[int]) -> list[Weight]:
    """Every weight; `modules` are the prediction modules."""
    at = prefix + "layers.{layer}"
    layers = dims.all_layers
    layer = v4_layer(at, dims, sizes, layers)
    return [
        *vocabulary(dims, prefix=prefix, embed="embed", head="head"),
        *layer,
        *_compressors(at, dims, sizes),
        *_routing(at, dims, sizes, layers),
        vector(prefix + "norm", dims.hidden),
        *_head_streams(prefix, dims, sizes, None),
        *_mtp(prefix, dims, sizes, len(modules), layer),
    ]


def v4_layer(at: str, dims: Dims, sizes: Sizes, layers: Sequence[int]) -> list[Weight]:
    """Attention, experts, norms and the residual streams' mixing of each layer."""
    attn = Part.ATTENTION
    width = dims.heads * sizes.head_dim
    low = sizes.o_groups * sizes.o_rank
    base = f"{at}.attn"
    mixed = [
        replace(weight, dtype=sizes.expert_dtype) if weight.part is Part.ROUTED_EXPERTS else weight
        for weight in mixture(
            at,
            dims.hidden,
            sizes.moe.width,
            layers,
            num_experts=sizes.moe.num_experts,
            top_k=sizes.moe.top_k,
            module="ffn",
            names=EXPERT_NAMES,
            shared_width=sizes.moe.shared_width,
        )
    ]
    return [
        vector(
            f"{base}.attn_sink",
            dims.heads,
            part=attn,
            layers=layers,
            split=Split.COLUMN,
            dtype=FLOAT32,
        ),
        linear(f"{base}.wq_a", sizes.q_rank, dims.hidden, part=attn, layers=layers),
        vector(f"{base}.q_norm", sizes.q_rank, layers=layers),
        linear(f"{base}.wq_b", width, sizes.q_rank, part=attn, layers=layers, split=Split.COLUMN),
        linear(f"{base}.wkv", sizes.head_dim, dims.hidden, part=attn, layers=layers),
        vector(f"{base}.kv_norm", sizes.head_dim, layers=layers),
        linear(
            f"{base}.wo_a",
            low,
            width // sizes.o_groups,
            part=attn,
            layers=layers,
            split=Split.COLUMN,
        ),
        linear(f"{base}.wo_b", dims.hidden, low, part=attn, layers=layers, split=Split.ROW),
        *mixed,
        *norms(at, dims.hidden, layers, "attn_norm", "ffn_norm"),
        *_streams(at, dims, sizes, layers, "hc_attn"),
        *_streams(at, dims, sizes, layers, "hc_ffn"),
    ]


def _streams(at: str, dims: Dims, sizes: Sizes, layers: Sequence[int], name: str) -> list[Weight]:
    """Hyper-connections (arXiv:2512.24880): n residual streams mixed by n x (2 + n) weights."""
    mixes = sizes.streams * (2 + sizes.streams)
    shapes = {"fn": (mixes, sizes.streams * dims.hidden), "base": (mixes,), "scale": (3,)}
    return [_plain(f"{at}.{name}_{key}", shape, layers) for key, shape in shapes.items()]


def _head_streams(at: str, dims: Dims, sizes: Sizes, layers: Sequence[int] | None) -> list[Weight]:
    shapes = {
        "fn": (sizes.streams, sizes.streams * dims.hidden),
        "base": (sizes.streams,),
        "scale": (1,),
    }
    return [_plain(f"{at}hc_head_{key}", shape, layers) for key, shape in shapes.items()]


def _plain(
    name: str,
    shape: tuple[int, ...],
    layers: Sequence[int] | None,
    part: Part = Part.OTHER,
    *,
    dtype: Precision | None = FLOAT32,
) -> Weight:
    where = None if layers is None else tuple(layers)
    return Weight(name=name, shape=shape, part=part, layers=where, dtype=dtype)


def _compressors(at: str, dims: Dims, sizes: Sizes) -> list[Weight]:
    """Compressors of the main caches, and the indexers of ratio-4 layers with theirs."""
    weights: list[Weight] = []
    for ratio in sorted(set(sizes.ratios)):
        layers = [index for index, value in enumerate(sizes.ratios) if value == ratio]
        if not ratio:
            continue
        base = f"{at}.attn.compressor"
        weights += _compressor(base, dims.hidden, sizes.head_dim, ratio, layers)
        if ratio != INDEXED_RATIO:
            continue
        base = f"{at}.attn.indexer"
        width = sizes.index_heads * sizes.index_dim
        heads = (sizes.index_heads, dims.hidden)
        attn = Part.ATTENTION
        weights += [
            linear(f"{base}.wq_b", width, sizes.q_rank, part=attn, layers=layers),
            _plain(f"{base}.weights_proj", heads, layers, attn, dtype=None),
            *_compressor(f"{base}.compressor", dims.hidden, sizes.index_dim, ratio, layers),
        ]
    return weights


def _compressor(
    base: str, hidden: int, head_dim: int, ratio: int, layers: Sequence[int]
) -> list[Weight]:
    width = head_dim * (2 if ratio == INDEXED_RATIO else 1)
    attn = Part.ATTENTION
    project = [
        _plain(f"{base}.{name}", (width, hidden), layers, attn, dtype=None)
        for name in ("wkv", "wgate")
    ]
    return [
        _plain(f"{base}.ape", (ratio, width), layers, attn),
        *project,
        vector(f"{base}.norm", head_dim, layers=layers),
    ]


def _routing(at: str, dims: Dims, sizes: Sizes, layers: Sequence[int]) -> list[Weight]:
    """Buffers: the first layers look experts up by token, the others correct the router."""
    hashed = sizes.hashed
    weights = correction(at, sizes.moe, layers[hashed:], name="ffn.gate.bias")
    if hashed:
        table = _plain(
            f"{at}.ffn.gate.tid2eid", (dims.vocab, sizes.moe.top_k), layers[:hashed], Part.ROUTER
        )
        weights.append(replace(table, buffer=True))
    return weights


def _mtp(
    prefix: str, dims: Dims, sizes: Sizes, count: int, layer: Sequence[Weight]
) -> list[Weight]:
    """Prediction modules: a layer without compression between two projections and a head mix."""
    if not count:
        return []
    places = tuple(range(count))
    size = dims.hidden
    at = prefix + "mtp.{layer}"
    own = [
        linear(f"{at}.e_proj", size, size, part=Part.MTP, layers=places),
        linear(f"{at}.h_proj", size, size, part=Part.MTP, layers=places),
        *norms(at, size, places, "enorm", "hnorm", "norm"),
        *correction(at, sizes.moe, places, name="ffn.gate.bias"),
        *_head_streams(f"{at}.", dims, sizes, places),
    ]
    inside = as_mtp(layer, places, at=prefix + "layers.{layer}", to=at)
    return [*as_mtp(own, places), *inside]
