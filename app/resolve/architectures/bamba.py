"""Bamba: Mamba 2 layers with attention in the layers of `attn_layer_indices`."""

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_state import read_mamba2
from app.resolve.architectures.common_shape import attention_part, read_dims
from app.resolve.architectures.common_weights import attention
from app.resolve.architectures.fields import MAX_LAYERS, Config
from app.resolve.architectures.hybrid import (
    FULL,
    LINEAR,
    hybrid_decoder,
    pick,
    with_kv_heads,
)
from app.resolve.architectures.jamba import FEED_FORWARD
from app.resolve.architectures.llama_like import dense_mlp


@family("bamba", architectures=("BambaForCausalLM",))
def bamba(config: Config) -> ModelShape:
    """The named layers cache K and V, all others a Mamba 2 state. Defaults: BambaConfig."""
    dims = read_dims(
        with_kv_heads(config, 8),
        layers=32,
        hidden=4096,
        heads=32,
        intermediate=14336,
        vocab=128000,
        max_positions=262144,
    )
    named = set(config.integers("attn_layer_indices", maximum=MAX_LAYERS) or ())
    kinds = [FULL if i in named else LINEAR for i in dims.all_layers]
    mixer = read_mamba2(config, dims.hidden, heads=128, groups=1, state=256)
    bias = config.boolean("attention_bias", default=False)
    mlp_bias = config.boolean("mlp_bias", default=False)
    at = config.prefix + "model.layers.{layer}"
    parts = {FULL: (attention_part(dims),), LINEAR: (mixer.part(),)}
    weights = [
        *attention(at, dims, pick(kinds, FULL), bias=bias, out_bias=bias),
        *mixer.weights(f"{at}.mamba", pick(kinds, LINEAR)),
        *dense_mlp(at, dims, dims.all_layers, names=FEED_FORWARD, bias=mlp_bias),
    ]
    return hybrid_decoder(config, dims, kinds, parts, weights, names=FEED_FORWARD)
