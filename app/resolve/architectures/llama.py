"""Llama 1 to 3 and the many models that publish themselves as Llama."""

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks import (
    attention,
    attention_part,
    gated_mlp,
    model_shape,
    norms,
    read_dims,
    uniform_groups,
    vector,
    vocabulary,
)
from app.resolve.architectures.fields import Config


@family("llama", architectures=("LlamaForCausalLM", "LLaMAForCausalLM"))
def llama(config: Config) -> ModelShape:
    """Grouped-query attention in every layer, SwiGLU, RMS norms. Defaults: LlamaConfig."""
    dims = read_dims(
        config,
        layers=32,
        hidden=4096,
        heads=32,
        intermediate=11008,
        vocab=32000,
        max_positions=2048,
    )
    at = config.prefix + "model.layers.{layer}"
    layers = dims.all_layers
    attention_bias = config.boolean("attention_bias", default=False)
    mlp_bias = config.boolean("mlp_bias", default=False)
    return model_shape(
        config,
        dims,
        groups=uniform_groups(dims, attention_part(dims)),
        weights=[
            *vocabulary(dims, prefix=config.prefix),
            *attention(at, dims, layers, bias=attention_bias, out_bias=attention_bias),
            *gated_mlp(at, dims.hidden, dims.intermediate, layers, bias=mlp_bias),
            *norms(at, dims.hidden, layers, "input_layernorm", "post_attention_layernorm"),
            vector(config.prefix + "model.norm", dims.hidden),
        ],
    )
