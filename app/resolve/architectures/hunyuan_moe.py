"""Hunyuan with experts: Large and A13B, and Hunyuan 3."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from app.core.cache import CachePart
from app.core.inventory import Part, Weight
from app.core.model import ModelShape
from app.core.precision import FLOAT32
from app.resolve.architectures import family
from app.resolve.architectures.blocks_moe import (
    EXPERTS,
    SHARED,
    TOP_K,
    WIDTH,
    mtp_layers,
    read_moe,
    sparse_layers,
)
from app.resolve.architectures.common_shape import (
    Dims,
    attention_part,
    group_layers,
    model_shape,
    read_dims,
)
from app.resolve.architectures.common_weights import attention, norms, vector, vocabulary
from app.resolve.architectures.fields import Config
from app.resolve.architectures.gqa_moe import moe_decoder, undeclared_window
from app.resolve.architectures.llama_like import dense_mlp, mixture

LEGACY = "hunyuan"


@family("hunyuan_v1_moe", LEGACY, architectures=("HunYuanMoEV1ForCausalLM", "HunYuanForCausalLM"))
def hunyuan_v1_moe(config: Config) -> ModelShape:
    """Experts may differ by layer (lists). With cross-layer attention (`use_cla`, Hunyuan-Large)
    only each `cla_share_factor`-th layer has keys and values of its own, the others read them.
    Defaults: HunYuanMoEV1Config.
    """
    dims = read_dims(
        config,
        layers=32,
        hidden=4096,
        heads=32,
        head_dim=config.optional_integer("attention_head_dim"),
        intermediate=11008,
        vocab=290943,
        max_positions=2048,
    )
    at = config.prefix + "model.layers.{layer}"
    bias = config.boolean("attention_bias", default=False)
    every = config.boolean("use_cla", default=False)
    factor = config.integer("cla_share_factor", default=1) if every else 1
    own = [index % factor == 0 for index in range(dims.layers)]
    part: tuple[CachePart, ...] = (attention_part(dims, window=undeclared_window(config)),)
    return model_shape(
        config,
        dims,
        groups=group_layers([part if flag else () for flag in own], dims.heads),
        weights=[
            *vocabulary(dims, prefix=config.prefix),
            *_attention(
                at, dims, own, bias=bias, qk_norm=config.boolean("use_qk_norm", default=True)
            ),
            *_experts(config, at, dims),
            *norms(at, dims.hidden, dims.all_layers, "input_layernorm", "post_attention_layernorm"),
            vector(config.prefix + "model.norm", dims.hidden),
        ],
    )


def _attention(
    at: str, dims: Dims, own: Sequence[bool], *, bias: bool, qk_norm: bool
) -> list[Weight]:
    """All layers have q and o; only those with keys of their own have k and v."""
    cached = tuple(index for index, flag in enumerate(own) if flag)
    weights = []
    for weight in attention(at, dims, dims.all_layers, bias=bias, out_bias=bias):
        shared = weight.name.endswith(("k_proj", "v_proj"))
        weights.append(replace(weight, layers=cached) if shared else weight)
    if qk_norm:
        weights += norms(
            f"{at}.self_attn", dims.head_dim, dims.all_layers, "query_layernorm", "key_layernorm"
        )
    return weights


def _experts(config: Config, at: str, dims: Dims) -> list[Weight]:
    """Layers with the same mixture together; the router is stored in fp32. Files of the older
    name also describe dense models, which have one expert and no router.
    """
    columns = (
        _per_layer(config, dims.layers, EXPERTS, 1),
        _per_layer(config, dims.layers, TOP_K, 1),
        _per_layer(config, dims.layers, WIDTH, dims.intermediate),
        _per_layer(config, dims.layers, SHARED, 1),
    )
    if config.text("model_type") == LEGACY and set(columns[0]) == {1}:
        return dense_mlp(at, dims, dims.all_layers)
    members: dict[tuple[int, ...], list[int]] = {}
    for index, sizes in enumerate(zip(*columns, strict=True)):
        members.setdefault(sizes, []).append(index)
    weights: list[Weight] = []
    for (experts, top_k, width, shared), layers in members.items():
        weights += mixture(
            at,
            dims.hidden,
            width,
            layers,
            num_experts=experts,
            top_k=top_k,
            gate="gate.wg",
            shared_width=shared * width,
            shared="shared_mlp",
        )
    return [replace(w, dtype=FLOAT32) if w.part is Part.ROUTER else w for w in weights]


def _per_layer(config: Config, layers: int, names: tuple[str, ...], default: int) -> list[int]:
    """A size of each layer: a list, or one number for all."""
    stated: Any = config.get(*names)
    if isinstance(stated, list):
        name = next(name for name in names if config.has(name))
        return config.per_layer(config.integers(name, minimum=1) or [], name, layers)
    return [config.integer(*names, default=default)] * layers


@family("hy_v3", architectures=("HYV3ForCausalLM",))
def hy_v3(config: Config) -> ModelShape:
    """K and V of every token in every layer. Defaults: HYV3Config."""
    dims = read_dims(
        config,
        layers=80,
        hidden=4096,
        heads=64,
        kv_heads=8,
        head_dim=128,
        intermediate=13312,
        vocab=120832,
        max_positions=131072,
    )
    bias = config.boolean("attention_bias", default=False)
    return moe_decoder(
        config,
        dims,
        read_moe(config, experts=192, top_k=8, width=1536, shared=1),
        sparse_layers(config, dims.layers, first_dense=1),
        qkv_bias=bias,
        out_bias=bias,
        qk_norm=(dims.head_dim, dims.head_dim),
        correction_name="mlp.expert_bias",
        modules=mtp_layers(config, dims),
    )
