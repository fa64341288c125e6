"""Arcee's AFM-4.5B (dense) and AFMoE (Trinity)."""

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.common_shape import read_dims
from app.resolve.architectures.common_weights import output_gate
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import (
    Names,
    attention_bias,
    dense_mlp,
    every_nth_full,
    layer_windows,
    llama_like,
    mixture,
    window_size,
)

UNGATED = Names(mlp=("up_proj", "down_proj"))
SANDWICH = Names(
    norms=(
        "input_layernorm",
        "post_attention_layernorm",
        "pre_mlp_layernorm",
        "post_mlp_layernorm",
    )
)


@family("arcee", architectures=("ArceeForCausalLM",))
def arcee(config: Config) -> ModelShape:
    """Full attention, an ungated MLP. Defaults: ArceeConfig."""
    dims = read_dims(
        config,
        layers=32,
        hidden=2560,
        heads=32,
        intermediate=18432,
        vocab=32000,
        max_positions=4096,
    )
    return llama_like(
        config,
        dims,
        names=UNGATED,
        **attention_bias(config),
        mlp_bias=config.boolean("mlp_bias", default=False),
    )


@family("afmoe", architectures=("AfmoeForCausalLM",))
def afmoe(config: Config) -> ModelShape:
    """Windowed layers with a full one each `global_attn_every_n_layers`; a gate on attention's
    output; dense layers first. Defaults: AfmoeConfig.
    """
    dims = read_dims(
        config,
        layers=32,
        hidden=2048,
        heads=16,
        head_dim=128,
        intermediate=6144,
        vocab=200192,
        max_positions=16384,
    )
    period = config.integer("global_attn_every_n_layers", default=4)
    windows = layer_windows(
        config,
        dims.layers,
        window_size(config, default=1024),
        default=every_nth_full(dims.layers, period),
    )
    first = min(config.integer("num_dense_layers", default=1, minimum=0), dims.layers)
    width = config.integer("moe_intermediate_size", default=1408)
    shared = config.integer("num_shared_experts", default=2, minimum=0)
    at = SANDWICH.at(config)
    return llama_like(
        config,
        dims,
        names=SANDWICH,
        windows=windows,
        **attention_bias(config),
        qk_norm=(dims.head_dim, dims.head_dim),
        mlp=[
            *dense_mlp(at, dims, range(first)),
            *mixture(
                at,
                dims.hidden,
                width,
                range(first, dims.layers),
                num_experts=config.integer("num_experts", default=64),
                top_k=config.integer("num_experts_per_tok", default=6),
                gate="router.gate",
                shared_width=shared * width,
                correction="expert_bias",
            ),
        ],
        extra=[output_gate(at, dims, dims.all_layers)],
    )
