"""Ling and Ring with linear layers: Ring-linear 2, Ling and Ring 2.5, and their third generation.

In every group of `layer_group_size` layers the last attends to all tokens. The others are lightning
attention up to 2.5 and Kimi delta attention after; the full layers are grouped-query attention in
Ring-linear 2 and latent attention from 2.5 on.
"""

from collections.abc import Callable, Sequence
from typing import Any

from app.core.cache import CachePart
from app.core.inventory import Part, Split, Weight
from app.core.model import ModelShape
from app.core.recurrent import LightningState
from app.resolve.architectures import architecture_names, family
from app.resolve.architectures.blocks_moe import (
    drafts,
    mtp_layers,
    mtp_module,
    read_moe,
    routed_mlp,
)
from app.resolve.architectures.blocks_state import KimiDelta
from app.resolve.architectures.common_shape import Dims, attention_part, read_dims
from app.resolve.architectures.common_weights import attention, linear, norms, vector
from app.resolve.architectures.fields import Config
from app.resolve.architectures.hybrid import (
    FULL,
    LINEAR,
    checked_kinds,
    hybrid_decoder,
    pick,
)
from app.resolve.architectures.llama_like import Names, dense_mlp
from app.resolve.architectures.mla import latent_attention, latent_part, read_latent

BAILING = Names(embed="model.word_embeddings")
MODULE = "attention"
CORRECTION = "mlp.gate.expert_bias"
HEAD_WISE, ELEMENT_WISE = "head_wise", "element_wise"

Kind = tuple[CachePart, Callable[[str, Sequence[int]], list[Weight]]]
"""What layers of a kind keep, and their weights under a path."""


@family(
    "bailing_moe_linear",
    architectures=("BailingMoeLinearForCausalLM", "BailingMoeLinearV2ForCausalLM"),
)
def bailing_moe_linear(config: Config) -> ModelShape:
    """Ring-linear 2: full layers cache K and V, the others a matrix a head. Its published class has
    no defaults for its sizes.
    """
    dims = read_dims(config)

    def full(at: str, layers: Sequence[int]) -> list[Weight]:
        bias = config.boolean("use_qkv_bias", "use_bias", default=False)
        out_bias = config.boolean("use_bias", default=False)
        fused = ("query_key_value", "query_key_value", "query_key_value", "dense")
        weights = attention(
            at, dims, layers, bias=bias, out_bias=out_bias, names=fused, module=MODULE
        )
        return weights + _qk_norms(config, dims, at, layers)

    return _model(config, dims, (attention_part(dims), full), _lightning(config, dims))


@family("bailing_hybrid", architectures=("BailingMoeV2_5ForCausalLM", "BailingMoeV3ForCausalLM"))
def bailing_hybrid(config: Config) -> ModelShape:
    """Full layers cache a latent, the others a state: fp32 in the third generation, the model's
    precision in 2.5 (told apart by the architecture's name). Defaults: BailingHybridConfig.
    """
    dims = read_dims(
        config,
        layers=42,
        hidden=2560,
        heads=32,
        head_dim=128,
        intermediate=6144,
        vocab=157184,
        max_positions=262144,
    )
    latent = read_latent(config, q=None)
    old = any("V2_5" in name for name in architecture_names(config))
    granularity = config.text(
        "gated_attention_proj_granularity_type", default="" if old else HEAD_WISE
    )
    gates = {HEAD_WISE: dims.heads, ELEMENT_WISE: dims.heads * latent.v_head_dim}

    def full(at: str, layers: Sequence[int]) -> list[Weight]:
        weights = latent_attention(at, dims, latent, layers, module=MODULE)
        if granularity in gates:
            gate: dict[str, Any] = {"part": Part.ATTENTION, "layers": layers}
            rows = gates[granularity]
            name = f"{at}.{MODULE}.g_proj"
            weights.append(linear(name, rows, dims.hidden, split=Split.COLUMN, **gate))
        return weights

    if old:
        return _model(config, dims, (latent_part(latent), full), _lightning(config, dims))
    full_rank = config.boolean("no_kda_lora", default=True)
    delta = KimiDelta(
        hidden=dims.hidden,
        heads=dims.heads,
        head_dim=dims.head_dim,
        kernel=config.integer("short_conv_kernel_size", default=4),
        full_rank_decay=full_rank,
        full_rank_gate=full_rank,
    )
    mixer: Kind = (delta.part(), lambda at, layers: delta.weights(f"{at}.{MODULE}", layers))
    return _model(config, dims, (latent_part(latent), full), mixer)


