"""Seed-OSS."""

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.common_shape import read_dims
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import llama_like


@family("seed_oss", architectures=("SeedOssForCausalLM",))
def seed_oss(config: Config) -> ModelShape:
    """Full attention; biases on q, k and v, one of its own on the output. SeedOssConfig."""
    dims = read_dims(
        config,
        layers=64,
        hidden=4096,
        heads=80,
        kv_heads=8,
        head_dim=128,
        intermediate=27648,
        vocab=155136,
        max_positions=524288,
    )
    return llama_like(
        config,
        dims,
        qkv_bias=config.boolean("attention_bias", default=True),
        out_bias=config.boolean("attention_out_bias", default=False),
        mlp_bias=config.boolean("mlp_bias", default=False),
    )
