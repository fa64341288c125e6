"""TeleChat 1 and 2, TeleFLM."""

from dataclasses import replace

from app.core.inventory import Weight
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.common_shape import read_dims
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import Names, llama_like

TELECHAT = Names(
    layer="transformer.h.{layer}",
    embed="transformer.word_embeddings",
    norm="transformer.ln_f",
    attention="self_attention",
    qkvo=("query", "key_value", "key_value", "dense"),
)


@family("telechat", "telechat2", architectures=("TeleChatForCausalLM", "TeleChat2ForCausalLM"))
def telechat(config: Config) -> ModelShape:
    """Multi-head attention, keys and values fused, biases on the two output projections.

    `model_type` is "telechat" for both generations. Defaults: TelechatConfig of the checkpoints.
    """
    hidden = config.integer("hidden_size", "n_embed", default=4096)
    dims = read_dims(
        config.overlay(hidden_size=hidden),
        layers=30,
        heads=32,
        intermediate=config.integer("ffn_hidden_size", default=12288),
        vocab=160256,
        max_positions=8192,
    )
    shape = llama_like(config, dims, names=TELECHAT)
    return replace(shape, weights=tuple(_with_bias(weight) for weight in shape.weights))


def _with_bias(weight: Weight) -> Weight:
    biased = weight.name.endswith((".self_attention.dense", ".mlp.down_proj"))
    return replace(weight, bias=weight.shape[0]) if biased else weight


@family("teleflm", architectures=("TeleFLMForCausalLM",))
def teleflm(config: Config) -> ModelShape:
    """Llama with a scaled head. It has no defaults here: sizes must be stated."""
    return llama_like(config, read_dims(config))
