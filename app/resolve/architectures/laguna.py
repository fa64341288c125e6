"""Laguna: windowed and full layers with head counts of their own, gates on the attention."""

from dataclasses import replace

from app.core.inventory import Weight
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_mixed import Kind, kinds_of, mixed_decoder
from app.resolve.architectures.blocks_moe import feed_forward, read_moe, sparse_layers
from app.resolve.architectures.common_shape import read_dims
from app.resolve.architectures.common_weights import output_gate
from app.resolve.architectures.fields import Config
from app.resolve.architectures.gqa_moe import head_gate, sinks
from app.resolve.architectures.llama_like import layer_windows, window_size


@family("laguna", architectures=("LagunaForCausalLM",))
def laguna(config: Config) -> ModelShape:
    """Full attention unless `layer_types` says otherwise; query heads may be listed by layer.
    The router's correction bias counts as a parameter. Defaults: LagunaConfig.
    """
    dims = read_dims(
        config,
        layers=40,
        hidden=2048,
        heads=48,
        kv_heads=8,
        head_dim=128,
        intermediate=8192,
        vocab=100352,
        max_positions=131072,
    )
    at = config.prefix + "model.layers.{layer}"
    windows = layer_windows(
        config, dims.layers, window_size(config, default=512), default=[False] * dims.layers
    )
    heads = config.integers("num_attention_heads_per_layer", minimum=1)
    heads = config.per_layer(
        heads or [dims.heads] * dims.layers, "num_attention_heads_per_layer", dims.layers
    )
    kinds = kinds_of(
        [
            Kind(dims=replace(dims, heads=count), layers=(), window=window)
            for count, window in zip(heads, windows, strict=True)
        ]
    )
    gating = config.get("gating")
    sinking = config.boolean("swa_attention_sink_enabled", default=False)

    def extras(kind: Kind) -> list[Weight]:
        weights = [] if gating is False else [_gate(at, kind, gating)]
        return weights + (
            sinks(at, kind.dims, kind.layers) if sinking and kind.window is not None else []
        )

    bias = config.boolean("attention_bias", default=False)
    moe = read_moe(config, experts=256, top_k=8, width=512, shared=1)
    if not config.has("shared_expert_intermediate_size"):
        moe = replace(moe, shared_width=512)
    mlps = feed_forward(
        at,
        dims,
        moe,
        sparse_layers(config, dims.layers, first_dense=1),
        shared="shared_expert",
    )
    return mixed_decoder(
        config,
        dims,
        kinds,
        [replace(weight, buffer=False) for weight in mlps],
        qkv_bias=bias,
        out_bias=bias,
        qk_norm=True,
        per_kind=extras,
        traits=("attention_sinks",) if sinking else (),
    )


def _gate(at: str, kind: Kind, gating: object) -> Weight:
    """One number a head, or one an element of each head."""
    if gating in (None, True, "per-head"):
        return head_gate(at, kind.dims, kind.layers)
    return output_gate(at, kind.dims, kind.layers, name="g_proj")
