"""PLaMo 3 (dense attention; PLaMo 2 mixes it with state layers)."""

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.common_shape import read_dims
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import (
    FUSED_GATE_UP,
    FUSED_QKV,
    Names,
    every_nth_full,
    layer_windows,
    llama_like,
    window_size,
)

PLAMO3 = Names(
    layer="model.layers.layers.{layer}",
    norms=("pre_mixer_norm", "post_mixer_norm", "pre_mlp_norm", "post_mlp_norm"),
    attention="mixer",
    qkvo=FUSED_QKV,
    qk_norms=("mixer.q_norm", "mixer.k_norm"),
    mlp=FUSED_GATE_UP,
)


@family("plamo3", architectures=("Plamo3ForCausalLM",))
def plamo3(config: Config) -> ModelShape:
    """Windowed layers with a full one each `sliding_window_pattern`; `sliding_window` may be a
    list with null for the full ones. Defaults: Plamo3Config of the checkpoints.
    """
    dims = read_dims(
        config,
        layers=32,
        hidden=4096,
        heads=32,
        kv_heads=4,
        head_dim=128,
        intermediate=13312,
        vocab=32000,
        max_positions=2048,
        tied=True,
    )
    return llama_like(
        config,
        dims,
        names=PLAMO3,
        windows=_windows(config, dims.layers),
        qk_norm=(dims.head_dim, dims.head_dim),
    )


def _windows(config: Config, layers: int) -> list[int | None]:
    listed = config.data.get("interleaved_sliding_window", config.data.get("sliding_window"))
    if isinstance(listed, list):
        reader = config.overlay(window=[0 if size is None else size for size in listed])
        sizes = reader.integers("window") or []
        return [size or None for size in config.per_layer(sizes, "sliding_window", layers)]
    period = config.integer("sliding_window_pattern", default=8)
    window = window_size(config, default=2048)
    pattern = every_nth_full(layers, period)
    return layer_windows(config, layers, window, default=pattern)
