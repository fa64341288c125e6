"""ERNIE 4.5, the dense model."""

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.common_shape import read_dims
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import llama_like


@family("ernie4_5", architectures=("Ernie4_5ForCausalLM", "Ernie4_5_ForCausalLM"))
def ernie4_5(config: Config) -> ModelShape:
    """Full attention, one switch for all biases, a tied head. Defaults: Ernie4_5Config."""
    dims = read_dims(
        config,
        layers=18,
        hidden=1024,
        heads=16,
        kv_heads=2,
        head_dim=128,
        intermediate=3072,
        vocab=103424,
        max_positions=131072,
        tied=True,
    )
    bias = config.boolean("use_bias", default=False)
    return llama_like(config, dims, qkv_bias=bias, out_bias=bias, mlp_bias=bias)
