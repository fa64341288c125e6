"""Youtu-LLM: latent attention in its weights, every head's keys and values in its cache."""

from app.core.cache import FullAttention
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.common_shape import model_shape, read_dims, uniform_groups
from app.resolve.architectures.common_weights import (
    gated_mlp,
    mla_attention,
    norms,
    vector,
    vocabulary,
)
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import LLAMA


@family("youtu", architectures=("YoutuForCausalLM",))
def youtu(config: Config) -> ModelShape:
    """The model's own code caches expanded keys and values. Defaults: YoutuConfig."""
    dims = read_dims(
        config.overlay(head_dim=None),
        layers=32,
        hidden=2048,
        heads=16,
        kv_heads=16,
        intermediate=6144,
        vocab=128256,
        max_positions=131072,
        tied=True,
    )
    nope = config.integer("qk_nope_head_dim", default=128)
    rope = config.integer("qk_rope_head_dim", default=64)
    value = config.integer("v_head_dim", default=128)
    part = FullAttention(num_key_value_heads=dims.heads, head_dim=nope + rope, v_head_dim=value)
    at = LLAMA.at(config)
    rank = config.data.get("q_lora_rank", 1536)
    return model_shape(
        config,
        dims,
        groups=uniform_groups(dims, part),
        weights=[
            *vocabulary(dims, prefix=config.prefix),
            *mla_attention(
                at,
                dims,
                dims.all_layers,
                q_lora_rank=None if rank is None else config.integer("q_lora_rank", default=1536),
                kv_lora_rank=config.integer("kv_lora_rank", default=512),
                qk_nope_head_dim=nope,
                qk_rope_head_dim=rope,
                v_head_dim=value,
                bias=config.boolean("attention_bias", default=False),
            ),
            *gated_mlp(at, dims.hidden, dims.intermediate, dims.all_layers),
            *norms(at, dims.hidden, dims.all_layers, *LLAMA.norms),
            vector(config.prefix + LLAMA.norm, dims.hidden),
        ],
    )
