"""Granite 4 (Tiny, Small, Micro): Mamba 2 and attention layers, dense or with experts."""

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_state import read_mamba2
from app.resolve.architectures.common_shape import attention_part, read_dims
from app.resolve.architectures.common_weights import attention
from app.resolve.architectures.fields import Config
from app.resolve.architectures.granite import granite_experts, granite_shared_mlp
from app.resolve.architectures.hybrid import (
    FULL,
    LINEAR,
    checked_kinds,
    hybrid_decoder,
    pick,
)


@family("granitemoehybrid", architectures=("GraniteMoeHybridForCausalLM",))
def granitemoehybrid(config: Config) -> ModelShape:
    """`layer_types` says which layers cache K and V (attention) and which a Mamba 2 state; where
    it is absent all keep a state. No local experts: only the shared MLP. Defaults:
    GraniteMoeHybridConfig.
    """
    dims = read_dims(
        config,
        layers=32,
        hidden=4096,
        heads=32,
        intermediate=11008,
        vocab=32000,
        max_positions=2048,
    )
    kinds = config.texts("layer_types", "layers_block_type") or [LINEAR] * dims.layers
    kinds = checked_kinds(config, "layer_types", kinds, dims.layers, FULL, LINEAR)
    mixer = read_mamba2(config, dims.hidden, heads=128, groups=1, state=256)
    bias = config.boolean("attention_bias", default=False)
    shared = config.integer("shared_intermediate_size", default=1024, minimum=0)
    experts = config.integer("num_local_experts", default=8, minimum=0)
    at = config.prefix + "model.layers.{layer}"
    layers = dims.all_layers
    parts = {FULL: (attention_part(dims),), LINEAR: (mixer.part(),)}
    weights = [
        *attention(at, dims, pick(kinds, FULL), bias=bias, out_bias=bias),
        *mixer.weights(f"{at}.mamba", pick(kinds, LINEAR)),
    ]
    if experts:
        weights += granite_experts(at, config, dims, layers, shared=shared)
    else:
        weights += granite_shared_mlp(at, dims, layers, shared)
    return hybrid_decoder(config, dims, kinds, parts, weights)
