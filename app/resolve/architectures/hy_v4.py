"""Hunyuan 4: latent attention with an indexer, sinks and a gate, in several residual streams."""

from collections.abc import Sequence

from app.core.inventory import Part, Split, Weight
from app.core.model import ModelShape
from app.core.precision import FLOAT32
from app.resolve.architectures import family
from app.resolve.architectures.blocks_moe import read_moe, sparse_layers
from app.resolve.architectures.common_shape import Dims, read_dims
from app.resolve.architectures.common_weights import linear
from app.resolve.architectures.deepseek_v32 import own_indexers
from app.resolve.architectures.fields import Config
from app.resolve.architectures.gqa_moe import sinks
from app.resolve.architectures.mla import (
    Indexer,
    Latent,
    mla_decoder,
    read_latent,
)

PERIOD = 4


@family("hy_v4", architectures=("HYV4ForCausalLM",))
def hy_v4(config: Config) -> ModelShape:
    """A latent a token in every layer, an 8-bit index key in the first and in each fourth from the
    second on. Defaults: HYV4Config.
    """
    dims = read_dims(
        config,
        layers=34,
        hidden=2816,
        heads=32,
        head_dim=256,
        intermediate=6912,
        vocab=120832,
        max_positions=262144,
    )
    latent = read_latent(config, nope=192, v=256)
    at = config.prefix + "model.layers.{layer}"

    def each(layers: Sequence[int]) -> list[Weight]:
        return [*_gate(config, at, dims, latent, layers), *_sinks(config, at, dims, layers)]

    return mla_decoder(
        config,
        dims,
        latent,
        read_moe(config, experts=256, top_k=8, width=768, shared=1),
        sparse_layers(config, dims.layers, first_dense=1),
        indexer=Indexer(
            heads=config.integer("index_n_heads", default=16),
            head_dim=config.integer("index_head_dim", default=128),
        ),
        indexed=_indexed(config, dims.layers),
        mtp=1,
        each=each,
        extra=_streams(config, at, dims) if config.boolean("enable_ihc", default=True) else (),
        traits=("sparse_attention", *(("attention_sinks",) if _sunk(config) else ())),
    )


def _indexed(config: Config, layers: int) -> list[bool]:
    """Sparse layers with an indexer of their own."""
    if config.has("indexer_types"):
        own = own_indexers(config, layers)
    else:
        own = [index == 0 or index % PERIOD == 1 for index in range(layers)]
    kinds = config.texts("layer_types")
    if kinds is None:
        return own
    kinds = config.per_layer(kinds, "layer_types", layers)
    return [flag and kind != "full_attention" for flag, kind in zip(own, kinds, strict=True)]


def _sinks(config: Config, at: str, dims: Dims, layers: Sequence[int]) -> list[Weight]:
    return sinks(at, dims, layers, name="learnable_sink_param") if _sunk(config) else []


def _sunk(config: Config) -> bool:
    return config.boolean("learnable_sink", default=True)


def _gate(
    config: Config, at: str, dims: Dims, latent: Latent, layers: Sequence[int]
) -> list[Weight]:
    """A gate on every element of the attention's output, or on every head."""
    if not layers or not config.boolean("gated_mla", default=True):
        return []
    headwise = config.text("gating_type", default="elementwise") == "headwise"
    return [
        linear(
            f"{at}.self_attn.linear_gate",
            dims.heads * (1 if headwise else latent.v_head_dim),
            dims.hidden,
            part=Part.ATTENTION,
            layers=layers,
            split=Split.COLUMN,
        )
    ]


def _streams(config: Config, at: str, dims: Dims) -> list[Weight]:
    """Weights that read and write the residual streams around attention and MLP, and their end."""
    streams = config.integer("hc_mult", default=4)
    width = streams * dims.hidden
    inside = {"fn": (2 * streams, width), "base": (2 * streams,), "scale": (2,)}
    head = {"fn": (streams, width), "base": (streams,), "scale": (1,)}
    root = f"{config.prefix}model.hc_head.hc_"
    return [
        *(
            _array(f"{at}.{place}_hc.{name}", shape, dims.all_layers)
            for place in ("attn", "ffn")
            for name, shape in inside.items()
        ),
        *(_array(root + name, shape, None) for name, shape in head.items()),
    ]


def _array(name: str, shape: tuple[int, ...], layers: Sequence[int] | None) -> Weight:
    where = None if layers is None else tuple(layers)
    return Weight(name=name, shape=shape, part=Part.OTHER, layers=where, dtype=FLOAT32)
