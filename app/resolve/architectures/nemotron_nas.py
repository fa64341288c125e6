"""Nemotron found by architecture search (Super 49B, Ultra 253B) and DeciLM: every block has its own
number of KV heads and MLP width, and may lack attention or MLP altogether.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.core.cache import CachePart
from app.core.inventory import Part, Weight
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.common_shape import (
    KV_HEADS,
    Dims,
    attention_part,
    group_layers,
    model_shape,
    read_dims,
)
from app.resolve.architectures.common_weights import (
    attention,
    gated_mlp,
    linear,
    norms,
    vector,
    vocabulary,
)
from app.resolve.architectures.fields import MAX_WIDTH, Config

MULTIPLE = 256
MAX_KNOWN = 64
NO_OP, LINEAR = 0, -1
"""In place of a KV head count or a width: no such sublayer; a single square matrix."""


@family("nemotron-nas", "deci", architectures=("DeciLMForCausalLM",))
def nemotron_nas(config: Config) -> ModelShape:
    """Blocks with attention cache K and V of heads / `n_heads_in_group` heads; blocks without
    cache nothing. Defaults: LlamaConfig.
    """
    blocks = config.sequence("block_configs")
    per_layer = config.integers("num_key_value_heads_per_layer", minimum=1)
    known = len(blocks or per_layer or ()) or 32
    if blocks is not None:
        config = config.overlay(**dict.fromkeys(KV_HEADS))
    dims = read_dims(
        config,
        layers=known,
        hidden=4096,
        heads=32,
        intermediate=11008,
        vocab=32000,
        max_positions=2048,
    )
    if blocks is not None:
        blocks = config.per_layer(blocks, "block_configs", dims.layers)
        heads, widths = _read_blocks(config, dims, blocks)
    else:
        heads = per_layer or [dims.kv_heads] * dims.layers
        heads = config.per_layer(heads, "num_key_value_heads_per_layer", dims.layers)
        widths = [dims.intermediate] * dims.layers
    at = config.prefix + "model.layers.{layer}"
    parts = {kv: _parts(dims, kv) for kv in set(heads)}
    with_attention = [i for i, kv in enumerate(heads) if kv != NO_OP]
    with_mlp = [i for i, width in enumerate(widths) if width != NO_OP]
    return model_shape(
        config,
        dims,
        groups=group_layers([parts[kv] for kv in heads], dims.heads),
        weights=[
            *vocabulary(dims, prefix=config.prefix),
            *_attention(config, dims, at, heads),
            *_mlps(config, dims, at, widths),
            *norms(at, dims.hidden, with_attention, "input_layernorm"),
            *norms(at, dims.hidden, with_mlp, "post_attention_layernorm"),
            vector(config.prefix + "model.norm", dims.hidden),
        ],
    )


def _read_blocks(config: Config, dims: Dims, blocks: Sequence[Any]) -> tuple[list[int], list[int]]:
    """KV heads and MLP width of each block; blocks that repeat are read once."""
    known: list[tuple[Any, int, int]] = []
    heads, widths = [], []
    for index, block in enumerate(blocks):
        found = next((entry for entry in known if entry[0] == block), None)
        if found is None:
            found = (
                block,
                _kv_heads(config, dims, index, block),
                _width(config, dims, index, block),
            )
            if len(known) < MAX_KNOWN:
                known.append(found)
        heads.append(found[1])
        widths.append(found[2])
    return heads, widths


def _parts(dims: Dims, kv_heads: int) -> tuple[CachePart, ...]:
    return (attention_part(replace(dims, kv_heads=kv_heads)),) if kv_heads > 0 else ()


def _sublayer(config: Config, index: int, block: Any, name: str) -> Config:
    inner = block.get(name) if isinstance(block, Mapping) else None
    if not isinstance(inner, Mapping):
        raise config.fail("block_configs", f"does not describe the {name} of layer {index}")
    return Config(inner, path=(*config.path, f"block_configs[{index}]", name))


def _kv_heads(config: Config, dims: Dims, index: int, block: Any) -> int:
    own = _sublayer(config, index, block, "attention")
    if own.boolean("no_op", default=False):
        return NO_OP
    if own.boolean("replace_with_linear", default=False):
        return LINEAR
    if own.has("num_key_value_heads"):
        return own.integer("num_key_value_heads", maximum=dims.heads)
    return dims.heads // own.integer("n_heads_in_group", maximum=dims.heads)


def _width(config: Config, dims: Dims, index: int, block: Any) -> int:
    own = _sublayer(config, index, block, "ffn")
    if own.boolean("no_op", default=False):
        return NO_OP
    if own.boolean("replace_with_linear", default=False):
        return LINEAR
    if not own.has("ffn_mult"):
        return own.integer("intermediate_size")
    factor = own.number("ffn_mult", default=1.0, maximum=1024.0)
    width = -(-int(2 * factor * dims.hidden / 3) // MULTIPLE) * MULTIPLE
    if not 0 < width <= MAX_WIDTH:
        raise own.fail("ffn_mult", "makes no MLP of a possible width")
    return width


def _by_size(sizes: Sequence[int]) -> dict[int, list[int]]:
    members: dict[int, list[int]] = {}
    for index, size in enumerate(sizes):
        if size != NO_OP:
            members.setdefault(size, []).append(index)
    return members


def _square(name: str, dims: Dims, layers: Sequence[int], part: Part) -> Weight:
    return linear(name, dims.hidden, dims.hidden, part=part, layers=layers)


def _attention(config: Config, dims: Dims, at: str, heads: Sequence[int]) -> list[Weight]:
    out_bias = config.boolean("attention_bias", "bias", default=False)
    bias = config.boolean("qkv_bias", default=out_bias)
    weights: list[Weight] = []
    for kv, layers in _by_size(heads).items():
        if kv == LINEAR:
            weights.append(_square(f"{at}.self_attn.linear_attn", dims, layers, Part.ATTENTION))
        else:
            weights += attention(
                at, replace(dims, kv_heads=kv), layers, bias=bias, out_bias=out_bias
            )
    return weights


def _mlps(config: Config, dims: Dims, at: str, widths: Sequence[int]) -> list[Weight]:
    bias = config.boolean("mlp_bias", default=False)
    weights: list[Weight] = []
    for width, layers in _by_size(widths).items():
        if width == LINEAR:
            weights.append(_square(f"{at}.mlp.linear_mlp", dims, layers, Part.MLP))
        else:
            weights += gated_mlp(at, dims.hidden, width, layers, bias=bias)
    return weights
