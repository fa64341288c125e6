"""Phi-3, Phi-3.5, Phi-4 and their mini and MoE versions; Phi-3-small."""

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.common_shape import read_dims
from app.resolve.architectures.fields import MAX_COUNT, Config
from app.resolve.architectures.llama_like import (
    EVERY_BIAS,
    FUSED_GATE_UP,
    FUSED_QKV,
    LLAMA,
    Names,
    attention_bias,
    llama_like,
    mixture,
    window_size,
)
from app.resolve.architectures.positions import native_length

PHI3 = Names(qkvo=FUSED_QKV, mlp=FUSED_GATE_UP)
PHI3_SMALL = Names(
    norm="model.final_layernorm",
    qkvo=("query_key_value", "query_key_value", "query_key_value", "dense"),
    mlp=("up_proj", "up_proj", "down_proj"),
)


@family("phi3", architectures=("Phi3ForCausalLM",))
def phi3(config: Config) -> ModelShape:
    """Fused projections; the window, where given, is in every layer. Defaults: Phi3Config.

    Long-context versions are served at `original_max_position_embeddings` by default.
    """
    dims = read_dims(
        config,
        layers=32,
        hidden=3072,
        heads=32,
        intermediate=8192,
        vocab=32064,
        max_positions=4096,
    )
    return llama_like(
        config,
        dims,
        names=PHI3,
        windows=window_size(config),
        max_positions=native_length(config, dims.max_positions, original=4096),
    )


@family("phimoe", architectures=("PhiMoEForCausalLM", "PhimoeForCausalLM"))
def phimoe(config: Config) -> ModelShape:
    """Layer norms with biases, two of sixteen experts. Defaults: PhimoeConfig."""
    dims = read_dims(
        config,
        layers=32,
        hidden=4096,
        heads=32,
        kv_heads=8,
        intermediate=6400,
        vocab=32064,
        max_positions=131072,
    )
    experts = mixture(
        LLAMA.at(config),
        dims.hidden,
        dims.intermediate,
        dims.all_layers,
        num_experts=config.integer("num_local_experts", default=16),
        top_k=config.integer("num_experts_per_tok", default=2),
        module="block_sparse_moe",
        names=("w1", "w3", "w2"),
    )
    return llama_like(
        config,
        dims,
        windows=window_size(config),
        **attention_bias(config),
        norm_bias=True,
        head_bias=config.boolean("lm_head_bias", default=False),
        mlp=experts,
    )


@family("phi3small", architectures=("Phi3SmallForCausalLM",))
def phi3small(config: Config) -> ModelShape:
    """Every layer caches all tokens: block-sparse layers attend to a pattern that has no window.

    Biases everywhere, a tied head. Defaults: Phi3SmallConfig of the checkpoints.
    """
    dims = read_dims(
        config,
        layers=32,
        hidden=4096,
        heads=32,
        kv_heads=8,
        intermediate=config.integer("ff_intermediate_size", default=14336, maximum=MAX_COUNT),
        vocab=100352,
        max_positions=8192,
        tied=True,
    )
    return llama_like(
        config,
        dims,
        names=PHI3_SMALL,
        **EVERY_BIAS,
    )
