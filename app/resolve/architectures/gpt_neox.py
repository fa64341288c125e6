"""GPT-NeoX (Pythia, Dolly 2, RedPajama, Japanese GPT-NeoX)."""

from app.core.inventory import Part
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.common_shape import read_dims
from app.resolve.architectures.common_weights import vector
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import Names, llama_like

FUSED = ("query_key_value", "query_key_value", "query_key_value", "dense")
NEOX = Names(
    layer="gpt_neox.layers.{layer}",
    embed="gpt_neox.embed_in",
    head="embed_out",
    norm="gpt_neox.final_layer_norm",
    attention="attention",
    qkvo=FUSED,
    mlp=("dense_h_to_4h", "dense_4h_to_h"),
)
JAPANESE = Names(
    layer="gpt_neox_japanese.layers.{layer}",
    embed="gpt_neox_japanese.embed_in",
    head="embed_out",
    norm="gpt_neox_japanese.final_layer_norm",
    attention="attention",
    qkvo=FUSED,
    mlp=("dense_h_to_4h", "dense_4h_to_h"),
)


@family("gpt_neox", architectures=("GPTNeoXForCausalLM",))
def gpt_neox(config: Config) -> ModelShape:
    """Multi-head attention, biases everywhere but on the head. Defaults: GPTNeoXConfig."""
    dims = read_dims(
        config,
        layers=44,
        hidden=6144,
        heads=64,
        intermediate=24576,
        vocab=50432,
        max_positions=2048,
    )
    bias = config.boolean("attention_bias", default=True)
    return llama_like(
        config,
        dims,
        names=NEOX,
        qkv_bias=bias,
        out_bias=bias,
        mlp_bias=True,
        norm_bias=True,
    )


@family("gpt_neox_japanese", architectures=("GPTNeoXJapaneseForCausalLM",))
def gpt_neox_japanese(config: Config) -> ModelShape:
    """Without biases but one: the last layer's attention output. Defaults:
    GPTNeoXJapaneseConfig.
    """
    hidden = config.integer("hidden_size", default=2560)
    times = config.integer("intermediate_multiple_size", default=4, maximum=1024)
    dims = read_dims(
        config,
        layers=32,
        hidden=2560,
        heads=32,
        intermediate=times * hidden,
        vocab=32000,
        max_positions=2048,
        tied=True,
    )
    bias = f"{JAPANESE.at(config)}.attention.dense_bias"
    last = [dims.layers - 1]
    return llama_like(
        config,
        dims,
        names=JAPANESE,
        norm_bias=True,
        extra=[vector(bias, dims.hidden, part=Part.ATTENTION, layers=last)],
    )
