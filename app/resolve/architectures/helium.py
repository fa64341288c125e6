"""Helium."""

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.common_shape import read_dims
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import llama_like


@family("helium", architectures=("HeliumForCausalLM",))
def helium(config: Config) -> ModelShape:
    """Full attention; the output projection never has a bias. Defaults: HeliumConfig."""
    dims = read_dims(
        config,
        layers=24,
        hidden=2560,
        heads=20,
        kv_heads=20,
        head_dim=128,
        intermediate=7040,
        vocab=48000,
        max_positions=4096,
    )
    return llama_like(
        config,
        dims,
        qkv_bias=config.boolean("attention_bias", default=False),
        mlp_bias=config.boolean("mlp_bias", default=False),
    )
