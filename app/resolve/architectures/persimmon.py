"""Persimmon (the text model of Fuyu too)."""

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.common_shape import read_dims
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import EVERY_BIAS, Names, llama_like

PERSIMMON = Names(
    norm="model.final_layernorm",
    qkvo=("query_key_value", "query_key_value", "query_key_value", "dense"),
    qk_norms=("self_attn.q_layernorm", "self_attn.k_layernorm"),
    mlp=("dense_h_to_4h", "dense_4h_to_h"),
)


@family("persimmon", architectures=("PersimmonForCausalLM",))
def persimmon(config: Config) -> ModelShape:
    """Multi-head attention, norms on queries and keys, biases. Defaults: PersimmonConfig."""
    dims = read_dims(
        config,
        layers=36,
        hidden=4096,
        heads=64,
        intermediate=16384,
        vocab=262144,
        max_positions=16384,
    )
    normed = config.boolean("qk_layernorm", default=True)
    return llama_like(
        config,
        dims,
        names=PERSIMMON,
        **EVERY_BIAS,
        qk_norm=(dims.head_dim, dims.head_dim) if normed else None,
        qk_norm_bias=True,
    )
