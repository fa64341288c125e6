"""Beam, Flint, Kolibri and Mellum: windowed layers between full ones over routed experts."""

from collections.abc import Sequence

from app.core.inventory import Part
from app.core.model import LayerGroup, ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_moe import drafts, mtp_layers
from app.resolve.architectures.common_shape import Dims, attention_part, read_dims
from app.resolve.architectures.common_weights import output_gate, vector
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import (
    LLAMA,
    Names,
    attention_bias,
    dense_mlp,
    layer_windows,
    llama_like,
    mixture,
    window_size,
)
from app.resolve.architectures.qwen2 import sparse_layers

SANDWICH = Names(norms=(*LLAMA.norms, "pre_feedforward_layernorm", "post_feedforward_layernorm"))
POST = Names(norms=(*LLAMA.norms, "post_self_attn_layernorm", "post_mlp_layernorm"))
CORRECTION = "gate.e_score_correction_bias"


@family("beam", architectures=("BeamForCausalLM",))
def beam(config: Config) -> ModelShape:
    """Five windowed layers, then a full one, the last one full; three dense layers first; a gate
    with a bias a head on attention's output. Defaults: BeamConfig.
    """
    dims = read_dims(
        config,
        layers=52,
        hidden=5120,
        heads=48,
        kv_heads=8,
        head_dim=128,
        intermediate=20480,
        vocab=151936,
        max_positions=8192,
    )
    last = dims.layers - 1
    pattern = [(index + 1) % 6 != 0 and index != last for index in range(dims.layers)]
    kinds = config.texts("mlp_layer_types")
    if kinds is None:
        kinds = ["dense" if index < 3 else "sparse" for index in range(dims.layers)]
    sparse, dense = routed(config, kinds, dims.layers)
    at = SANDWICH.at(config)
    bias = config.boolean("attention_bias", default=False)
    gate_bias = vector(
        f"{at}.self_attn.gate_bias", dims.heads, part=Part.ATTENTION, layers=dims.all_layers
    )
    return llama_like(
        config,
        dims,
        names=SANDWICH,
        windows=layer_windows(
            config, dims.layers, window_size(config, default=512), default=pattern
        ),
        qkv_bias=bias,
        out_bias=bias,
        qk_norm=(dims.head_dim, dims.head_dim),
        mlp=[
            *dense_mlp(at, dims, dense),
            *mixture(
                at,
                dims.hidden,
                config.integer("moe_intermediate_size", default=2560),
                sparse,
                num_experts=config.integer("num_experts", default=256),
                top_k=config.integer("num_experts_per_tok", default=8),
                correction=CORRECTION,
                correction_is_buffer=True,
            ),
        ],
        extra=[output_gate(at, dims, dims.all_layers), gate_bias],
    )


@family("flint", architectures=("FlintForCausalLM",))
def flint(config: Config) -> ModelShape:
    """Full attention in the first two layers, each fourth and the last; attention sinks; two dense
    layers first. Defaults: FlintConfig.
    """
    dims = read_dims(
        config,
        layers=49,
        hidden=2048,
        heads=32,
        kv_heads=4,
        head_dim=128,
        intermediate=6144,
        vocab=150144,
        max_positions=262144,
    )
    last = dims.layers - 1
    pattern = [not (index < 2 or index % 4 == 1 or index == last) for index in range(dims.layers)]
    used = config.boolean("use_sliding_window", default=True)
    window = window_size(config, default=513) if used else None
    if not config.has("mlp_only_layers"):
        config = config.overlay(mlp_only_layers=[0, 1])
    sparse, dense = sparse_layers(config, dims.layers)
    at = LLAMA.at(config)
    sinks = vector(
        f"{at}.self_attn.softmax_offset", dims.heads, part=Part.ATTENTION, layers=dims.all_layers
    )
    return llama_like(
        config,
        dims,
        windows=layer_windows(config, dims.layers, window, default=pattern),
        **attention_bias(config),
        qk_norm=(dims.head_dim, dims.head_dim),
        mlp=[
            *dense_mlp(at, dims, dense),
            *mixture(
                at,
                dims.hidden,
                config.integer("moe_intermediate_size", default=512),
                sparse,
                num_experts=config.integer("num_experts", default=256),
                top_k=config.integer("num_experts_per_tok", default=6),
                shared_width=config.integer("shared_expert_intermediate_size", default=1024),
                shared="shared_expert",
            ),
        ],
        extra=[sinks],
        traits=("attention_sinks",),
    )


