"""What large mixtures of experts share: which layers are routed, how wide, and what drafts tokens.

The router's correction bias (auxiliary-loss-free balancing, arXiv:2408.15664) is stored and used
but is no parameter in most model code: `correction` gives it as a buffer.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from app.core.cache import CachePart
from app.core.inventory import Part, Split, Weight
from app.core.model import LayerGroup
from app.core.precision import FLOAT32
from app.resolve.architectures.common_shape import Dims
from app.resolve.architectures.common_weights import linear, vector
from app.resolve.architectures.fields import MAX_LAYERS, Config
from app.resolve.architectures.llama_like import LLAMA, Names, dense_mlp, mixture

EXPERTS = ("n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts")
TOP_K = (
    "num_experts_per_tok",
    "num_experts_per_token",
    "moe_topk",
    "moe_top_k",
    "moe_k",
    "top_k_experts",
)
WIDTH = (
    "moe_intermediate_size",
    "expert_intermediate_size",
    "expert_hidden_dim",
    "moe_ffn_hidden_size",
)
SHARED = ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts", "num_shared_expert")
SHARED_WIDTH = (
    "shared_expert_intermediate_size",
    "moe_shared_expert_intermediate_size",
    "share_expert_dim",
    "shared_intermediate_size",
)
MTP_COUNT = (
    "num_nextn_predict_layers",
    "num_mtp_layers",
    "mtp_num_hidden_layers",
    "num_mtp_modules",
    "mtp_num_layers",
)
MAX_MTP = 64


@dataclass(frozen=True, kw_only=True, slots=True)
class Moe:
    """A mixture: routed experts, how many of them a token uses, the width of one, and that of all
    shared experts together (0: none). No experts at all means that every layer is dense.
    """

    num_experts: int
    top_k: int
    width: int
    shared_width: int = 0


DENSE = Moe(num_experts=0, top_k=0, width=0)


def read_moe(
    config: Config,
    *,
    experts: int | None = None,
    top_k: int | None = None,
    width: int | None = None,
    shared: int = 0,
) -> Moe:
    """The mixture in its usual spellings; keyword arguments are the class defaults.

    An expert count stated as null or 0 means a dense model. Shared experts are as wide as routed
    ones unless their width is stated.
    """
    stated = any(name in config.data for name in EXPERTS)
    count = config.optional_integer(*EXPERTS, minimum=0)
    if count is None:
        count = 0 if stated or experts is None else experts
    if not count:
        return DENSE
    expert_width = config.integer(*WIDTH, default=width)
    return Moe(
        num_experts=count,
        top_k=config.integer(*TOP_K, default=top_k),
        width=expert_width,
        shared_width=shared_width(config, expert_width, shared=shared),
    )


def shared_width(config: Config, expert_width: int, *, shared: int = 0) -> int:
    """Width of all shared experts of a layer together; `shared` is the class's count of them."""
    count = config.optional_integer(*SHARED, minimum=0)
    if count is None:
        count = 0 if any(name in config.data for name in SHARED) else shared
    width = config.optional_integer(*SHARED_WIDTH, minimum=0)
    if width is not None:
        return width * max(count, 1)
    return count * expert_width


def sparse_layers(config: Config, layers: int, *, first_dense: int = 0) -> list[bool]:
    """Which layers route their tokens: `mlp_layer_types`, else a list in `moe_layer_freq`, else
    each `moe_layer_freq`-th from `first_k_dense_replace` on. `first_dense` is the class's default.
    """
    types = config.texts("mlp_layer_types")
    if types is not None:
        if unknown := set(types).difference(("dense", "sparse", "moe", "hash_moe")):
            raise config.fail("mlp_layer_types", f"has unknown kinds: {sorted(unknown)}")
        return [kind != "dense" for kind in config.per_layer(types, "mlp_layer_types", layers)]
    if isinstance(config.get("moe_layer_freq"), list):
        flags = config.integers("moe_layer_freq", maximum=1) or []
        return [flag == 1 for flag in config.per_layer(flags, "moe_layer_freq", layers)]
    step = config.integer("moe_layer_freq", default=1)
    first = config.integer(
        "first_k_dense_replace", "moe_first_k_dense", default=first_dense, minimum=0
    )
    return [index >= first and index % step == 0 for index in range(layers)]


def chosen(flags: Sequence[bool], value: bool) -> tuple[int, ...]:
    """Indices at which `flags` has `value`."""
    return tuple(index for index, flag in enumerate(flags) if flag is value)


