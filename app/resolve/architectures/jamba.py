"""Jamba: Mamba layers with attention in every eighth and experts in every second layer."""

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_state import read_mamba1
from app.resolve.architectures.common_shape import attention_part, read_dims
from app.resolve.architectures.common_weights import attention
from app.resolve.architectures.fields import Config
from app.resolve.architectures.hybrid import (
    FULL,
    LINEAR,
    hybrid_decoder,
    pick,
    with_kv_heads,
)
from app.resolve.architectures.llama_like import Names, dense_mlp, mixture

FEED_FORWARD = Names(
    norm="model.final_layernorm",
    norms=("input_layernorm", "pre_ff_layernorm"),
    mlp_module="feed_forward",
)


@family("jamba", architectures=("JambaForCausalLM", "JambaForSequenceClassification"))
def jamba(config: Config) -> ModelShape:
    """Attention layers (`attn_layer_period`, `attn_layer_offset`) cache K and V, the others a
    Mamba state. Defaults: JambaConfig.
    """
    dims = read_dims(
        with_kv_heads(config, 8),
        layers=32,
        hidden=4096,
        heads=32,
        intermediate=14336,
        vocab=65536,
        max_positions=262144,
    )
    period = config.integer("attn_layer_period", default=8)
    offset = config.integer("attn_layer_offset", default=4, minimum=0)
    kinds = [FULL if i % period == offset else LINEAR for i in dims.all_layers]
    num_experts = config.integer("num_experts", default=16)
    every = config.integer("expert_layer_period", default=2)
    first = config.integer("expert_layer_offset", default=1, minimum=0)
    sparse = [i for i in dims.all_layers if i % every == first] if num_experts > 1 else []
    dense = sorted(set(dims.all_layers).difference(sparse))
    mixer = read_mamba1(config, dims.hidden, inner_norms=True)
    at = config.prefix + "model.layers.{layer}"
    parts = {FULL: (attention_part(dims),), LINEAR: (mixer.part(),)}
    weights = [
        *attention(at, dims, pick(kinds, FULL)),
        *mixer.weights(f"{at}.mamba", pick(kinds, LINEAR)),
        *dense_mlp(at, dims, dense, names=FEED_FORWARD),
        *mixture(
            at,
            dims.hidden,
            dims.intermediate,
            sparse,
            num_experts=num_experts,
            top_k=config.integer("num_experts_per_tok", default=2),
            module="feed_forward",
            gate="router",
        ),
    ]
    return hybrid_decoder(config, dims, kinds, parts, weights, names=FEED_FORWARD)
