"""StarCoder and SantaCoder (`gpt_bigcode`), StarCoder 2."""

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.common_shape import HEADS, read_dims
from app.resolve.architectures.fields import Config
from app.resolve.architectures.gpt2 import gpt2
from app.resolve.architectures.llama_like import Names, llama_like, window_size

STARCODER2 = Names(mlp=("c_fc", "c_proj"))


@family("gpt_bigcode", architectures=("GPTBigCodeForCausalLM",))
def gpt_bigcode(config: Config) -> ModelShape:
    """GPT-2 with one KV head where `multi_query` is true. Defaults: GPTBigCodeConfig."""
    heads = config.integer(*HEADS, default=12)
    kv_heads = 1 if config.boolean("multi_query", default=True) else heads
    return gpt2(config.overlay(num_key_value_heads=kv_heads))


@family("starcoder2", architectures=("Starcoder2ForCausalLM",))
def starcoder2(config: Config) -> ModelShape:
    """A window in every layer where given, one switch for all biases. Starcoder2Config."""
    dims = read_dims(
        config,
        layers=30,
        hidden=3072,
        heads=24,
        kv_heads=2,
        intermediate=12288,
        vocab=49152,
        max_positions=4096,
        tied=True,
    )
    bias = config.boolean("use_bias", default=True)
    return llama_like(
        config,
        dims,
        names=STARCODER2,
        windows=window_size(config),
        qkv_bias=bias,
        out_bias=bias,
        mlp_bias=bias,
        norm_bias=True,
    )
