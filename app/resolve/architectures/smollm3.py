"""SmolLM3."""

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.common_shape import read_dims
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import (
    attention_bias,
    layer_windows,
    llama_like,
    window_size,
)


@family("smollm3", architectures=("SmolLM3ForCausalLM",))
def smollm3(config: Config) -> ModelShape:
    """Full attention; where `use_sliding_window` is true, layers without rotary positions (each
    fourth) have the window. Defaults: SmolLM3Config.
    """
    dims = read_dims(
        config,
        layers=36,
        hidden=2048,
        heads=16,
        kv_heads=4,
        intermediate=11008,
        vocab=128256,
        max_positions=32768,
        tied=True,
    )
    rotary = config.integers("no_rope_layers")
    interval = config.integer("no_rope_layer_interval", default=4)
    if rotary is None:
        rotary = [(index + 1) % interval for index in range(dims.layers)]
    rotary = config.per_layer(rotary, "no_rope_layers", dims.layers)
    used = config.boolean("use_sliding_window", default=False)
    windows = layer_windows(
        config,
        dims.layers,
        window_size(config),
        default=[used and not turns for turns in rotary],
    )
    return llama_like(
        config,
        dims,
        windows=windows,
        **attention_bias(config),
        mlp_bias=config.boolean("mlp_bias", default=False),
    )
