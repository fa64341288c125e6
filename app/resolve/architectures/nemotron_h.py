"""Nemotron-H and Nemotron 3 (Nano, Super, Ultra, 3.5): each layer is one mixer and nothing else.

A mixer is a Mamba 2 layer, attention, an MLP or a mixture of experts. The order stands in
`hybrid_override_pattern` (M, *, -, E) or in `layers_block_type`, whose length is the number of
layers. Puzzle models give each layer its own sizes in `block_configs`.
"""

import json
from collections.abc import Mapping, Sequence

from app.core.cache import CachePart
from app.core.inventory import Part, Weight
from app.core.model import LayerGroup, ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_moe import Moe, as_mtp, correction
from app.resolve.architectures.blocks_state import Mamba2, state_dtype
from app.resolve.architectures.common_shape import Dims, attention_part, model_shape, read_dims
from app.resolve.architectures.common_weights import (
    attention,
    linear,
    norms,
    plain_mlp,
    router,
    vector,
    vocabulary,
)
from app.resolve.architectures.fields import MAX_LAYERS, Config
from app.resolve.architectures.hybrid import HYBRID, with_kv_heads
from app.resolve.architectures.llama_like import window_size

MAMBA, ATTENTION, MLP, MOE = "M", "*", "-", "E"
KINDS = {
    MAMBA: MAMBA,
    ATTENTION: ATTENTION,
    MLP: MLP,
    MOE: MOE,
    "mamba": MAMBA,
    "linear_attention": MAMBA,
    "attention": ATTENTION,
    "full_attention": ATTENTION,
    "mlp": MLP,
    "moe": MOE,
}
DEFAULT_KINDS = MAMBA + MOE + ATTENTION + MLP

Blocks = dict[tuple[str, int], tuple[Config, list[int]]]


@family(
    "nemotron_h",
    "nemotron_h_puzzle",
    architectures=("NemotronHForCausalLM", "NemotronHPuzzleForCausalLM"),
)
def nemotron_h(config: Config) -> ModelShape:
    """Attention layers cache K and V, Mamba 2 layers a state in `mamba_ssm_cache_dtype` (fp32
    unless stated), the others nothing. Defaults: NemotronHConfig.
    """
    blocks = _blocks(config)
    layers = sum(len(members) for _, members in blocks.values())
    dims = _dims(config.overlay(num_hidden_layers=layers))
    at = config.prefix + "backbone.layers.{layer}"
    dtype = state_dtype(config, "mamba_ssm_cache_dtype", default="float32")
    groups: list[LayerGroup] = []
    mixers: list[Weight] = []
    for (kind, _), (own, members) in blocks.items():
        sizes = _dims(own)
        mixers += _mixer(own, sizes, kind, at, members)
        parts: tuple[CachePart, ...] = ()
        if kind == MAMBA:
            parts = (_mamba(own, dims.hidden).part(dtype),)
        elif kind == ATTENTION:
            parts = (attention_part(sizes, window=window_size(own)),)
        groups.append(
            LayerGroup(layers=tuple(members), parts=parts, num_attention_heads=sizes.heads)
        )
    mtp, draft_groups = _mtp(config, dims)
    return model_shape(
        config,
        dims,
        groups=tuple(groups),
        draft_groups=draft_groups,
        weights=[
            *vocabulary(dims, prefix=config.prefix, embed="backbone.embeddings"),
            *mixers,
            *norms(at, dims.hidden, dims.all_layers, "norm"),
            vector(config.prefix + "backbone.norm_f", dims.hidden),
            *mtp,
        ],
        traits=(HYBRID,),
    )


def _dims(config: Config) -> Dims:
    if isinstance(config.get("intermediate_size"), list):
        config = config.overlay(intermediate_size=None)
    return read_dims(
        with_kv_heads(config, 8),
        layers=len(DEFAULT_KINDS),
        hidden=4096,
        heads=32,
        head_dim=128,
        intermediate=21504,
        vocab=131072,
        max_positions=4096,
    )


def _kinds(config: Config, listed: tuple[str, ...], pattern: str) -> list[str] | None:
    names = config.texts(*listed)
    if names is None and config.has(pattern):
        names = list(config.text(pattern, longest=MAX_LAYERS))
    if names is None:
        return None
    unknown = sorted({name for name in names if name not in KINDS})
    if unknown or len(names) > MAX_LAYERS:
        raise config.fail(
            pattern, f"has kinds of layers this family does not know: {unknown}"[:200]
        )
    return [KINDS[name] for name in names]


def _blocks(config: Config) -> Blocks:
    """Layers with the same mixer of the same sizes together, with the config that describes it."""
    own = config.sequence("block_configs")
    if own is not None:
        return _own_blocks(config, own)
    kinds = _kinds(config, ("layers_block_type", "layer_types"), "hybrid_override_pattern")
    if kinds is None:
        stated = config.optional_integer("num_hidden_layers", maximum=MAX_LAYERS)
        if stated not in (None, len(DEFAULT_KINDS)):
            raise config.fail("hybrid_override_pattern", "is missing: what the layers are")
        kinds = list(DEFAULT_KINDS)
    if not kinds:
        raise config.fail("layers_block_type", "names no layer")
    widths = config.integers("intermediate_size", minimum=1) if _listed(config) else None
    blocks: Blocks = {}
    seen = 0
    for index, kind in enumerate(kinds):
        described, width = config, 0
        if widths and kind == MLP:
            width = widths[0 if len(widths) == 1 else min(seen, len(widths) - 1)]
            described = config.overlay(intermediate_size=width)
            seen += 1
        blocks.setdefault((kind, width), (described, []))[1].append(index)
    return blocks


