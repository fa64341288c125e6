"""Code World Model."""

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.common_shape import read_dims
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import layer_windows, llama_like, window_size


@family("cwm", architectures=("CwmForCausalLM",))
def cwm(config: Config) -> ModelShape:
    """One full layer (the first of each four), then three windowed ones. Defaults: CwmConfig."""
    dims = read_dims(
        config,
        layers=64,
        hidden=6144,
        heads=48,
        kv_heads=8,
        head_dim=128,
        intermediate=21504,
        vocab=128256,
        max_positions=131072,
    )
    windows = layer_windows(
        config,
        dims.layers,
        window_size(config, default=8192),
        default=[index % 4 != 0 for index in range(dims.layers)],
    )
    return llama_like(
        config, dims, windows=windows, mlp_bias=config.boolean("mlp_bias", default=False)
    )
