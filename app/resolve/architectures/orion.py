"""Orion."""

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.common_shape import read_dims
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import llama_like


@family("orion", architectures=("OrionForCausalLM",))
def orion(config: Config) -> ModelShape:
    """Llama with layer norms. Defaults: OrionConfig of the checkpoints."""
    dims = read_dims(
        config,
        layers=40,
        hidden=4096,
        heads=40,
        kv_heads=40,
        intermediate=15360,
        vocab=84608,
        max_positions=4096,
    )
    return llama_like(config, dims, norm_bias=True)
