"""What most decoders share: grouped-query attention, an MLP or experts, norms around them.

A family says how its model differs from Llama: which layers have a window, which matrices have a
bias, which norms there are, how the checkpoint names its modules. Its own MLP (a mixture of
experts, say) and anything on top come as ready weights.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

from app.core.inventory import Part, Split, Weight
from app.core.model import LayerGroup, ModelShape
from app.core.precision import FLOAT32
from app.resolve.architectures.common_shape import Dims, attention_part, model_shape, uniform_groups
from app.resolve.architectures.common_weights import (
    attention,
    gated_mlp,
    linear,
    norms,
    plain_mlp,
    routed_experts,
    router,
    vector,
    vocabulary,
)
from app.resolve.architectures.fields import Config

SLIDING = ("sliding_attention", "sliding_window")
GATED = 3
FULL = ("full_attention", "attention", "full")


@dataclass(frozen=True, kw_only=True, slots=True)
class Names:
    """Module names of a checkpoint. A tensor that holds several matrices (a fused q, k and v;
    gate and up) has its one name in every place: `qkvo=("c_attn", "c_attn", "c_attn", "c_proj")`.
    `norm` "" means that there is no last norm, `mlp_module` "" that the MLP's matrices sit in the
    layer itself; `mlp` has two names where it is not gated.
    """

    layer: str = "model.layers.{layer}"
    embed: str = "model.embed_tokens"
    head: str = "lm_head"
    norm: str = "model.norm"
    norms: tuple[str, ...] = ("input_layernorm", "post_attention_layernorm")
    attention: str = "self_attn"
    qkvo: tuple[str, str, str, str] = ("q_proj", "k_proj", "v_proj", "o_proj")
    qk_norms: tuple[str, str] = ("self_attn.q_norm", "self_attn.k_norm")
    mlp_module: str = "mlp"
    mlp: tuple[str, ...] = ("gate_proj", "up_proj", "down_proj")

    def at(self, config: Config) -> str:
        """The path of a layer, with the prefix of the object that describes it."""
        return config.prefix + self.layer


class AttentionBias(TypedDict):
    """Biases of attention, as `llama_like` takes them."""

    qkv_bias: bool
    out_bias: bool


class EveryBias(AttentionBias):
    """All biases, as `llama_like` takes them."""

    mlp_bias: bool
    norm_bias: bool


EVERY_BIAS: EveryBias = {"qkv_bias": True, "out_bias": True, "mlp_bias": True, "norm_bias": True}
ENCODER_ONLY = "encoder_only"
LLAMA = Names()
FUSED_QKV = ("qkv_proj", "qkv_proj", "qkv_proj", "o_proj")
FUSED_GATE_UP = ("gate_up_proj", "gate_up_proj", "down_proj")


def attention_bias(config: Config) -> AttentionBias:
    """`attention_bias`, which stands for q, k, v and the output alike."""
    stated = config.boolean("attention_bias", default=False)
    return {"qkv_bias": stated, "out_bias": stated}


def window_size(config: Config, *, default: int | None = None) -> int | None:
    """`sliding_window`: the class default where it is absent; null and 0 mean no window."""
    if "sliding_window" not in config.data:
        return default
    return config.optional_integer("sliding_window", minimum=0) or None


def layer_windows(
    config: Config,
    layers: int,
    window: int | None,
    *,
    default: Sequence[bool] | None = None,
) -> list[int | None]:
    """The window of each layer, from `layer_types`; where it is absent, from `default` (True for
    a windowed layer), else the same in all layers.
    """
    types = config.texts("layer_types")
    if types is None:
        windowed = default if default is not None else [True] * layers
        return [window if slides else None for slides in windowed]
    types = config.per_layer(types, "layer_types", layers)
    if unknown := set(types).difference(SLIDING, FULL):
        raise config.fail("layer_types", f"has kinds this family does not know: {sorted(unknown)}")
    return [window if kind in SLIDING else None for kind in types]


def every_nth_full(layers: int, period: int) -> list[bool]:
    """Windowed layers where each `period`-th has full attention (the last of each period)."""
    return [(index + 1) % period != 0 for index in range(layers)]


def encoder_only(config: Config) -> bool:
    """Whether attention is bidirectional (embedding models made of decoders): engines cache
    nothing then. `is_causal` false says it, or the class name.
    """
    if not config.boolean("is_causal", default=True):
        return True
    names = config.texts("architectures") or ()
    return any("Bidirectional" in name for name in names)


def uncached(dims: Dims) -> tuple[LayerGroup, ...]:
    """Layers with heads but without a cache."""
    return (LayerGroup(layers=dims.all_layers, parts=(), num_attention_heads=dims.heads),)


def window_groups(dims: Dims, windows: Sequence[int | None]) -> tuple[LayerGroup, ...]:
    """Layers with the same window together, in order of first appearance."""
    members: dict[int | None, list[int]] = {}
    for index, window in enumerate(windows):
        members.setdefault(window, []).append(index)
    return tuple(
        LayerGroup(
            layers=tuple(layers),
            parts=(attention_part(dims, window=window),),
            num_attention_heads=dims.heads,
        )
        for window, layers in members.items()
    )


def position_table(config: Config, dims: Dims, name: str, *, offset: int = 0) -> Weight:
    """Learned absolute positions: one row a position, `offset` rows more."""
    rows = (dims.max_positions or 0) + offset
    return Weight(name=config.prefix + name, shape=(rows, dims.hidden), part=Part.OTHER)


def mixture(
    at: str,
    hidden: int,
    width: int,
    layers: Sequence[int],
    *,
    num_experts: int,
    top_k: int,
    module: str = "mlp",
    gate: str = "gate",
    experts: str = "experts.{expert}",
    names: tuple[str, str, str] = ("gate_proj", "up_proj", "down_proj"),
    bias: bool = False,
    router_bias: bool = False,
    correction: str = "",
    correction_is_buffer: bool = False,
    shared_width: int = 0,
    shared: str = "shared_experts",
    shared_gate: str = "",
) -> list[Weight]:
    """A router and its experts. `shared_width` is that of all shared experts together (0: none),
    `shared_gate` the name of the one-row gate on them, `correction` that of the router's
    per-expert correction bias (fp32; in some models a buffer, which no count includes).
    """
    if not layers:
        return []
    inside = f"{at}.{module}"
    weights = [
        router(at, hidden, num_experts, layers, module=f"{module}.{gate}", bias=router_bias),
        *routed_experts(
            at,
            hidden,
            width,
            layers,
            num_experts=num_experts,
            top_k=top_k,
            bias=bias,
            module=f"{module}.{experts}",
            names=names,
        ),
    ]
    if correction:
        entry = vector(
            f"{inside}.{correction}",
            num_experts,
            part=Part.ROUTER,
            layers=layers,
            dtype=FLOAT32,
        )
        weights.append(replace(entry, buffer=correction_is_buffer))
    if shared_width:
        weights += gated_mlp(
            inside,
            hidden,
            shared_width,
            layers,
            bias=bias,
            module=shared,
            part=Part.SHARED_EXPERTS,
            names=names,
        )
    if shared_width and shared_gate:
        weights.append(
            linear(f"{inside}.{shared_gate}", 1, hidden, part=Part.SHARED_EXPERTS, layers=layers)
        )
    return weights


def dense_mlp(
    at: str,
    dims: Dims,
    layers: Sequence[int],
    *,
    names: Names = LLAMA,
    bias: bool = False,
    intermediate: int | None = None,
) -> list[Weight]:
    """The MLP of the dense layers, gated where the names are three."""
    width = dims.intermediate if intermediate is None else intermediate
    if not layers:
        return []
    module = names.mlp_module
    if not module:
        at, _, module = at.rpartition(".")
    if len(names.mlp) < GATED:
        up, down = names.mlp
        return plain_mlp(at, dims.hidden, width, layers, bias=bias, module=module, names=(up, down))
    gate, up, down = names.mlp
    return gated_mlp(
        at, dims.hidden, width, layers, bias=bias, module=module, names=(gate, up, down)
    )


def llama_like(
    config: Config,
    dims: Dims,
    *,
    names: Names = LLAMA,
    windows: Sequence[int | None] | int | None = None,
    groups: tuple[LayerGroup, ...] | None = None,
    qkv_bias: bool = False,
    out_bias: bool = False,
    mlp_bias: bool = False,
    norm_bias: bool = False,
    head_bias: bool = False,
    qk_norm: tuple[int, int] | None = None,
    qk_norm_bias: bool = False,
    mlp: Iterable[Weight] | None = None,
    extra: Iterable[Weight] = (),
    traits: Iterable[str] = (),
    draft_groups: tuple[LayerGroup, ...] = (),
    max_positions: int | None = None,
    assumptions: tuple[str, ...] = (),
) -> ModelShape:
    """A decoder of equal layers.

    `windows` is one window for all layers or a list with one entry a layer (None: full
    attention); `groups` replaces what follows from it. `qk_norm` gives the sizes of the norms on
    queries and keys (`head_dim` twice where they are shared by heads, full width where not).
    `mlp` replaces the dense MLP; `extra` is whatever else there is. A bias of the head stays
    where the head is tied, so it is an entry of its own.
    """
    at = names.at(config)
    layers = dims.all_layers
    encoder = encoder_only(config)
    if groups is None:
        if encoder:
            groups = uncached(dims)
        elif windows is None or isinstance(windows, int):
            groups = uniform_groups(dims, attention_part(dims, window=windows))
        else:
            groups = window_groups(dims, windows)
    weights = [
        *vocabulary(dims, prefix=config.prefix, embed=names.embed, head=names.head),
        *attention(
            at,
            dims,
            layers,
            bias=qkv_bias,
            out_bias=out_bias,
            names=names.qkvo,
            module=names.attention,
        ),
        *(dense_mlp(at, dims, layers, names=names, bias=mlp_bias) if mlp is None else mlp),
        *norms(at, dims.hidden, layers, *names.norms, bias=norm_bias),
        *extra,
    ]
    if qk_norm is not None:
        weights += [
            vector(f"{at}.{name}", size, layers=layers, bias=qk_norm_bias)
            for name, size in zip(names.qk_norms, qk_norm, strict=True)
        ]
    if head_bias:
        name = config.prefix + names.head
        weights.append(vector(name, dims.vocab, part=Part.OTHER, split=Split.VOCAB))
    if names.norm:
        weights.append(vector(config.prefix + names.norm, dims.hidden, bias=norm_bias))
    return model_shape(
        config,
        dims,
        groups=groups,
        weights=weights,
        traits=(*traits, ENCODER_ONLY) if encoder else traits,
        draft_groups=draft_groups,
        max_positions=max_positions,
        assumptions=assumptions,
    )
