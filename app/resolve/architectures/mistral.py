"""Mistral 7B, Nemo, Small, Devstral; Ministral and Ministral 3 (their text models)."""

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.common_shape import Dims, read_dims
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import layer_windows, llama_like, window_size


@family("mistral", architectures=("MistralForCausalLM", "MistralModel", "GritLM"))
def mistral(config: Config) -> ModelShape:
    """A sliding window in every layer where it is not null (v0.1; 4096 where the config does not
    say). Defaults: MistralConfig.
    """
    dims = mistral_dims(config)
    window = window_size(config, default=4096)
    return llama_like(config, dims, windows=layer_windows(config, dims.layers, window))


def mistral_dims(config: Config) -> Dims:
    """The sizes, by the defaults of MistralConfig and MixtralConfig."""
    return read_dims(
        config,
        layers=32,
        hidden=4096,
        heads=32,
        kv_heads=8,
        intermediate=14336,
        vocab=32000,
        max_positions=131072,
    )


@family("ministral", architectures=("MinistralForCausalLM",))
def ministral(config: Config) -> ModelShape:
    """Windowed and full layers as `layer_types` says; all windowed without. MinistralConfig."""
    return mistral(config)


@family("ministral3", architectures=("Ministral3ForCausalLM",))
def ministral3(config: Config) -> ModelShape:
    """Full attention unless a window is given. Defaults: Ministral3Config."""
    dims = read_dims(
        config,
        layers=34,
        hidden=4096,
        heads=32,
        kv_heads=8,
        head_dim=128,
        intermediate=14336,
        vocab=131072,
        max_positions=262144,
    )
    return llama_like(config, dims, windows=layer_windows(config, dims.layers, window_size(config)))
