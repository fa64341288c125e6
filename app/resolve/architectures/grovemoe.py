"""GroveMoE: Qwen3's mixture, whose experts share a small one by groups."""

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_moe import read_moe
from app.resolve.architectures.common_shape import read_dims
from app.resolve.architectures.common_weights import routed_experts
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import attention_bias, llama_like, mixture


@family("grove_moe", architectures=("GroveMoeForCausalLM",))
def grove_moe(config: Config) -> ModelShape:
    """K and V of every token in every layer. A group's small expert works once for all its picked
    experts; the most that may work is counted as active. The published files state the sizes of
    the decoder; groups are of 2, with small experts of 128, unless stated.
    """
    dims = read_dims(config)
    moe = read_moe(config)
    if not moe.num_experts:
        raise config.fail("num_experts", "must be stated and at least 1")
    at = config.prefix + "model.layers.{layer}"
    layers = dims.all_layers
    group = config.integer("num_experts_per_group", "parallel_expert_num", default=2)
    small = routed_experts(
        at,
        dims.hidden,
        config.integer(
            "small_experts_intermediate_size", "parallel_expert_intermediate_size", default=128
        ),
        layers,
        num_experts=max(1, moe.num_experts // group),
        top_k=moe.top_k,
        module="mlp.chunk_experts.{expert}",
    )
    return llama_like(
        config,
        dims,
        **attention_bias(config),
        qk_norm=(dims.head_dim, dims.head_dim),
        mlp=[
            *mixture(
                at,
                dims.hidden,
                moe.width,
                layers,
                num_experts=moe.num_experts,
                top_k=moe.top_k,
            ),
            *small,
        ],
    )
