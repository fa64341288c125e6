"""Falcon-H1: attention and a Mamba 2 mixer side by side in every layer."""

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_state import read_mamba2
from app.resolve.architectures.common_shape import (
    attention_part,
    read_dims,
)
from app.resolve.architectures.common_weights import attention
from app.resolve.architectures.fields import Config
from app.resolve.architectures.hybrid import hybrid_decoder, with_kv_heads
from app.resolve.architectures.jamba import FEED_FORWARD
from app.resolve.architectures.llama_like import dense_mlp

BOTH = "attention and state"


@family("falcon_h1", architectures=("FalconH1ForCausalLM",))
def falcon_h1(config: Config) -> ModelShape:
    """Every layer caches K and V and a Mamba 2 state, `mamba_d_ssm` wide (null: `mamba_expand` x
    hidden). Defaults: FalconH1Config.
    """
    dims = read_dims(
        with_kv_heads(config, 8),
        layers=32,
        hidden=4096,
        heads=32,
        intermediate=14336,
        vocab=128000,
        max_positions=8192,
    )
    stated = "mamba_d_ssm" in config.data
    mixer = read_mamba2(
        config,
        dims.hidden,
        heads=128,
        groups=1,
        state=256,
        inner=config.optional_integer("mamba_d_ssm") or (None if stated else 1024),
        out_bias=config.boolean("projectors_bias", default=False),
        norm=config.boolean("mamba_rms_norm", default=False),
    )
    bias = config.boolean("attention_bias", default=False)
    mlp_bias = config.boolean("mlp_bias", default=False)
    at = config.prefix + "model.layers.{layer}"
    layers = dims.all_layers
    parts = {BOTH: (attention_part(dims), mixer.part())}
    weights = [
        *attention(at, dims, layers, bias=bias, out_bias=bias),
        *mixer.weights(f"{at}.mamba", layers),
        *dense_mlp(at, dims, layers, names=FEED_FORWARD, bias=mlp_bias),
    ]
    return hybrid_decoder(config, dims, [BOTH] * dims.layers, parts, weights, names=FEED_FORWARD)
