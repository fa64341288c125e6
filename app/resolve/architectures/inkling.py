"""Inkling: relative positions, short convolutions around everything, sinking shared experts."""

from collections.abc import Sequence
from dataclasses import replace

from app.core.cache import CachePart, ConvWindow
from app.core.inventory import Part, Split, Weight
from app.core.model import LayerGroup, ModelShape
from app.core.precision import FLOAT32
from app.resolve.architectures import family
from app.resolve.architectures.blocks_encoder import array
from app.resolve.architectures.blocks_mixed import Kind, kind_attention, kinds_of
from app.resolve.architectures.blocks_moe import (
    EXPERTS,
    MTP_COUNT,
    SHARED,
    TOP_K,
    Moe,
    as_mtp,
    chosen,
    correction,
    sparse_layers,
)
from app.resolve.architectures.common_shape import Dims, model_shape, read_dims
from app.resolve.architectures.common_weights import linear, norms, vector, vocabulary
from app.resolve.architectures.fields import MAX_LAYERS, Config
from app.resolve.architectures.inkling_towers import towers
from app.resolve.architectures.llama_like import LLAMA, mixture
from app.resolve.architectures.multimodal import multimodal

NAMES = replace(
    LLAMA,
    layer="model.llm.layers.{layer}",
    attention="attn",
    qkvo=("wq_du", "wk_dv", "wv_dv", "wo_ud"),
    qk_norms=("attn.q_norm", "attn.k_norm"),
)
ALL_FULL = (
    "engines give a window only to the layers in local_layer_ids, which this config leaves out, so "
    "every layer is taken to keep all tokens"
)


@family("inkling_text", "inkling_model", architectures=("InklingForCausalLM",))
def inkling_text(config: Config) -> ModelShape:
    """Layers in `local_layer_ids` keep a window with head counts of their own, the others
    everything; each also keeps the last inputs of its four convolutions. The sizes of the weights
    follow `layer_types` or the class's pattern where there are no ids. Defaults:
    InklingTextConfig.
    """
    split = config.has("dense_intermediate_size")
    dense_width = config.integer("dense_intermediate_size", "intermediate_size", default=24576)
    dims = read_dims(
        config.overlay(intermediate_size=dense_width),
        layers=66,
        hidden=6144,
        heads=64,
        kv_heads=8,
        head_dim=128,
        vocab=201024,
        max_positions=131072,
    )
    expert_width = ("intermediate_size",) if split else ("moe_intermediate_size",)
    moe = Moe(
        num_experts=config.integer(*EXPERTS, default=256),
        top_k=config.integer(*TOP_K, default=6),
        width=config.integer(*expert_width, default=3072),
    )
    full = Kind(dims=dims, layers=())
    local = _local(config, dims)
    ids = config.integers("local_layer_ids", maximum=MAX_LAYERS)
    windowed = set(ids or ())
    flags = _flags(config, dims.layers, ids)
    weighed = kinds_of([local if flag else full for flag in flags])
    cached = kinds_of([local if index in windowed else full for index in range(dims.layers)])
    kernel = config.integer("sconv_kernel_size", "conv_kernel_size", default=4, maximum=2**16)
    modules = config.integer(*MTP_COUNT, default=0, minimum=0, maximum=64)
    ahead = set(config.integers("mtp_local_layer_ids", maximum=MAX_LAYERS) or ())
    drafting = [local if index in ahead else full for index in range(modules)]
    return model_shape(
        config,
        dims,
        groups=tuple(_group(kind, kernel) for kind in cached),
        weights=[
            *vocabulary(
                dims, prefix=config.prefix, embed="model.llm.embed", head="model.llm.unembed"
            ),
            vector(config.prefix + "model.llm.embed_norm", dims.hidden),
            vector(config.prefix + "model.llm.norm", dims.hidden),
            *(w for kind in weighed for w in _layer(config, NAMES.at(config), kind, kernel)),
            *_mlps(config, dims, moe),
            *_mtp(config, dims, drafting, kernel),
        ],
        draft_groups=tuple(
            _group(kind.at((dims.layers + index,)), kernel) for index, kind in enumerate(drafting)
        ),
        assumptions=(ALL_FULL,) if ids is None and any(flags) else (),
    )


@family("inkling_mm_model", architectures=("InklingForConditionalGeneration",))
def inkling(config: Config) -> ModelShape:
    """The text model's cache; `mtp_config` holds what its prediction modules are. Defaults:
    InklingConfig.
    """
    section = config.section("text_config")
    ahead = config.section("mtp_config")
    extra = {
        "num_mtp_layers": ahead.get("num_nextn_predict_layers"),
        "mtp_local_layer_ids": ahead.get("local_layer_ids"),
    }
    known = {name: value for name, value in extra.items() if not section.has(name)}
    text = inkling_text(section.overlay(**known))
    return multimodal(config, text, towers(config, text.hidden_size))


