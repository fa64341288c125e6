"""OLMo 1, 2 and 3, OLMoE and FlexOlmo."""

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.common_shape import Dims, read_dims
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import (
    LLAMA,
    Names,
    attention_bias,
    every_nth_full,
    layer_windows,
    llama_like,
    mixture,
    window_size,
)

UNWEIGHTED = Names(norms=(), norm="")
POST_NORM = Names(norms=("post_attention_layernorm", "post_feedforward_layernorm"))


def _dims(config: Config) -> Dims:
    return read_dims(
        config,
        layers=32,
        hidden=4096,
        heads=32,
        intermediate=11008,
        vocab=50304,
        max_positions=2048,
    )


def _full_width(dims: Dims) -> tuple[int, int]:
    return dims.heads * dims.head_dim, dims.kv_heads * dims.head_dim


@family("olmo", architectures=("OlmoForCausalLM", "OLMoForCausalLM"))
def olmo(config: Config) -> ModelShape:
    """Layer norms without parameters. Defaults: OlmoConfig."""
    return llama_like(config, _dims(config), names=UNWEIGHTED, **attention_bias(config))


@family("olmo2", architectures=("Olmo2ForCausalLM",))
def olmo2(config: Config) -> ModelShape:
    """Norms after each block, and over all queries and all keys. Defaults: Olmo2Config."""
    dims = _dims(config)
    return llama_like(
        config,
        dims,
        names=POST_NORM,
        **attention_bias(config),
        qk_norm=_full_width(dims),
    )


@family("olmo3", architectures=("Olmo3ForCausalLM",))
def olmo3(config: Config) -> ModelShape:
    """Three windowed layers, then a full one. Defaults: Olmo3Config."""
    dims = _dims(config)
    windows = layer_windows(
        config,
        dims.layers,
        window_size(config, default=4096),
        default=every_nth_full(dims.layers, 4),
    )
    return llama_like(
        config,
        dims,
        names=POST_NORM,
        windows=windows,
        **attention_bias(config),
        qk_norm=_full_width(dims),
    )


@family("olmoe", architectures=("OlmoeForCausalLM",))
def olmoe(config: Config) -> ModelShape:
    """A mixture in every layer, norms over all queries and keys. Defaults: OlmoeConfig."""
    dims = read_dims(
        config,
        layers=16,
        hidden=2048,
        heads=16,
        intermediate=2048,
        vocab=50304,
        max_positions=4096,
    )
    return _mixture(config, dims, LLAMA, experts=64, top_k=8)


@family("flex_olmo", architectures=("FlexOlmoForCausalLM",))
def flex_olmo(config: Config) -> ModelShape:
    """OLMo 2 with a mixture in every layer. Defaults: FlexOlmoConfig."""
    dims = read_dims(
        config,
        layers=32,
        hidden=4096,
        heads=32,
        intermediate=11008,
        vocab=100352,
        max_positions=4096,
    )
    return _mixture(config, dims, POST_NORM, experts=7, top_k=5)


def _mixture(config: Config, dims: Dims, names: Names, *, experts: int, top_k: int) -> ModelShape:
    return llama_like(
        config,
        dims,
        names=names,
        **attention_bias(config),
        qk_norm=_full_width(dims),
        mlp=mixture(
            names.at(config),
            dims.hidden,
            dims.intermediate,
            dims.all_layers,
            num_experts=config.integer("num_experts", "num_local_experts", default=experts),
            top_k=config.integer("num_experts_per_tok", default=top_k),
        ),
    )
