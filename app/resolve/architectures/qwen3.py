"""Qwen 3: dense and mixture of experts, with norms on queries and keys."""

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.common_shape import read_dims
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import (
    LLAMA,
    attention_bias,
    dense_mlp,
    llama_like,
    mixture,
)
from app.resolve.architectures.qwen2 import (
    qwen_traits,
    qwen_window,
    qwen_windows,
    sparse_layers,
)


@family(
    "qwen3", architectures=("Qwen3ForCausalLM", "Qwen3Model", "VoyageQwen3BidirectionalEmbedModel")
)
def qwen3(config: Config) -> ModelShape:
    """Grouped-query attention; head_dim is 128 whatever the width. Defaults: Qwen3Config."""
    dims = read_dims(
        config,
        layers=32,
        hidden=4096,
        heads=32,
        kv_heads=32,
        head_dim=128,
        intermediate=22016,
        vocab=151936,
        max_positions=32768,
    )
    windows = qwen_windows(config, dims.layers)
    return llama_like(
        config,
        dims,
        windows=windows,
        traits=qwen_traits(config, windows),
        **attention_bias(config),
        qk_norm=(dims.head_dim, dims.head_dim),
    )


@family("qwen3_moe", architectures=("Qwen3MoeForCausalLM",))
def qwen3_moe(config: Config) -> ModelShape:
    """Qwen 3's attention, routed experts without a shared one. Defaults: Qwen3MoeConfig."""
    dims = read_dims(
        config,
        layers=24,
        hidden=2048,
        heads=32,
        kv_heads=4,
        intermediate=6144,
        vocab=151936,
        max_positions=32768,
    )
    sparse, dense = sparse_layers(config, dims.layers)
    at = LLAMA.at(config)
    experts = mixture(
        at,
        dims.hidden,
        config.integer("moe_intermediate_size", default=768),
        sparse,
        num_experts=config.integer("num_experts", "num_local_experts", default=128),
        top_k=config.integer("num_experts_per_tok", default=8),
    )
    return llama_like(
        config,
        dims,
        windows=qwen_window(config),
        **attention_bias(config),
        qk_norm=(dims.head_dim, dims.head_dim),
        mlp=[*dense_mlp(at, dims, dense), *experts],
        traits=qwen_traits(config),
    )