def _lightning(config: Config, dims: Dims) -> Kind:
    width = dims.heads * dims.head_dim

    def weights(at: str, layers: Sequence[int]) -> list[Weight]:
        if not layers:
            return []
        inside = f"{at}.{MODULE}"
        common: dict[str, Any] = {"part": Part.STATE, "layers": layers}
        column: dict[str, Any] = {"split": Split.COLUMN, **common}
        bias = config.boolean("use_bias", default=False)
        qkv_bias = bias or config.boolean("use_qkv_bias", default=False)
        return [
            linear(f"{inside}.query_key_value", 3 * width, dims.hidden, bias=qkv_bias, **column),
            linear(f"{inside}.g_proj", width, dims.hidden, **column),
            linear(f"{inside}.dense", dims.hidden, width, bias=bias, split=Split.ROW, **common),
            vector(f"{inside}.g_norm", width, **column),
            *_qk_norms(config, dims, at, layers),
        ]

    return LightningState(num_heads=dims.heads, head_dim=dims.head_dim), weights


def _qk_norms(config: Config, dims: Dims, at: str, layers: Sequence[int]) -> list[Weight]:
    if not layers or not config.boolean("use_qk_norm", default=False):
        return []
    names = ("query_layernorm", "key_layernorm")
    return [vector(f"{at}.{MODULE}.{name}", dims.head_dim, layers=layers) for name in names]


def _kinds(config: Config, dims: Dims, group: int) -> list[str]:
    kinds = config.texts("layer_types")
    if kinds is not None:
        return checked_kinds(config, "layer_types", kinds, dims.layers, FULL, LINEAR)
    whole = dims.layers // group * group
    full = [(i + 1) % group == 0 or i >= whole for i in dims.all_layers]
    return [FULL if flag else LINEAR for flag in full]


def _model(config: Config, dims: Dims, attends: Kind, recurs: Kind) -> ModelShape:
    (cached, full), (state, recurrent) = attends, recurs
    kinds = _kinds(config, dims, config.integer("layer_group_size", default=6))
    moe = read_moe(config, experts=512, top_k=8, width=768, shared=1)
    first = config.integer("first_k_dense_replace", default=2, minimum=0)
    sparse = dims.all_layers[first:] if moe.num_experts else ()
    dense = tuple(i for i in dims.all_layers if i not in set(sparse))
    at = BAILING.at(config)
    modules = mtp_layers(config, dims)
    block = [
        *(full(at, modules) if modules else ()),
        *routed_mlp(at, dims, moe, modules, correction_name=CORRECTION),
        *norms(at, dims.hidden, modules, *BAILING.norms),
    ]
    return hybrid_decoder(
        config,
        dims,
        kinds,
        {FULL: (cached,), LINEAR: (state,)},
        [
            *recurrent(at, pick(kinds, LINEAR)),
            *(full(at, attended) if (attended := pick(kinds, FULL)) else ()),
            *dense_mlp(at, dims, dense),
            *routed_mlp(at, dims, moe, sparse, correction_name=CORRECTION),
            *mtp_module(at, dims, modules, block, vocabulary=False),
        ],
        names=BAILING,
        draft_groups=drafts(modules, dims.heads, cached),
    )
