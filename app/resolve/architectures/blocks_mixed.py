"""Decoders whose layers differ in their attention: other head counts, head sizes or windows."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from app.core.cache import CachePart
from app.core.inventory import Weight
from app.core.model import LayerGroup, ModelShape
from app.resolve.architectures.common_shape import Dims, attention_part, model_shape
from app.resolve.architectures.common_weights import attention, norms, vector, vocabulary
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import LLAMA, Names


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """Layers with the same attention: their heads and head sizes (in `dims`), their window, what
    they cache beside it.
    """

    dims: Dims
    layers: tuple[int, ...]
    window: int | None = None
    v_head_dim: int | None = None
    beside: tuple[CachePart, ...] = ()

    @property
    def group(self) -> LayerGroup:
        """What these layers cache."""
        part = attention_part(self.dims, window=self.window, v_head_dim=self.v_head_dim)
        parts = (part, *self.beside)
        return LayerGroup(layers=self.layers, parts=parts, num_attention_heads=self.dims.heads)

    def at(self, layers: Sequence[int]) -> "Kind":
        """The same attention in other layers."""
        return replace(self, layers=tuple(layers))


def kinds_of(per_layer: Sequence[Kind]) -> list[Kind]:
    """Layers with equal attention together, in order of first appearance; the `layers` of the
    entries are not read.
    """
    members: dict[Kind, list[int]] = {}
    known: dict[int, list[int]] = {}  # by identity: hashing a kind is slow
    for index, kind in enumerate(per_layer):
        layers = known.get(id(kind))
        if layers is None:
            layers = known[id(kind)] = members.setdefault(kind, [])
        layers.append(index)
    return [kind.at(layers) for kind, layers in members.items()]


def kind_attention(
    at: str,
    kind: Kind,
    *,
    names: Names = LLAMA,
    qkv_bias: bool = False,
    out_bias: bool = False,
    qk_norm: bool = False,
) -> list[Weight]:
    """Projections of these layers, and head-wide norms on queries and keys where asked for."""
    if not kind.layers:
        return []
    weights = attention(
        at,
        kind.dims,
        kind.layers,
        bias=qkv_bias,
        out_bias=out_bias,
        v_head_dim=kind.v_head_dim,
        names=names.qkvo,
        module=names.attention,
    )
    if qk_norm:
        weights += [
            vector(f"{at}.{name}", kind.dims.head_dim, layers=kind.layers)
            for name in names.qk_norms
        ]
    return weights


def mixed_decoder(
    config: Config,
    dims: Dims,
    kinds: Sequence[Kind],
    mlp: Iterable[Weight],
    *,
    names: Names = LLAMA,
    qkv_bias: bool = False,
    out_bias: bool = False,
    qk_norm: bool = False,
    per_kind: Callable[[Kind], list[Weight]] | None = None,
    extra: Iterable[Weight] = (),
    traits: Iterable[str] = (),
    draft_groups: tuple[LayerGroup, ...] = (),
) -> ModelShape:
    """A decoder of several kinds of attention. `mlp` are the ready weights of its MLPs and
    experts, `per_kind` gives what else a kind of attention has (gates, sinks).
    """
    at = names.at(config)
    weights = [*vocabulary(dims, prefix=config.prefix, embed=names.embed, head=names.head)]
    for kind in kinds:
        weights += kind_attention(
            at, kind, names=names, qkv_bias=qkv_bias, out_bias=out_bias, qk_norm=qk_norm
        )
        if per_kind is not None:
            weights += per_kind(kind)
    weights += [
        *mlp,
        *norms(at, dims.hidden, dims.all_layers, *names.norms),
        vector(config.prefix + names.norm, dims.hidden),
        *extra,
    ]
    return model_shape(
        config,
        dims,
        groups=tuple(kind.group for kind in kinds),
        weights=weights,
        traits=traits,
        draft_groups=draft_groups,
    )
