"""Apertus."""

from dataclasses import replace

from app.core.inventory import Part
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.common_shape import read_dims
from app.resolve.architectures.common_weights import vector
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import (
    Names,
    attention_bias,
    layer_windows,
    llama_like,
    window_size,
)

APERTUS = Names(
    norms=("attention_layernorm", "feedforward_layernorm"), mlp=("up_proj", "down_proj")
)


@family("apertus", architectures=("ApertusForCausalLM",))
def apertus(config: Config) -> ModelShape:
    """Norms on queries and keys, an ungated MLP whose activation has two learned numbers.

    Defaults: ApertusConfig.
    """
    return _apertus(config, vocab=131072)


@family("apertus1p5_text", architectures=("Apertus1p5ForCausalLM",))
def apertus1p5_text(config: Config) -> ModelShape:
    """Apertus whose head may have fewer rows (`output_vocab_size`) than its embedding. Defaults:
    Apertus1p5TextConfig.
    """
    shape = _apertus(config, vocab=266752)
    rows = config.optional_integer("output_vocab_size", maximum=shape.vocab_size)
    if rows is None:
        return shape
    weights = tuple(
        replace(weight, shape=(rows, shape.hidden_size)) if weight.part is Part.HEAD else weight
        for weight in shape.weights
    )
    return replace(shape, weights=weights)


def _apertus(config: Config, *, vocab: int) -> ModelShape:
    dims = read_dims(
        config,
        layers=32,
        hidden=4096,
        heads=32,
        intermediate=14336,
        vocab=vocab,
        max_positions=65536,
    )
    at = APERTUS.at(config)
    return llama_like(
        config,
        dims,
        names=APERTUS,
        windows=layer_windows(config, dims.layers, window_size(config)),
        **attention_bias(config),
        qk_norm=(dims.head_dim, dims.head_dim),
        extra=[
            vector(f"{at}.mlp.act_fn.{name}", 1, part=Part.MLP, layers=dims.all_layers)
            for name in ("alpha_p", "alpha_n")
        ],
    )
