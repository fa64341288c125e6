"""BLOOM and BLOOMZ."""

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.common_shape import HIDDEN, read_dims
from app.resolve.architectures.common_weights import vector
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import EVERY_BIAS, Names, llama_like

BLOOM = Names(
    layer="transformer.h.{layer}",
    embed="transformer.word_embeddings",
    norm="transformer.ln_f",
    attention="self_attention",
    qkvo=("query_key_value", "query_key_value", "query_key_value", "dense"),
    mlp=("dense_h_to_4h", "dense_4h_to_h"),
)


@family("bloom", architectures=("BloomForCausalLM", "BloomModel"))
def bloom(config: Config) -> ModelShape:
    """Multi-head attention with ALiBi, a norm on the embeddings. Defaults: BloomConfig.

    It declares no longest sequence; `seq_length` is what it was trained with.
    """
    width = config.integer("n_embed", *HIDDEN, default=64)
    config = config.overlay(hidden_size=width)
    dims = read_dims(config, layers=2, heads=8, intermediate=4 * width, vocab=250880, tied=True)
    norm = config.prefix + "transformer.word_embeddings_layernorm"
    return llama_like(
        config,
        dims,
        names=BLOOM,
        **EVERY_BIAS,
        extra=[vector(norm, dims.hidden, bias=True)],
        traits=("alibi",),
    )
