"""Falcon 7B, 40B, 180B and Falcon-RW, also as first published (`RefinedWeb`)."""

from dataclasses import replace

from app.core.model import ModelShape
from app.core.weights import STORED_TIED_HEAD
from app.resolve.architectures import family
from app.resolve.architectures.common_shape import HEADS, HIDDEN, read_dims
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import Names, llama_like

ONE_NORM = Names(
    layer="transformer.h.{layer}",
    embed="transformer.word_embeddings",
    norm="transformer.ln_f",
    norms=("input_layernorm",),
    attention="self_attention",
    qkvo=("query_key_value", "query_key_value", "query_key_value", "dense"),
    mlp=("dense_h_to_4h", "dense_4h_to_h"),
)
TWO_NORMS = replace(ONE_NORM, norms=("input_layernorm", "post_attention_layernorm"))
PARALLEL_NORMS = replace(ONE_NORM, norms=("ln_attn", "ln_mlp"))


@family("falcon", "RefinedWebModel", architectures=("FalconForCausalLM", "RWForCausalLM"))
def falcon(config: Config) -> ModelShape:
    """One KV head (`multi_query`) in the old architecture, `num_kv_heads` in the new one.

    Defaults: FalconConfig. The new architecture has a norm for attention and one for the MLP,
    unless `num_ln_in_parallel_attn` is 1; the old one has a second norm only where the two are
    not parallel.
    """
    new = config.boolean("new_decoder_architecture", default=False)
    return _falcon(config, new=new)


@family("RefinedWeb")
def refined_web(config: Config) -> ModelShape:
    """Falcon 40B as first published: always the new architecture."""
    return _falcon(config, new=True)


def _falcon(config: Config, *, new: bool) -> ModelShape:
    hidden = config.integer("n_embed", *HIDDEN, default=4544)
    heads = config.integer(*HEADS, default=71)
    if new:
        kv_heads = config.integer("num_kv_heads", "n_head_kv", "num_key_value_heads", default=heads)
    else:
        kv_heads = 1 if config.boolean("multi_query", default=True) else heads
    dims = read_dims(
        config.overlay(hidden_size=hidden, n_head_kv=None, num_kv_heads=kv_heads),
        layers=32,
        heads=71,
        intermediate=config.integer("ffn_hidden_size", default=4 * hidden),
        vocab=65024,
        max_positions=2048,
        tied=True,
    )
    if new and config.integer("num_ln_in_parallel_attn", default=2, maximum=2) == 2:
        names = PARALLEL_NORMS
    elif new or config.boolean("parallel_attn", default=True):
        names = ONE_NORM
    else:
        names = TWO_NORMS
    bias = config.boolean("bias", default=False)
    return llama_like(
        config,
        dims,
        names=names,
        qkv_bias=bias,
        out_bias=bias,
        mlp_bias=bias,
        norm_bias=True,
        traits=(
            STORED_TIED_HEAD,
            *(("alibi",) if config.boolean("alibi", default=False) else ()),
        ),
    )
