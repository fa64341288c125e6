"""dots.llm1: grouped-query attention with normed heads over a mixture with shared experts."""

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_moe import read_moe, sparse_layers
from app.resolve.architectures.common_shape import read_dims
from app.resolve.architectures.fields import Config
from app.resolve.architectures.gqa_moe import moe_decoder
from app.resolve.architectures.llama_like import layer_windows, window_size


@family("dots1", architectures=("Dots1ForCausalLM",))
def dots1(config: Config) -> ModelShape:
    """Layers from `max_window_layers` on keep a window, which is none by default.
    Defaults: Dots1Config.
    """
    dims = read_dims(
        config,
        layers=62,
        hidden=4608,
        heads=32,
        intermediate=10944,
        vocab=152064,
        max_positions=2048,
    )
    bias = config.boolean("attention_bias", default=False)
    first = config.integer("max_window_layers", default=62, minimum=0)
    windowed = [index >= first for index in range(dims.layers)]
    window = window_size(config, default=4096)
    return moe_decoder(
        config,
        dims,
        read_moe(config, width=1408),
        sparse_layers(config, dims.layers),
        windows=layer_windows(config, dims.layers, window, default=windowed),
        qkv_bias=bias,
        out_bias=bias,
        qk_norm=(dims.head_dim, dims.head_dim),
    )
