"""The decoder that hybrid models share: layers of several kinds, each keeping what its kind keeps."""

from collections.abc import Iterable, Mapping, Sequence

from app.core.cache import CachePart
from app.core.inventory import Weight
from app.core.model import LayerGroup, ModelShape
from app.resolve.architectures.common_shape import KV_HEADS, Dims, model_shape
from app.resolve.architectures.common_weights import norms, vector, vocabulary
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import LLAMA, Names

HYBRID = "hybrid_state"

LINEAR = "linear_attention"
FULL = "full_attention"
LEGACY = {"mamba": LINEAR, "attention": FULL}


def with_kv_heads(config: Config, default: int) -> Config:
    """`config` with the class's KV head count where the file has no such key at all; a null means
    one KV head a query head.
    """
    if any(name in config.data for name in KV_HEADS):
        return config
    return config.overlay(num_key_value_heads=default)


def pick(kinds: Sequence[str], *wanted: str) -> tuple[int, ...]:
    """Indices of the layers whose kind is one of `wanted`."""
    return tuple(index for index, kind in enumerate(kinds) if kind in wanted)


def kind_groups(
    kinds: Sequence[str], parts: Mapping[str, tuple[CachePart, ...]], heads: int
) -> tuple[LayerGroup, ...]:
    """Layers of the same kind together, in order of first appearance; `parts` by kind."""
    members: dict[str, list[int]] = {}
    for index, kind in enumerate(kinds):
        members.setdefault(kind, []).append(index)
    return tuple(
        LayerGroup(layers=tuple(layers), parts=parts[kind], num_attention_heads=heads)
        for kind, layers in members.items()
    )


def checked_kinds(
    config: Config, name: str, kinds: list[str], layers: int, *known: str
) -> list[str]:
    """A list of layer kinds, one a layer, each of them known; older names become today's."""
    kinds = [LEGACY.get(kind, kind) for kind in config.per_layer(kinds, name, layers)]
    if unknown := sorted(set(kinds).difference(known)):
        raise config.fail(name, f"has kinds this family does not know: {unknown}"[:200])
    return kinds


def interval_kinds(config: Config, layers: int, *, interval: int = 4) -> list[str]:
    """`layer_types`, or full attention in the last of every `full_attention_interval` layers."""
    kinds = config.texts("layer_types", "layers_block_type")
    if kinds is None:
        every = config.integer("full_attention_interval", default=interval)
        return [LINEAR if (i + 1) % every else FULL for i in range(layers)]
    return checked_kinds(config, "layer_types", kinds, layers, LINEAR, FULL)


def hybrid_decoder(
    config: Config,
    dims: Dims,
    kinds: Sequence[str],
    parts: Mapping[str, tuple[CachePart, ...]],
    weights: Iterable[Weight],
    *,
    names: Names = LLAMA,
    draft_groups: tuple[LayerGroup, ...] = (),
) -> ModelShape:
    """A decoder whose layers keep what `parts` says of their kind. `weights` are all that it has
    besides the vocabulary and the norms that `names` lists.
    """
    return model_shape(
        config,
        dims,
        groups=kind_groups(kinds, parts, dims.heads),
        draft_groups=draft_groups,
        weights=[
            *vocabulary(dims, prefix=config.prefix, embed=names.embed),
            *weights,
            *norms(names.at(config), dims.hidden, dims.all_layers, *names.norms),
            vector(config.prefix + names.norm, dims.hidden),
        ],
        traits=(HYBRID,),
    )