@family("kolibri1", architectures=("Kolibri1ForCausalLM",))
def kolibri(config: Config) -> ModelShape:
    """Four windowed layers, then a full one; a mixture in every layer. Kolibri1Config."""
    dims = read_dims(
        config,
        layers=50,
        hidden=2560,
        heads=48,
        kv_heads=4,
        head_dim=128,
        intermediate=1,
        vocab=128000,
        max_positions=262144,
    )
    pattern = [(index + 1) % 5 != 0 for index in range(dims.layers)]
    return llama_like(
        config,
        dims,
        names=POST,
        windows=layer_windows(
            config, dims.layers, window_size(config, default=513), default=pattern
        ),
        qk_norm=(dims.head_dim, dims.head_dim),
        mlp=mixture(
            POST.at(config),
            dims.hidden,
            config.integer("moe_intermediate_size", default=512),
            dims.all_layers,
            num_experts=config.integer("num_experts", "num_local_experts", default=384),
            top_k=config.integer("num_experts_per_tok", default=6),
            shared_width=config.integer("shared_expert_intermediate_size", default=512),
            correction=CORRECTION,
            correction_is_buffer=True,
        ),
    )


@family("mellum", architectures=("MellumForCausalLM",))
def mellum(config: Config) -> ModelShape:
    """Full attention unless `layer_types` says otherwise; experts; prediction modules have the
    window unless `mtp_layer_types` says otherwise. Defaults: MellumConfig.
    """
    dims = read_dims(
        config,
        layers=28,
        hidden=2304,
        heads=32,
        kv_heads=4,
        head_dim=128,
        intermediate=7168,
        vocab=98304,
        max_positions=131072,
    )
    kinds = config.texts("mlp_layer_types") or ["sparse"] * dims.layers
    sparse, dense = routed(config, kinds, dims.layers)
    at = LLAMA.at(config)
    window = window_size(config, default=1024)
    return llama_like(
        config,
        dims,
        windows=layer_windows(config, dims.layers, window, default=[False] * dims.layers),
        draft_groups=_mellum_drafts(config, dims, window),
        **attention_bias(config),
        qk_norm=(dims.head_dim, dims.head_dim),
        mlp=[
            *dense_mlp(at, dims, dense),
            *mixture(
                at,
                dims.hidden,
                config.integer("moe_intermediate_size", default=896),
                sparse,
                num_experts=config.integer("num_experts", "num_local_experts", default=64),
                top_k=config.integer("num_experts_per_tok", default=8),
            ),
        ],
    )


def _mellum_drafts(config: Config, dims: Dims, window: int | None) -> tuple[LayerGroup, ...]:
    modules = mtp_layers(config, dims)
    kinds = config.texts("mtp_layer_types") or ["sliding_attention"] * len(modules)
    kinds = config.per_layer(kinds, "mtp_layer_types", len(modules))
    return tuple(
        group
        for layer, kind in zip(modules, kinds, strict=True)
        for group in drafts(
            [layer],
            dims.heads,
            attention_part(dims, window=window if kind == "sliding_attention" else None),
        )
    )


def routed(config: Config, kinds: Sequence[str], layers: int) -> tuple[list[int], list[int]]:
    """(mixture layers, dense layers) of `mlp_layer_types`."""
    kinds = config.per_layer(list(kinds), "mlp_layer_types", layers)
    sparse = [index for index, kind in enumerate(kinds) if kind == "sparse"]
    return sparse, [index for index, kind in enumerate(kinds) if kind != "sparse"]
