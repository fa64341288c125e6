"""Step-3 (one KV head, factorised queries), Step-3.5 and 3.7 (windowed layers, gates on heads)."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from app.core.cache import CachePart
from app.core.inventory import Part, Split, Weight
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_mixed import Kind, kind_attention, kinds_of, mixed_decoder
from app.resolve.architectures.blocks_moe import Moe, chosen, correction, mtp_layers, mtp_module
from app.resolve.architectures.common_shape import (
    Dims,
    attention_part,
    model_shape,
    read_dims,
    uniform_groups,
)
from app.resolve.architectures.common_weights import (
    gated_mlp,
    linear,
    norms,
    routed_experts,
    router,
    vector,
    vocabulary,
)
from app.resolve.architectures.fields import Config
from app.resolve.architectures.gqa_moe import head_gate
from app.resolve.architectures.llama_like import SLIDING, dense_mlp, window_size

AT = "model.layers.{layer}"
MAX_DIGITS = 19
OTHER = "attention_other_setting"


@family("step3_text", architectures=("Step3TextForCausalLM",))
def step3_text(config: Config) -> ModelShape:
    """Multi-matrix factorised attention: every layer caches one K and one V head, on every rank.
    Defaults: the engine's Step3TextConfig.
    """
    dims = read_dims(
        config.overlay(num_key_value_heads=1),
        layers=61,
        hidden=7168,
        heads=64,
        head_dim=256,
        intermediate=18432,
        vocab=128815,
        max_positions=65536,
    )
    moe = step_moe(config, experts=48, top_k=3, width=5120, shared=5120)
    at = config.prefix + AT
    layers = dims.all_layers
    q_size = config.integer("share_q_dim", default=2048)
    attn = Part.ATTENTION
    base = f"{at}.self_attn"
    sparse = step_sparse(config, dims.layers, default=range(4, 60))
    return model_shape(
        config,
        dims,
        groups=uniform_groups(dims, attention_part(dims)),
        weights=[
            *vocabulary(dims, prefix=config.prefix),
            linear(f"{base}.q_proj", q_size, dims.hidden, part=attn, layers=layers),
            linear(f"{base}.k_proj", dims.head_dim, dims.hidden, part=attn, layers=layers),
            linear(f"{base}.v_proj", dims.head_dim, dims.hidden, part=attn, layers=layers),
            vector(f"{base}.inter_norm", q_size, layers=layers),
            linear(
                f"{base}.wq",
                dims.heads * dims.head_dim,
                q_size,
                part=attn,
                layers=layers,
                split=Split.COLUMN,
            ),
            linear(
                f"{base}.o_proj",
                dims.hidden,
                dims.heads * dims.head_dim,
                part=attn,
                layers=layers,
                split=Split.ROW,
            ),
            *_mlps(at, dims, moe, sparse, corrected=False),
            *norms(at, dims.hidden, layers, "input_layernorm", "post_attention_layernorm"),
            vector(config.prefix + "model.norm", dims.hidden),
        ],
    )


@family("step3p5", architectures=("Step3p5ForCausalLM",))
def step3p5(config: Config) -> ModelShape:
    """Layers of kind "sliding_attention" keep a window, with a query head count of their own, the
    others everything. Defaults: Step3p7TextConfig.
    """
    dims = read_dims(
        config,
        layers=45,
        hidden=4096,
        heads=64,
        head_dim=128,
        intermediate=11264,
        vocab=128815,
        max_positions=128000,
    )
    if not config.has("num_key_value_heads"):
        dims = replace(dims, kv_heads=config.integer("num_attention_groups", default=8))
    moe = step_moe(config, experts=288, top_k=8, width=1280, shared=1280)
    sparse = step_sparse(config, dims.layers, default=range(3, dims.layers))
    return windowed_step(config, dims, moe, sparse)


def windowed_step(
    config: Config,
    dims: Dims,
    moe: Moe,
    sparse: Sequence[bool],
    *,
    beside: tuple[CachePart, ...] = (),
    also: Callable[[Kind], list[Weight]] | None = None,
    embedded: bool = True,
) -> ModelShape:
    """Step-3.5 and what follows it. `beside` is what full layers cache besides K and V, `also` gives
    further weights of a kind of attention; each prediction module has a head, and where `embedded`
    an embedding.
    """
    modules = mtp_layers(config, dims)
    every = _kinds(config, dims, len(modules), beside)
    at = config.prefix + AT
    gated = config.boolean("use_head_wise_attn_gate", "gating", default=True)
    bias = config.boolean("attention_bias", default=False)

    def own(kind: Kind) -> list[Weight]:
        gates = [head_gate(at, kind.dims, kind.layers)] if gated else []
        return [*gates, *(also(kind) if also else ())]

    drafting = [
        kind.at(tuple(dims.layers + index for index in kind.layers))
        for kind in kinds_of(every[dims.layers :])
    ]
    block = [
        *dense_mlp(at, dims, modules),
        *norms(at, dims.hidden, modules, "input_layernorm", "post_attention_layernorm"),
    ]
    for kind in drafting:
        block += [*kind_attention(at, kind, qkv_bias=bias, qk_norm=True), *own(kind)]
    if not embedded:
        head = f"{at}.transformer.shared_head.output"
        block.append(
            linear(head, dims.vocab, dims.hidden, part=Part.MTP, layers=modules, split=Split.VOCAB)
        )
    return mixed_decoder(
        config,
        dims,
        kinds_of(every[: dims.layers]),
        _mlps(at, dims, moe, sparse, corrected=True),
        qkv_bias=bias,
        qk_norm=True,
        per_kind=own,
        extra=mtp_module(at, dims, modules, block, vocabulary=embedded),
        draft_groups=tuple(every[module].at((module,)).group for module in modules),
        traits=("sparse_attention",) if beside else (),
    )


def _kinds(config: Config, dims: Dims, modules: int, beside: tuple[CachePart, ...]) -> list[Kind]:
    """The attention of each layer and prediction module; lists run on into the modules."""
    full = Kind(dims=dims, layers=(), beside=beside)
    other = config.section(OTHER)
    heads = config.integer(
        "num_sliding_attention_heads",
        "swa_num_attention_heads",
        default=other.integer("num_attention_heads", default=dims.heads),
    )
    sliding = Kind(dims=replace(dims, heads=heads), layers=(), window=window_size(config))
    types = config.texts("layer_types") or []
    ahead = config.texts("mtp_layer_types") or []
    if types:
        config.per_layer(types, "layer_types", dims.layers)
        ahead = types[dims.layers :] or ahead
    every = [*types[: dims.layers], *ahead]
    every += ["full_attention"] * (dims.layers + modules - len(every))
    return [sliding if kind in SLIDING else full for kind in every[: dims.layers + modules]]


def step_moe(
    config: Config,
    *,
    experts: int | None = None,
    top_k: int | None = None,
    width: int | None = None,
    shared: int | None = None,
) -> Moe:
    """The routed experts and the shared one; keyword arguments are the class defaults."""
    return Moe(
        num_experts=config.integer(
            "moe_num_experts", "n_routed_experts", "num_experts", default=experts
        ),
        top_k=config.integer("moe_top_k", "num_experts_per_tok", default=top_k),
        width=config.integer("moe_intermediate_size", default=width),
        shared_width=config.integer("share_expert_dim", "share_expert_dims", default=shared),
    )


def step_sparse(config: Config, layers: int, *, default: Sequence[int]) -> list[bool]:
    """Routed layers: `mlp_layer_types`, the indices in `moe_layers_enum` ("4,5,6" or a list) or
    `moe_layer_list`, or the class's own.
    """
    types = config.texts("mlp_layer_types")
    if types is not None:
        return [kind == "sparse" for kind in config.per_layer(types, "mlp_layer_types", layers)]
    name = "moe_layers_enum" if config.has("moe_layers_enum") else "moe_layer_list"
    stated = config.get(name)
    if stated is None:
        routed = set(default)
    else:
        items = stated.split(",") if isinstance(stated, str) else config.integers(name) or []
        if any(isinstance(item, str) and not _is_index(item) for item in items):
            raise config.fail(name, "must be layer indices separated by commas")
        routed = {int(item) for item in items}
    return [index in routed for index in range(layers)]


def _is_index(item: str) -> bool:
    text = item.strip()
    return text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS


def _mlps(
    at: str, dims: Dims, moe: Moe, sparse: Sequence[bool], *, corrected: bool
) -> list[Weight]:
    """Dense MLPs, and mixtures beside one shared expert, in the checkpoints' names."""
    routed = chosen(sparse, True)
    weights = dense_mlp(at, dims, chosen(sparse, False))
    if not routed:
        return weights
    weights += [
        router(at, dims.hidden, moe.num_experts, routed, module="moe.gate"),
        *routed_experts(
            at,
            dims.hidden,
            moe.width,
            routed,
            num_experts=moe.num_experts,
            top_k=moe.top_k,
            module="moe",
        ),
        *gated_mlp(
            at,
            dims.hidden,
            moe.shared_width,
            routed,
            module="share_expert",
            part=Part.SHARED_EXPERTS,
        ),
    ]
    return weights + (correction(at, moe, routed, name="moe.router_bias") if corrected else [])
