"""Qwen 1.5, 2 and 2.5: dense, and the mixtures of Qwen1.5-MoE and Qwen2-57B-A14B."""

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.common_shape import read_dims
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import (
    LLAMA,
    dense_mlp,
    layer_windows,
    llama_like,
    mixture,
    window_size,
)

DUAL_CHUNK = "dual_chunk_attention"
SOME_WINDOWED = "windows_in_some_layers"


def qwen_window(config: Config) -> int | None:
    """`sliding_window`, which counts only where `use_sliding_window` is true."""
    used = config.boolean("use_sliding_window", default=False)
    return window_size(config, default=4096) if used else None


def qwen_windows(config: Config, layers: int) -> list[int | None]:
    """Layers from `max_window_layers` on have the window, unless `layer_types` says otherwise."""
    first = config.integer("max_window_layers", default=28, minimum=0)
    default = [index >= first for index in range(layers)]
    return layer_windows(config, layers, qwen_window(config), default=default)


def qwen_traits(config: Config, windows: list[int | None] | None = None) -> list[str]:
    """What engines ask of a Qwen: attention within chunks (the 1M models), and windows in some of
    its layers beside a `max_window_layers` that stops short of the last.
    """
    traits = [DUAL_CHUNK] if config.has("dual_chunk_attention_config") else []
    if windows and len(set(windows)) > 1:
        last = config.integer("max_window_layers", default=28, minimum=0)
        traits += [SOME_WINDOWED] if last != len(windows) else []
    return traits


def sparse_layers(config: Config, layers: int) -> tuple[list[int], list[int]]:
    """(mixture layers, dense layers): each `decoder_sparse_step`-th layer routes, except those in
    `mlp_only_layers`.
    """
    step = config.integer("decoder_sparse_step", default=1)
    dense = set(config.integers("mlp_only_layers") or ())
    sparse = [index for index in range(layers) if index not in dense and (index + 1) % step == 0]
    routed = set(sparse)
    return sparse, [index for index in range(layers) if index not in routed]


@family(
    "qwen2",
    architectures=(
        "Qwen2ForCausalLM",
        "Qwen2Model",
        "Qwen2ForRewardModel",
        "Qwen2ForProcessRewardModel",
    ),
)
def qwen2(config: Config) -> ModelShape:
    """Grouped-query attention with biases on q, k and v. Defaults: Qwen2Config."""
    dims = read_dims(
        config,
        layers=32,
        hidden=4096,
        heads=32,
        kv_heads=32,
        intermediate=22016,
        vocab=151936,
        max_positions=32768,
    )
    windows = qwen_windows(config, dims.layers)
    return llama_like(
        config, dims, windows=windows, qkv_bias=True, traits=qwen_traits(config, windows)
    )


@family("qwen2_moe", architectures=("Qwen2MoeForCausalLM",))
def qwen2_moe(config: Config) -> ModelShape:
    """Routed experts beside one gated shared expert. Defaults: Qwen2MoeConfig.

    Engines window this model in all layers or in none: a mixed `layer_types` caches in full.
    """
    dims = read_dims(
        config,
        layers=24,
        hidden=2048,
        heads=16,
        kv_heads=16,
        intermediate=5632,
        vocab=151936,
        max_positions=32768,
    )
    window = qwen_window(config)
    windows = layer_windows(
        config,
        dims.layers,
        window,
        default=[
            index % 2 == 0 and index < config.integer("max_window_layers", default=28, minimum=0)
            for index in range(dims.layers)
        ],
    )
    sparse, dense = sparse_layers(config, dims.layers)
    at = LLAMA.at(config)
    mlp = [
        *dense_mlp(at, dims, dense),
        *mixture(
            at,
            dims.hidden,
            config.integer("moe_intermediate_size", default=1408),
            sparse,
            num_experts=config.integer("num_experts", "num_local_experts", default=60),
            top_k=config.integer("num_experts_per_tok", default=4),
            shared_width=config.integer("shared_expert_intermediate_size", default=5632),
            shared="shared_expert",
            shared_gate="shared_expert_gate",
        ),
    ]
    return llama_like(
        config,
        dims,
        windows=window if all(windows) else None,
        qkv_bias=config.boolean("qkv_bias", default=True),
        mlp=mlp,
        traits=qwen_traits(config),
    )
