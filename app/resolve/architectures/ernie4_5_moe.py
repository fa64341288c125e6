"""ERNIE 4.5 with experts: dense layers around a range of routed ones."""

from dataclasses import replace

from app.core.inventory import Part, Weight
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_moe import as_mtp, drafts, mtp_layers, read_moe
from app.resolve.architectures.common_shape import Dims, attention_part, read_dims
from app.resolve.architectures.common_weights import attention, linear, norms, vector
from app.resolve.architectures.fields import Config
from app.resolve.architectures.gqa_moe import moe_decoder
from app.resolve.architectures.llama_like import dense_mlp


@family("ernie4_5_moe", architectures=("Ernie4_5_MoeForCausalLM", "Ernie4_5_MoEForCausalLM"))
def ernie4_5_moe(config: Config) -> ModelShape:
    """K and V of every token in every layer. Defaults: Ernie4_5_MoeConfig."""
    dims = ernie_dims(config)
    bias = config.boolean("use_bias", default=False)
    shape = moe_decoder(
        config,
        dims,
        read_moe(config, experts=64, top_k=6, width=1536, shared=2),
        routed_range(config, dims.layers),
        qkv_bias=bias,
        out_bias=bias,
        mlp_bias=bias,
        correction_name="mlp.moe_statics.e_score_correction_bias",
        correction_counts=True,
    )
    modules = mtp_layers(config, dims)
    weights = [_without_bias(weight) for weight in shape.weights]
    return replace(
        shape,
        weights=(*weights, *_mtp(config, dims, len(modules), bias=bias)),
        draft_groups=drafts(modules, dims.heads, attention_part(dims)),
    )


def ernie_dims(config: Config) -> Dims:
    """The sizes, by the defaults of Ernie4_5_MoeConfig."""
    return read_dims(
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


def _mtp(config: Config, dims: Dims, count: int, *, bias: bool) -> list[Weight]:
    """Prediction modules: a dense layer behind two norms and a projection."""
    if not count:
        return []
    places = tuple(range(count))
    root = config.prefix + "model."
    at = root + "mtp_block.{layer}"
    size = dims.hidden
    return as_mtp(
        [
            vector(f"{root}mtp_emb_norm.{{layer}}", size, layers=places),
            vector(f"{root}mtp_hidden_norm.{{layer}}", size, layers=places),
            linear(
                f"{root}mtp_linear_proj.{{layer}}",
                size,
                2 * size,
                part=Part.MTP,
                layers=places,
                bias=bias,
            ),
            *attention(at, dims, places, bias=bias, out_bias=bias),
            *dense_mlp(at, dims, places, bias=bias),
            *norms(at, size, places, "input_layernorm", "post_attention_layernorm"),
        ]
    )


def _without_bias(weight: Weight) -> Weight:
    """Routed experts have no biases, whatever `use_bias` says of the other matrices."""
    return replace(weight, bias=0) if weight.part is Part.ROUTED_EXPERTS else weight


def routed_range(config: Config, layers: int) -> list[bool]:
    """Layers from `moe_layer_start_index` to `moe_layer_end_index` (-1: the last), each
    `moe_layer_interval`-th counted from the first layer of all.
    """
    first = config.integer("moe_layer_start_index", default=1, minimum=0)
    last = config.integer("moe_layer_end_index", default=-1, minimum=-1)
    step = config.integer("moe_layer_interval", default=1)
    end = layers - 1 if last == -1 else last
    return [first <= index <= end and (index + 1) % step == 0 for index in range(layers)]