def _local(config: Config, dims: Dims) -> Kind:
    own = replace(
        dims,
        heads=config.integer("swa_num_attention_heads", default=64),
        kv_heads=config.integer("swa_num_key_value_heads", default=16),
        head_dim=config.integer("swa_head_dim", default=128),
    )
    window = config.integer("sliding_window_size", "sliding_window", default=512)
    return Kind(dims=own, layers=(), window=window)


def _flags(config: Config, layers: int, ids: list[int] | None) -> list[bool]:
    """Layers built as local ones."""
    types = config.texts("layer_types")
    if types is not None:
        return [k == "hybrid_sliding" for k in config.per_layer(types, "layer_types", layers)]
    local = {i for i in range(layers) if (i + 1) % 6} if ids is None else set(ids)
    return [index in local for index in range(layers)]


def _group(kind: Kind, kernel: int) -> LayerGroup:
    """Convolutions over k, v and the outputs of attention and MLP, packed by KV head."""
    dims = kind.dims
    share = -(-dims.hidden // dims.kv_heads)
    conv: CachePart = ConvWindow(
        num_key_value_heads=dims.kv_heads, width=2 * (dims.head_dim + share), window=kernel
    )
    group = kind.group
    return replace(group, parts=(conv, *group.parts))


def _layer(config: Config, at: str, kind: Kind, kernel: int) -> list[Weight]:
    dims, layers = kind.dims, kind.layers
    rank = config.integer("d_rel", default=16)
    extent = kind.window or config.integer("rel_extent", default=1024)
    attn = Part.ATTENTION
    kv = dims.kv_heads * dims.head_dim
    return [
        *kind_attention(at, kind, names=NAMES, qk_norm=True),
        linear(
            f"{at}.attn.wr_du",
            dims.heads * rank,
            dims.hidden,
            part=attn,
            layers=layers,
            split=Split.COLUMN,
        ),
        array(f"{at}.attn.rel_logits_proj.proj", rank, extent, part=attn, layers=layers),
        array(f"{at}.attn.k_sconv", kv, 1, kernel, part=attn, layers=layers),
        array(f"{at}.attn.v_sconv", kv, 1, kernel, part=attn, layers=layers),
        array(f"{at}.attn_sconv", dims.hidden, 1, kernel, part=Part.OTHER, layers=layers),
        array(f"{at}.mlp_sconv", dims.hidden, 1, kernel, part=Part.OTHER, layers=layers),
        *norms(at, dims.hidden, layers, "attn_norm", "mlp_norm"),
    ]


def _mlps(config: Config, dims: Dims, moe: Moe) -> list[Weight]:
    """Dense layers first; the router scores shared experts too, and a token uses them all."""
    if config.has("mlp_layer_types"):
        sparse = sparse_layers(config, dims.layers)
    else:
        first = config.integer("dense_mlp_idx", default=0, minimum=0)
        sparse = [index >= first for index in range(dims.layers)]
    at = NAMES.at(config)
    routed = chosen(sparse, True)
    weights = _dense(at, dims, chosen(sparse, False))
    if not routed:
        return weights
    shared = config.integer(*SHARED, default=2, minimum=0)
    mixed = mixture(
        at,
        dims.hidden,
        moe.width,
        routed,
        num_experts=moe.num_experts,
        top_k=moe.top_k,
        names=("w13", "w13", "w2"),
        shared_width=shared * moe.width,
    )
    rows = (moe.num_experts + shared, dims.hidden)
    weights += [replace(w, shape=rows) if w.part is Part.ROUTER else w for w in mixed]
    weights.append(
        vector(f"{at}.mlp.gate.global_scale", 1, part=Part.ROUTER, layers=routed, dtype=FLOAT32)
    )
    return weights + correction(at, moe, routed, name="mlp.gate.bias")


def _dense(at: str, dims: Dims, layers: Sequence[int]) -> list[Weight]:
    if not layers:
        return []
    shape = (dims.intermediate, dims.hidden)
    up = Weight(
        name=f"{at}.mlp.w13_dn",
        shape=shape,
        part=Part.MLP,
        layers=tuple(layers),
        linear=True,
        split=Split.COLUMN,
        fused="gate_up_proj",
    )
    down = replace(up, name=f"{at}.mlp.w2_md", shape=shape[::-1], split=Split.ROW, fused=None)
    scale = vector(f"{at}.mlp.global_scale", 1, part=Part.MLP, layers=layers, dtype=FLOAT32)
    return [up, up, down, scale]


def _mtp(config: Config, dims: Dims, kinds: Sequence[Kind], kernel: int) -> list[Weight]:
    if not kinds:
        return []
    at = config.prefix + "model.mtp.layers.{layer}"
    inner = f"{at}.transformer_block"
    places = tuple(range(len(kinds)))
    size = dims.hidden
    weights = [
        *norms(at, size, places, "hidden_norm", "embed_norm"),
        linear(f"{at}.input_proj", size, 2 * size, part=Part.MTP, layers=places),
        *_dense(inner, dims, places),
    ]
    for kind in kinds_of(kinds):
        weights += _layer(config, inner, kind, kernel)
    return as_mtp(weights)