def _listed(config: Config) -> bool:
    return isinstance(config.get("intermediate_size"), list)


def _own_blocks(config: Config, own: Sequence[object]) -> Blocks:
    known: dict[str, int] = {}
    blocks: Blocks = {}
    for index, block in enumerate(own):
        kind = block.get("block_type") if isinstance(block, Mapping) else None
        if not isinstance(block, Mapping) or not isinstance(kind, str) or kind not in KINDS:
            raise config.fail("block_configs", f"does not say what layer {index} is")
        number = known.setdefault(json.dumps(block, sort_keys=True, default=str), len(known))
        described = config.overlay(**{str(key): value for key, value in block.items()})
        blocks.setdefault((KINDS[kind], number), (described, []))[1].append(index)
    if not blocks:
        raise config.fail("block_configs", "names no layer")
    return blocks


def _mamba(config: Config, hidden: int) -> Mamba2:
    bias = config.boolean("use_bias", default=False)
    return Mamba2(
        hidden=hidden,
        heads=config.integer("mamba_num_heads", default=128),
        head_dim=config.integer("mamba_head_dim", default=64),
        groups=config.integer("mamba_n_groups", "n_groups", default=8),
        state=config.integer("ssm_state_size", default=128),
        kernel=config.integer("mamba_d_conv", "conv_kernel", default=4),
        bias=bias,
        out_bias=bias,
        conv_bias=config.boolean("mamba_conv_bias", "use_conv_bias", default=True),
    )


def _mixer(config: Config, dims: Dims, kind: str, at: str, layers: Sequence[int]) -> list[Weight]:
    if kind == MAMBA:
        return _mamba(config, dims.hidden).weights(f"{at}.mixer", layers)
    if kind == ATTENTION:
        return attention(at, dims, layers, module="mixer")
    bias = config.boolean("mlp_bias", default=False)
    if kind == MLP:
        return plain_mlp(at, dims.hidden, dims.intermediate, layers, bias=bias, module="mixer")
    return _experts(config, dims, at, layers, bias)


def _experts(
    config: Config, dims: Dims, at: str, layers: Sequence[int], bias: bool
) -> list[Weight]:
    """Experts without gates; with `moe_latent_size` the routed ones work in a narrower space."""
    experts = config.integer("n_routed_experts", "num_local_experts", default=8)
    moe = Moe(
        num_experts=experts,
        top_k=min(config.integer("num_experts_per_tok", default=2), experts),
        width=config.integer("moe_intermediate_size", default=7688),
        shared_width=config.integer("moe_shared_expert_intermediate_size", default=7688, minimum=0),
    )
    latent = config.optional_integer("moe_latent_size")
    weights = [
        router(at, dims.hidden, moe.num_experts, layers, module="mixer.gate"),
        *correction(at, moe, layers, name="mixer.gate.e_score_correction_bias"),
        *plain_mlp(
            at,
            latent or dims.hidden,
            moe.width,
            layers,
            module="mixer.experts.{expert}",
            part=Part.ROUTED_EXPERTS,
            experts=moe.num_experts,
            active=moe.top_k,
        ),
    ]
    if moe.shared_width:
        weights += plain_mlp(
            at,
            dims.hidden,
            moe.shared_width,
            layers,
            bias=bias,
            module="mixer.shared_experts",
            part=Part.SHARED_EXPERTS,
        )
    if latent:
        sizes = (("fc1", latent, dims.hidden), ("fc2", dims.hidden, latent))
        weights += [
            linear(
                f"{at}.mixer.{name}_latent_proj",
                rows,
                columns,
                part=Part.MLP,
                layers=layers,
                bias=bias,
            )
            for name, rows, columns in sizes
        ]
    return weights


def _mtp(config: Config, dims: Dims) -> tuple[list[Weight], tuple[LayerGroup, ...]]:
    """The modules that draft: each a projection of embedding and hidden state, then the layers of
    its own pattern.
    """
    modules = config.integer("num_nextn_predict_layers", default=0, minimum=0, maximum=64)
    if not modules:
        return [], ()
    kinds = _kinds(config, ("mtp_layers_block_type",), "mtp_hybrid_override_pattern")
    kinds = kinds or [ATTENTION, MOE]
    if len(kinds) * modules > MAX_LAYERS:
        raise config.fail("mtp_layers_block_type", f"makes more than {MAX_LAYERS} layers")
    at = config.prefix + "mtp.layers.{layer}"
    first = tuple(range(0, len(kinds) * modules, len(kinds)))
    last = tuple(index + len(kinds) - 1 for index in first)
    hidden = dims.hidden
    experts = config.get("mtp_n_routed_experts")
    own = config if experts is None else config.overlay(n_routed_experts=experts)
    weights = [
        linear(f"{at}.eh_proj", hidden, 2 * hidden, part=Part.MTP, layers=first),
        *norms(at, hidden, first, "enorm", "hnorm"),
        *norms(at, hidden, last, "final_layernorm"),
        *norms(at, hidden, tuple(range(len(kinds) * modules)), "norm"),
    ]
    for kind in sorted(set(kinds)):
        members = [m + i for m in first for i, other in enumerate(kinds) if other == kind]
        weights += _mixer(own, dims, kind, at, members)
    cached = [index for index, kind in enumerate(kinds) if kind == ATTENTION]
    part = attention_part(dims, window=window_size(config))
    groups = tuple(
        LayerGroup(
            layers=tuple(dims.layers + m + i for i in cached),
            parts=(part,),
            num_attention_heads=dims.heads,
        )
        for m in first
        if cached
    )
    return as_mtp(weights), groups
