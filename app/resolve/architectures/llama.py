"""Llama 1 to 3 and the many models that publish themselves as Llama."""

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.common_shape import read_dims
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import (
    attention_bias,
    layer_windows,
    llama_like,
    window_size,
)


@family(
    "llama",
    "code_llama",
    "llama_bidirec",
    architectures=(
        "LlamaForCausalLM",
        "LLaMAForCausalLM",
        "LlamaModel",
        "LlamaBidirectionalModel",
        "LlamaBidirectionalForSequenceClassification",
        "Fairseq2LlamaForCausalLM",
    ),
)
def llama(config: Config) -> ModelShape:
    """Grouped-query attention in every layer, SwiGLU, RMS norms. Defaults: LlamaConfig.

    A `sliding_window` that someone has added is honoured by engines, so it is here.
    """
    dims = read_dims(
        config,
        layers=32,
        hidden=4096,
        heads=32,
        intermediate=11008,
        vocab=32000,
        max_positions=2048,
    )
    return llama_like(
        config,
        dims,
        windows=layer_windows(config, dims.layers, window_size(config)),
        **attention_bias(config),
        mlp_bias=config.boolean("mlp_bias", default=False),
    )
