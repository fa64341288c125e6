"""Zamba and Zamba 2: state layers, before some of which a shared transformer block comes in.

The shared blocks see the hidden state and the embedding side by side, so their attention is twice
as wide as the model. Weights are shared between the layers that use a block; caches are not.
"""

from collections.abc import Callable, Sequence
from typing import Any

from app.core.cache import CachePart
from app.core.inventory import Part, Split, Weight
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_state import Mamba1, Mamba2, read_mamba1
from app.resolve.architectures.common_shape import Dims, attention_part, model_shape, read_dims
from app.resolve.architectures.common_weights import linear, norms, vector, vocabulary
from app.resolve.architectures.fields import Config
from app.resolve.architectures.hybrid import HYBRID, LINEAR, checked_kinds, kind_groups, pick
from app.resolve.architectures.jamba import FEED_FORWARD
from app.resolve.architectures.llama_like import dense_mlp

SHARED = "hybrid"
ZAMBA2_SHARED = frozenset((6, 12, 18, 24, 30, 36, 42, 47, 51))
"""Layers with a shared block where Zamba2Config is told nothing (of its 54)."""


@family("zamba", architectures=("ZambaForCausalLM",))
def zamba(config: Config) -> ModelShape:
    """One shared block for all `hybrid` layers. They cache K and V and a Mamba state, the others
    the state only. Defaults: ZambaConfig.
    """
    hidden = config.integer("hidden_size", default=3712)
    heads = config.integer("num_attention_heads", default=16)
    dims = read_dims(
        config,
        layers=76,
        hidden=3712,
        heads=16,
        head_dim=config.optional_integer("attention_head_dim") or max(1, 2 * hidden // heads),
        intermediate=14848,
        vocab=32000,
        max_positions=4096,
        tied=True,
    )
    period = config.integer("attn_layer_period", default=6)
    offset = config.integer("attn_layer_offset", default=4, minimum=0)
    pattern = [LINEAR, LINEAR, SHARED]
    pattern += [SHARED if i % period == offset else LINEAR for i in range(dims.layers - 3)]
    kinds = config.texts("layers_block_type", "layer_types") or pattern
    mixer = read_mamba1(config, dims.hidden)
    wide = config.optional_integer("attention_hidden_size") or 2 * dims.hidden
    at = config.prefix + "model.layers.{layer}.shared_transf"

    def block(layers: Sequence[int]) -> list[Weight]:
        return [
            *_attention(dims, wide, at, layers),
            *dense_mlp(at, dims, layers, names=FEED_FORWARD),
        ]

    return _model(config, dims, kinds, mixer, shared=at, wide=wide, blocks=1, block=block)


@family("zamba2", architectures=("Zamba2ForCausalLM",))
def zamba2(config: Config) -> ModelShape:
    """`num_mem_blocks` shared blocks take turns, with adapters of each layer's own. Their layers
    cache K and V and a Mamba 2 state, the others the state only. Defaults: Zamba2Config.
    """
    hidden = config.integer("hidden_size", default=2560)
    heads = config.integer("num_attention_heads", default=32)
    head_dim = config.integer("attention_head_dim", "head_dim", default=max(1, 2 * hidden // heads))
    dims = read_dims(
        config.overlay(head_dim=head_dim),
        layers=54,
        hidden=2560,
        heads=32,
        intermediate=4 * hidden,
        vocab=32000,
        max_positions=4096,
        tied=True,
    )
    kinds = config.texts("layers_block_type", "layer_types")
    if kinds is None:
        if dims.layers != 54:
            raise config.fail("layers_block_type", "is missing: which layers have a shared block")
        kinds = [SHARED if i in ZAMBA2_SHARED else LINEAR for i in dims.all_layers]
    mamba_heads = config.integer("n_mamba_heads", default=8)
    inner = config.integer("mamba_expand", default=2) * dims.hidden
    mamba_dim = config.optional_integer("mamba_headdim")
    if mamba_dim is None and inner % mamba_heads:
        raise config.fail("n_mamba_heads", f"{mamba_heads} heads do not divide {inner}")
    bias = config.boolean("add_bias_linear", default=False)
    mixer = Mamba2(
        hidden=dims.hidden,
        heads=mamba_heads,
        head_dim=mamba_dim or inner // mamba_heads,
        groups=config.integer("mamba_ngroups", default=1),
        state=config.integer("mamba_d_state", default=64),
        kernel=config.integer("mamba_d_conv", default=4),
        bias=bias,
        out_bias=bias,
    )
    wide = config.integer("attention_hidden_size", default=2 * dims.hidden)
    rank = config.integer("adapter_rank", default=128)
    adapted = [("feed_forward.gate_up_proj", dims.hidden, 2 * dims.intermediate)]
    if config.boolean("use_shared_attention_adapter", default=False):
        adapted += [(f"self_attn.linear_{name}", wide, wide) for name in "qkv"]
    users = kinds.count(SHARED)
    at = config.prefix + "model.layers.{layer}.shared_transformer"

    def block(layers: Sequence[int]) -> list[Weight]:
        mlp: dict[str, Any] = {"part": Part.MLP, "layers": layers, "bias": bias}
        inside = f"{at}.feed_forward"
        rows = 2 * dims.intermediate
        return [
            *_attention(dims, wide, at, layers),
            linear(f"{inside}.gate_up_proj", rows, dims.hidden, split=Split.COLUMN, **mlp),
            linear(f"{inside}.down_proj", dims.hidden, dims.intermediate, split=Split.ROW, **mlp),
            *_adapters(at, adapted, rank, users, layers[:1]),
        ]

    blocks = config.integer("num_mem_blocks", default=1, maximum=64)
    long = config.boolean("use_long_context", default=False)
    return _model(
        config,
        dims,
        kinds,
        mixer,
        shared=at,
        wide=wide,
        blocks=blocks,
        block=block,
        max_positions=16384 if long else None,
    )


def _attention(dims: Dims, wide: int, at: str, layers: Sequence[int]) -> list[Weight]:
    common: dict[str, Any] = {"part": Part.ATTENTION, "layers": layers}
    kv: dict[str, Any] = {"split": Split.KV_HEADS, "kv_heads": dims.kv_heads, **common}
    q_width, kv_width = dims.heads * dims.head_dim, dims.kv_heads * dims.head_dim
    inside, merged = f"{at}.self_attn", "qkv_proj"
    return [
        linear(f"{inside}.q_proj", q_width, wide, split=Split.COLUMN, fused=merged, **common),
        linear(f"{inside}.k_proj", kv_width, wide, fused=merged, **kv),
        linear(f"{inside}.v_proj", kv_width, wide, fused=merged, **kv),
        linear(f"{inside}.o_proj", dims.hidden, q_width, split=Split.ROW, **common),
    ]


def _adapters(
    at: str, adapted: list[tuple[str, int, int]], rank: int, users: int, layers: Sequence[int]
) -> list[Weight]:
    """Low-rank pairs, one for each layer that uses a block; all of them are kept with the first."""
    weights = []
    for name, columns, rows in adapted:
        base = f"{at}.{name}_adapter_list.{{expert}}"
        common: dict[str, Any] = {"layers": layers, "experts": users, "active": users}
        part = Part.ATTENTION if name.startswith("self_attn") else Part.MLP
        weights += [
            linear(f"{base}.0", rank, columns, part=part, split=Split.COLUMN, **common),
            linear(f"{base}.1", rows, rank, part=part, split=Split.COLUMN, **common),
        ]
    return weights


def _model(
    config: Config,
    dims: Dims,
    kinds: list[str],
    mixer: Mamba1 | Mamba2,
    *,
    shared: str,
    wide: int,
    blocks: int,
    block: Callable[[Sequence[int]], list[Weight]],
    max_positions: int | None = None,
) -> ModelShape:
    kinds = checked_kinds(config, "layers_block_type", kinds, dims.layers, SHARED, LINEAR)
    users, plain = pick(kinds, SHARED), pick(kinds, LINEAR)
    held = users[:blocks]
    at = config.prefix + "model.layers.{layer}"
    state = mixer.part()
    both: tuple[CachePart, ...] = (attention_part(dims), state)
    own = [
        *block(held),
        *norms(shared, wide, held, "input_layernorm"),
        *norms(shared, dims.hidden, held, "pre_ff_layernorm"),
        linear(f"{at}.linear", dims.hidden, dims.hidden, part=Part.OTHER, layers=users),
        *mixer.weights(f"{at}.mamba_decoder.mamba", users),
        *norms(f"{at}.mamba_decoder", dims.hidden, users, "input_layernorm"),
    ]
    return model_shape(
        config,
        dims,
        groups=kind_groups(kinds, {SHARED: both, LINEAR: (state,)}, dims.heads),
        weights=[
            *vocabulary(dims, prefix=config.prefix),
            *mixer.weights(f"{at}.mamba", plain),
            *norms(at, dims.hidden, plain, "input_layernorm"),
            *(own if users else ()),
            vector(config.prefix + "model.final_layernorm", dims.hidden),
        ],
        traits=(HYBRID,),
        max_positions=max_positions,
    )
