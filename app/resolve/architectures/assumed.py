"""The caller's own assumption for a model type nobody here knows: plain attention throughout."""

from dataclasses import replace

from app.core.model import ModelShape
from app.resolve.architectures.common_shape import LAYERS
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama import llama

ASSUMPTION = (
    "the model type is unknown: every layer is taken as full attention with a gated MLP, "
    "as in Llama (assume=dense_attention)"
)


def assumed_dense(config: Config) -> ModelShape:
    """A Llama of the config's sizes; sizes that it does not state are refused, not defaulted."""
    inner = config
    if not config.has(*LAYERS) and config.has("text_config"):
        inner = config.section("text_config")
    for spellings in (LAYERS, ("hidden_size", "n_embd", "d_model"), ("vocab_size",)):
        if not inner.has(*spellings):
            raise inner.fail(spellings[0], "is missing, and an unknown model type has no defaults")
    shape = llama(inner)
    return replace(
        shape,
        model_type=config.text("model_type", default="unknown"),
        assumptions=(*shape.assumptions, ASSUMPTION),
    )
