"""Jais 2, and the first Jais (remote code `JAISLMHeadModel`)."""

from dataclasses import replace

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.common_shape import read_dims
from app.resolve.architectures.fields import Config
from app.resolve.architectures.gpt2 import GPT2, gpt2_dims
from app.resolve.architectures.llama_like import EVERY_BIAS, Names, llama_like, position_table

JAIS2 = Names(mlp=("up_proj", "down_proj"))
JAIS = replace(GPT2, mlp=("c_fc2", "c_fc", "c_proj"))


@family("jais2", architectures=("Jais2ForCausalLM",))
def jais2(config: Config) -> ModelShape:
    """Full attention, biases everywhere, an ungated MLP. Defaults: Jais2Config."""
    dims = read_dims(
        config,
        layers=32,
        hidden=3328,
        heads=26,
        intermediate=26624,
        vocab=150272,
        max_positions=8192,
    )
    bias = config.boolean("attention_bias", default=True)
    return llama_like(
        config,
        dims,
        names=JAIS2,
        qkv_bias=bias,
        out_bias=bias,
        mlp_bias=config.boolean("mlp_bias", default=True),
        norm_bias=True,
    )


@family("jais", architectures=("JAISLMHeadModel",))
def jais(config: Config) -> ModelShape:
    """GPT-2 with ALiBi and a gated MLP; a tied head. Defaults: JAISConfig of the checkpoints."""
    dims = gpt2_dims(config)
    alibi = config.text("position_embedding_type", default="learned") == "alibi"
    gated = config.text("activation_function", default="gelu_new") == "swiglu"
    names = JAIS if gated else GPT2
    table = position_table(config, dims, "transformer.wpe")
    return llama_like(
        config,
        dims,
        names=names,
        **EVERY_BIAS,
        extra=() if alibi else [table],
        traits=("alibi",) if alibi else (),
    )
