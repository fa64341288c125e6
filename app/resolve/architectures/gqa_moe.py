"""The decoder that grouped-query mixtures share (GLM-4.5, MiniMax-M2, Hunyuan, Ling and others)."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from app.core.cache import CachePart
from app.core.inventory import Part, Split, Weight
from app.core.model import LayerGroup, ModelShape
from app.resolve.architectures.blocks_moe import (
    Moe,
    chosen,
    correction,
    drafts,
    mtp_module,
)
from app.resolve.architectures.common_shape import HEADS, HIDDEN, Dims, attention_part
from app.resolve.architectures.common_weights import attention, linear, norms, vector
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import (
    LLAMA,
    Names,
    dense_mlp,
    llama_like,
    mixture,
    window_size,
)


def floor_head_dim(config: Config, *, hidden: int, heads: int) -> int:
    """Width over heads rounded down, for classes that do not ask that it is whole."""
    width = config.integer(*HIDDEN, default=hidden)
    return max(1, width // config.integer(*HEADS, default=heads))


def undeclared_window(config: Config) -> int | None:
    """The window of all layers where a config states one and names no kinds of layers: engines
    apply it, whatever `use_sliding_window` says, to models that have no class to clear it.
    """
    return None if config.has("layer_types") else window_size(config)


def head_gate(at: str, dims: Dims, layers: Sequence[int], *, name: str = "g_proj") -> Weight:
    """A gate of one number a query head on the attention's output (Step-3.5, Laguna)."""
    return linear(
        f"{at}.self_attn.{name}",
        dims.heads,
        dims.hidden,
        part=Part.ATTENTION,
        layers=layers,
        split=Split.COLUMN,
    )


def sinks(at: str, dims: Dims, layers: Sequence[int], *, name: str = "sinks") -> list[Weight]:
    """One learned logit a query head that attention may always fall on."""
    if not layers:
        return []
    return [
        vector(
            f"{at}.self_attn.{name}",
            dims.heads,
            part=Part.ATTENTION,
            layers=layers,
            split=Split.COLUMN,
        )
    ]


def moe_decoder(
    config: Config,
    dims: Dims,
    moe: Moe,
    sparse: Sequence[bool],
    *,
    names: Names = LLAMA,
    windows: Sequence[int | None] | int | None = None,
    groups: tuple[LayerGroup, ...] | None = None,
    qkv_bias: bool = False,
    out_bias: bool = False,
    mlp_bias: bool = False,
    norm_bias: bool = False,
    qk_norm: tuple[int, int] | None = None,
    module: str = "mlp",
    gate: str = "gate",
    experts: str = "experts.{expert}",
    expert_names: tuple[str, str, str] = ("gate_proj", "up_proj", "down_proj"),
    router_bias: bool = False,
    shared: str = "shared_experts",
    shared_gate: str = "",
    correction_name: str = "mlp.gate.e_score_correction_bias",
    correction_counts: bool = False,
    modules: Sequence[int] = (),
    module_window: int | None = None,
    extra: Iterable[Weight] = (),
    traits: Iterable[str] = (),
) -> ModelShape:
    """A decoder whose layers are dense or routed as `sparse` says.

    `correction_name` is the router's correction bias ("" where there is none), which counts as
    parameters in a few models (`correction_counts`). `windows` None means what engines take from a
    stated `sliding_window`. `modules` are the prediction modules, each a
    layer of the same kind, with `module_window` for its attention.
    """
    at = names.at(config)

    def block(routed: Sequence[int], dense: Sequence[int]) -> list[Weight]:
        weights = dense_mlp(at, dims, dense, names=names, bias=mlp_bias)
        if not routed:
            return weights
        weights += mixture(
            at,
            dims.hidden,
            moe.width,
            routed,
            num_experts=moe.num_experts,
            top_k=moe.top_k,
            module=module,
            gate=gate,
            experts=experts,
            names=expert_names,
            bias=mlp_bias,
            router_bias=router_bias,
            shared_width=moe.shared_width,
            shared=shared,
            shared_gate=shared_gate,
        )
        if correction_name:
            weights += [
                replace(weight, buffer=not correction_counts)
                for weight in correction(at, moe, routed, name=correction_name)
            ]
        return weights

    routed = chosen(sparse, True) if moe.num_experts else ()
    dense = chosen(sparse, False) if moe.num_experts else dims.all_layers
    drafting = block(modules, ())
    if modules:
        drafting += attention(
            at,
            dims,
            modules,
            bias=qkv_bias,
            out_bias=out_bias,
            names=names.qkvo,
            module=names.attention,
        )
        drafting += norms(at, dims.hidden, modules, *names.norms, bias=norm_bias)
        for name, size in zip(names.qk_norms, qk_norm or (), strict=False):
            drafting.append(vector(f"{at}.{name}", size, layers=modules))
    if windows is None and groups is None:
        windows = undeclared_window(config)
    part: CachePart = attention_part(dims, window=module_window)
    return llama_like(
        config,
        dims,
        names=names,
        windows=windows,
        groups=groups,
        qkv_bias=qkv_bias,
        out_bias=out_bias,
        norm_bias=norm_bias,
        qk_norm=qk_norm,
        mlp=block(routed, dense),
        extra=[*extra, *mtp_module(at, dims, modules, drafting)],
        traits=traits,
        draft_groups=drafts(modules, dims.heads, part),
    )