def correction(
    at: str,
    moe: Moe,
    layers: Sequence[int],
    *,
    name: str = "mlp.gate.e_score_correction_bias",
) -> list[Weight]:
    """The router's correction bias: one fp32 number an expert, stored but no parameter."""
    if not layers:
        return []
    bias = vector(f"{at}.{name}", moe.num_experts, part=Part.ROUTER, layers=layers, dtype=FLOAT32)
    return [replace(bias, buffer=True)]


def feed_forward(
    at: str,
    dims: Dims,
    moe: Moe,
    sparse: Sequence[bool],
    *,
    corrected: bool = True,
    names: Names = LLAMA,
    shared: str = "shared_experts",
    shared_gate: str = "",
    gate: str = "gate",
) -> list[Weight]:
    """Dense MLPs and mixtures as the flags say. `corrected` adds the router's correction bias."""
    routed = chosen(sparse, True) if moe.num_experts else ()
    dense = chosen(sparse, False) if moe.num_experts else tuple(range(len(sparse)))
    return [
        *dense_mlp(at, dims, dense, names=names),
        *routed_mlp(
            at,
            dims,
            moe,
            routed,
            corrected=corrected,
            shared=shared,
            shared_gate=shared_gate,
            gate=gate,
        ),
    ]


def routed_mlp(
    at: str,
    dims: Dims,
    moe: Moe,
    layers: Sequence[int],
    *,
    corrected: bool = True,
    correction_name: str = "",
    shared: str = "shared_experts",
    shared_gate: str = "",
    gate: str = "gate",
) -> list[Weight]:
    """Router, experts, shared experts and correction bias of the routed layers; the bias is the
    gate's unless it has a name of its own.
    """
    if not moe.num_experts:
        return []
    stored = correction_name or f"mlp.{gate}.e_score_correction_bias"
    return [
        *mixture(
            at,
            dims.hidden,
            moe.width,
            layers,
            num_experts=moe.num_experts,
            top_k=moe.top_k,
            gate=gate,
            shared_width=moe.shared_width,
            shared=shared,
            shared_gate=shared_gate,
        ),
        *(correction(at, moe, layers, name=stored) if corrected else ()),
    ]


# --- multi-token prediction ---------------------------------------------------------------------


def mtp_layers(config: Config, dims: Dims, *, default: int = 0) -> tuple[int, ...]:
    """Indices of the multi-token-prediction modules, which follow the model's own layers."""
    count = config.integer(*MTP_COUNT, default=default, minimum=0, maximum=MAX_MTP)
    return tuple(range(dims.layers, min(dims.layers + count, MAX_LAYERS + MAX_MTP)))


def drafts(layers: Sequence[int], heads: int, *parts: CachePart) -> tuple[LayerGroup, ...]:
    """The cache of the prediction modules: one entry a module."""
    return tuple(
        LayerGroup(layers=(layer,), parts=parts, num_attention_heads=heads) for layer in layers
    )


def as_mtp(
    weights: Iterable[Weight],
    layers: Sequence[int] | None = None,
    *,
    at: str = "",
    to: str = "",
) -> list[Weight]:
    """The same weights as part of the multi-token prediction: those of the model's own layers
    stand for those of the modules at `layers`, and with `to` their names begin with it, not `at`.
    """
    places = None if layers is None else tuple(layers)
    return [
        weight.moved(Part.MTP, places, to + weight.name[len(at) :] if to else None)
        for weight in weights
    ]


def mtp_module(
    at: str,
    dims: Dims,
    layers: Sequence[int],
    block: Iterable[Weight],
    *,
    vocabulary: bool = True,
) -> list[Weight]:
    """DeepSeek's prediction modules (arXiv:2412.19437, section 2.2): `block` is the decoder layer
    in each, in whatever layers; `vocabulary` says whether each stores its own copies of embedding
    and head.
    """
    if not layers:
        return []
    size = dims.hidden
    weights = [
        vector(f"{at}.enorm", size, layers=layers),
        vector(f"{at}.hnorm", size, layers=layers),
        linear(f"{at}.eh_proj", size, 2 * size, part=Part.MTP, layers=layers),
        vector(f"{at}.shared_head.norm", size, layers=layers),
        *block,
    ]
    if vocabulary:
        table = Weight(
            name=f"{at}.embed_tokens",
            shape=(dims.vocab, size),
            part=Part.MTP,
            layers=tuple(layers),
            split=Split.VOCAB,
        )
        weights += [table, replace(table, name=f"{at}.shared_head.head", linear=True)]
    return as_mtp(weights, layers)
