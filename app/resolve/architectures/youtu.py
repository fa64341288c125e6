"""Youtu-LLM: latent attention in its weights, every head's keys and values in its cache."""

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.common_shape import read_dims
from app.resolve.architectures.fields import Config
from app.resolve.architectures.mla import expanded_decoder, read_latent


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
    latent = read_latent(config)
    return expanded_decoder(config, dims, latent, cached_v=latent.v_head_dim)
