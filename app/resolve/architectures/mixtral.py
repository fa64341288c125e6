"""Mixtral: Mistral's attention with a routed mixture of experts in every layer."""

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks import (
    attention,
    attention_part,
    model_shape,
    norms,
    read_dims,
    routed_experts,
    router,
    uniform_groups,
    vector,
    vocabulary,
)
from app.resolve.architectures.fields import Config


@family("mixtral", architectures=("MixtralForCausalLM",))
def mixtral(config: Config) -> ModelShape:
    """Every layer routes each token to `num_experts_per_tok` experts. Defaults: MixtralConfig."""
    dims = read_dims(
        config,
        layers=32,
        hidden=4096,
        heads=32,
        kv_heads=8,
        intermediate=14336,
        vocab=32000,
        max_positions=131072,
    )
    num_experts = config.integer("num_local_experts", "num_experts", default=8)
    top_k = config.integer("num_experts_per_tok", default=2)
    window = config.optional_integer("sliding_window")
    at = config.prefix + "model.layers.{layer}"
    layers = dims.all_layers
    return model_shape(
        config,
        dims,
        groups=uniform_groups(dims, attention_part(dims, window=window)),
        weights=[
            *vocabulary(dims, prefix=config.prefix),
            *attention(at, dims, layers),
            router(at, dims.hidden, num_experts, layers, module="block_sparse_moe.gate"),
            *routed_experts(
                at,
                dims.hidden,
                dims.intermediate,
                layers,
                num_experts=num_experts,
                top_k=top_k,
                module="block_sparse_moe.experts.{expert}",
                names=("w1", "w3", "w2"),
            ),
            *norms(at, dims.hidden, layers, "input_layernorm", "post_attention_layernorm"),
            vector(config.prefix + "model.norm", dims.hidden),
        ],
    )
