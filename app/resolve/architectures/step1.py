"""Step-1."""

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.common_shape import read_dims
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import attention_bias, llama_like


@family("step1", architectures=("Step1ForCausalLM",))
def step1(config: Config) -> ModelShape:
    """Llama with ALiBi; `num_attention_groups` counts the KV heads (1 where nothing does). Sizes
    must be stated.
    """
    groups = config.integer("num_attention_groups", "num_key_value_heads", default=1)
    dims = read_dims(config.overlay(num_key_value_heads=groups, head_dim=None), tied=True)
    return llama_like(
        config,
        dims,
        **attention_bias(config),
        mlp_bias=config.boolean("mlp_bias", default=False),
        traits=("alibi",),
    )
