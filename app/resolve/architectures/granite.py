"""Granite 3 and 4 without state layers: dense, MoE, MoE with a shared MLP, windowed versions."""

from collections.abc import Sequence
from typing import Any

from app.core.inventory import Part, Split, Weight
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.common_shape import Dims, read_dims
from app.resolve.architectures.common_weights import linear, routed_experts, router, vector
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import (
    LLAMA,
    attention_bias,
    layer_windows,
    llama_like,
    window_size,
)

SINKS = "attention_sinks"


def _dims(config: Config) -> Dims:
    return read_dims(
        config,
        layers=32,
        hidden=4096,
        heads=32,
        intermediate=11008,
        vocab=32000,
        max_positions=2048,
    )


@family("granite", architectures=("GraniteForCausalLM",))
def granite(config: Config) -> ModelShape:
    """Llama with scaling factors. Defaults: GraniteConfig."""
    return _dense(config, _dims(config), windowed=False)


@family("granite_swa", architectures=("GraniteSWAForCausalLM",))
def granite_swa(config: Config) -> ModelShape:
    """One full layer (the first of each four), three windowed ones; attention sinks. Defaults:
    GraniteSWAConfig.
    """
    dims = read_dims(
        config,
        layers=24,
        hidden=2560,
        heads=20,
        kv_heads=4,
        intermediate=8192,
        vocab=100352,
        max_positions=8192,
        tied=True,
    )
    return _dense(config, dims, windowed=True)


@family("granitemoe", architectures=("GraniteMoeForCausalLM",))
def granitemoe(config: Config) -> ModelShape:
    """A mixture in every layer. Defaults: GraniteMoeConfig."""
    return _moe(config, _dims(config), shared=0, windowed=False)


@family("granitemoeshared", architectures=("GraniteMoeSharedForCausalLM",))
def granitemoeshared(config: Config) -> ModelShape:
    """A mixture and a shared MLP in every layer. Defaults: GraniteMoeSharedConfig."""
    shared = config.integer("shared_intermediate_size", default=0, minimum=0)
    return _moe(config, _dims(config), shared=shared, windowed=False)


@family("granitemoe_swa", architectures=("GraniteMoeSWAForCausalLM",))
def granitemoe_swa(config: Config) -> ModelShape:
    """As `granitemoeshared`, with the windows and sinks of `granite_swa`. GraniteMoeSWAConfig."""
    shared = config.integer("shared_intermediate_size", default=0, minimum=0)
    return _moe(config, _dims(config), shared=shared, windowed=True)


def granite_experts(
    at: str, config: Config, dims: Dims, layers: Sequence[int], *, shared: int
) -> list[Weight]:
    """Router and experts; the fused tensors hold all experts, and the shared MLP is fused too."""
    num_experts = config.integer("num_local_experts", default=8)
    weights = [
        router(at, dims.hidden, num_experts, layers, module="block_sparse_moe.router.layer"),
        *routed_experts(
            at,
            dims.hidden,
            dims.intermediate,
            layers,
            num_experts=num_experts,
            top_k=config.integer("num_experts_per_tok", default=2),
            module="block_sparse_moe",
            names=("input_linear", "input_linear", "output_linear"),
        ),
    ]
    return [*weights, *granite_shared_mlp(at, dims, layers, shared)]


def granite_shared_mlp(at: str, dims: Dims, layers: Sequence[int], width: int) -> list[Weight]:
    """The MLP every token passes through; gate and up are one matrix. Nothing for no width."""
    if not width:
        return []
    common: dict[str, Any] = {"part": Part.SHARED_EXPERTS, "layers": layers}
    rows = 2 * width
    return [
        linear(f"{at}.shared_mlp.input_linear", rows, dims.hidden, split=Split.COLUMN, **common),
        linear(f"{at}.shared_mlp.output_linear", dims.hidden, width, split=Split.ROW, **common),
    ]


def _windows(config: Config, dims: Dims) -> list[int | None]:
    pattern = [index % 4 != 0 for index in range(dims.layers)]
    window = window_size(config, default=128)
    return layer_windows(config, dims.layers, window, default=pattern)


def _sinks(config: Config, dims: Dims) -> list[Weight]:
    name = f"{LLAMA.at(config)}.self_attn.sinks"
    return [vector(name, dims.heads, part=Part.ATTENTION, layers=dims.all_layers)]


def _dense(config: Config, dims: Dims, *, windowed: bool) -> ModelShape:
    return llama_like(
        config,
        dims,
        windows=_windows(config, dims) if windowed else None,
        **attention_bias(config),
        mlp_bias=config.boolean("mlp_bias", default=False),
        extra=_sinks(config, dims) if windowed else (),
        traits=(SINKS,) if windowed else (),
    )


def _moe(config: Config, dims: Dims, *, shared: int, windowed: bool) -> ModelShape:
    at = LLAMA.at(config)
    return llama_like(
        config,
        dims,
        windows=_windows(config, dims) if windowed else None,
        **attention_bias(config),
        mlp=granite_experts(at, config, dims, dims.all_layers, shared=shared),
        extra=_sinks(config, dims) if windowed else (),
        traits=(SINKS,) if windowed else (),
    )
