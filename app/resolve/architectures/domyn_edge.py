"""Domyn Edge: window and head width stated layer by layer."""

from collections.abc import Mapping
from dataclasses import replace

from app.core.inventory import Weight
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.common_shape import (
    attention_part,
    group_layers,
    model_shape,
    read_dims,
)
from app.resolve.architectures.common_weights import attention, norms, vector, vocabulary
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import Names, dense_mlp

DOMYN = Names(
    norms=(
        "pre_attention_norm",
        "post_attention_norm",
        "pre_feedforward_norm",
        "post_feedforward_norm",
    ),
    attention="attention",
    mlp_module="feedforward",
)


@family("domyn_edge", architectures=("DomynEdgeForCausalLM",))
def domyn_edge(config: Config) -> ModelShape:
    """`window_sizes` gives [tokens before, tokens after] a layer, so that one more is kept; 0 and
    less mean full attention. Norms on queries (without parameters) and keys. Sizes must be stated.
    """
    dims = read_dims(config)
    layers = dims.layers
    widths = _head_dims(config, layers, dims.head_dim)
    windows = _windows(config, layers)
    at = DOMYN.at(config)
    attentions: list[Weight] = []
    for width in dict.fromkeys(widths):
        members = [index for index in range(layers) if widths[index] == width]
        of_width = replace(dims, head_dim=width)
        attentions += attention(at, of_width, members, module=DOMYN.attention)
        attentions.append(vector(f"{at}.attention.k_norm", width, layers=members))
    parts = {
        (width, window): (attention_part(replace(dims, head_dim=width), window=window),)
        for width, window in set(zip(widths, windows, strict=True))
    }
    return model_shape(
        config,
        dims,
        groups=group_layers(
            [parts[pair] for pair in zip(widths, windows, strict=True)], dims.heads
        ),
        weights=[
            *vocabulary(dims, prefix=config.prefix),
            *attentions,
            *dense_mlp(at, dims, dims.all_layers, names=DOMYN),
            *norms(at, dims.hidden, dims.all_layers, *DOMYN.norms),
            vector(config.prefix + DOMYN.norm, dims.hidden),
        ],
    )


def _windows(config: Config, layers: int) -> list[int | None]:
    stated = config.sequence("window_sizes")
    if stated is None:
        return [None] * layers
    windows: list[int | None] = []
    for entry in config.per_layer(stated, "window_sizes", layers):
        match entry:
            case [int(before), *_] | int(before) if before < 2**31:
                windows.append(before + 1 if before > 0 else None)
            case _:
                raise config.fail("window_sizes", "must be a list of pairs of whole numbers")
    return windows


def _head_dims(config: Config, layers: int, default: int) -> list[int]:
    stated = config.get("per_layer_config")
    if stated is None:
        return [default] * layers
    if isinstance(stated, Mapping):
        entries = {str(name).lstrip("0") or "0": value for name, value in stated.items()}
        listed = [entries.get(str(index), {}) for index in range(layers)]
    else:
        listed = config.per_layer(
            config.sequence("per_layer_config") or [], "per_layer_config", layers
        )
    path = (*config.path, "per_layer_config")
    return [Config(entry, path=path).integer("head_dim", default=default) for entry in listed]
