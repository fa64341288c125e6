"""ERNIE 4.5 with experts: dense layers around a range of routed ones."""

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks import read_dims
from app.resolve.architectures.blocks_moe import mtp_layers, read_moe
from app.resolve.architectures.fields import Config
from app.resolve.architectures.gqa_moe import moe_decoder


@family("ernie4_5_moe", architectures=("Ernie4_5_MoeForCausalLM", "Ernie4_5_MoEForCausalLM"))
def ernie4_5_moe(config: Config) -> ModelShape:
    """K and V of every token in every layer. Defaults: Ernie4_5_MoeConfig."""
    dims = read_dims(
        config,
        layers=28,
        hidden=2560,
        heads=20,
        kv_heads=4,
        intermediate=12288,
        vocab=103424,
        max_positions=131072,
        tied=True,
    )
    bias = config.boolean("use_bias", default=False)
    return moe_decoder(
        config,
        dims,
        read_moe(config, experts=64, top_k=6, width=1536, shared=2),
        routed_range(config, dims.layers),
        qkv_bias=bias,
        out_bias=bias,
        mlp_bias=bias,
        correction_name="mlp.moe_statics.e_score_correction_bias",
        correction_counts=True,
        modules=mtp_layers(config, dims),
        module_is_dense=True,
    )


def routed_range(config: Config, layers: int) -> list[bool]:
    """Layers from `moe_layer_start_index` to `moe_layer_end_index` (-1: the last), each
    `moe_layer_interval`-th counted from the first layer of all.
    """
    first = config.integer("moe_layer_start_index", default=1, minimum=0)
    last = config.integer("moe_layer_end_index", default=-1, minimum=-1)
    step = config.integer("moe_layer_interval", default=1)
    end = layers - 1 if last == -1 else last
    return [first <= index <= end and (index + 1) % step == 0 for index in range(layers)]
