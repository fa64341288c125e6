"""Cohere Command-R, R+ and Aya (v1), Command-R7B and Command-A (v2), Command-A MoE."""

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.common_shape import Dims, read_dims
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import (
    Names,
    attention_bias,
    dense_mlp,
    every_nth_full,
    layer_windows,
    llama_like,
    mixture,
    window_size,
)

COHERE = Names(norms=("input_layernorm",))


def _dims(config: Config, **defaults: int) -> Dims:
    return read_dims(
        config,
        layers=40,
        hidden=8192,
        heads=64,
        intermediate=22528,
        vocab=256000,
        max_positions=8192,
        tied=True,
        **defaults,
    )


def _window(config: Config) -> int | None:
    """Cohere's layers see `sliding_window` tokens before the current one, so they keep one more
    (vLLM's reading).
    """
    window = window_size(config, default=4096)
    return None if window is None else window + 1


@family("cohere", architectures=("CohereForCausalLM",))
def cohere(config: Config) -> ModelShape:
    """Attention and MLP in parallel after one norm. Defaults: CohereConfig."""
    dims = _dims(config)
    normed = config.boolean("use_qk_norm", default=False)
    sizes = (dims.heads * dims.head_dim, dims.kv_heads * dims.head_dim)
    return llama_like(
        config,
        dims,
        names=COHERE,
        **attention_bias(config),
        qk_norm=sizes if normed else None,
    )


@family("cohere2", architectures=("Cohere2ForCausalLM",))
def cohere2(config: Config) -> ModelShape:
    """Three windowed layers, then a full one. Defaults: Cohere2Config."""
    dims = _dims(config)
    period = config.integer("sliding_window_pattern", default=4)
    windows = layer_windows(
        config, dims.layers, _window(config), default=every_nth_full(dims.layers, period)
    )
    return llama_like(config, dims, names=COHERE, windows=windows, **attention_bias(config))


@family("cohere2_moe", architectures=("Cohere2MoeForCausalLM",))
def cohere2_moe(config: Config) -> ModelShape:
    """Windows as in Cohere 2; leading dense layers have a pattern and width of their own.

    Defaults: Cohere2MoeConfig.
    """
    dims = _dims(config, head_dim=128)
    layers = dims.layers
    lead = min(config.integer("first_k_dense_replace", default=0, minimum=0), layers)
    lead_period = config.integer("prefix_dense_sliding_window_pattern", default=1)
    period = config.integer("sliding_window_pattern", default=4)
    pattern = every_nth_full(lead, lead_period) + every_nth_full(layers - lead, period)
    kinds = config.texts("mlp_layer_types")
    if kinds is None:
        kinds = ["dense"] * lead + ["sparse"] * (layers - lead)
    kinds = config.per_layer(kinds, "mlp_layer_types", layers)
    dense = [index for index, kind in enumerate(kinds) if kind == "dense"]
    sparse = [index for index, kind in enumerate(kinds) if kind != "dense"]
    at = COHERE.at(config)
    shared = config.integer("num_shared_experts", default=0, minimum=0)
    lead_width = config.integer("prefix_dense_intermediate_size", default=dims.intermediate)
    return llama_like(
        config,
        dims,
        names=COHERE,
        windows=layer_windows(config, layers, _window(config), default=pattern),
        **attention_bias(config),
        mlp=[
            *dense_mlp(at, dims, dense, intermediate=lead_width),
            *mixture(
                at,
                dims.hidden,
                dims.intermediate,
                sparse,
                num_experts=config.integer("num_experts", default=8),
                top_k=config.integer("num_experts_per_tok", default=2),
                shared_width=shared * dims.intermediate,
            ),
        ],
    )
