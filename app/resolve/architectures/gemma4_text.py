"""Gemma 4's text models: windowed layers with a full one in between, of other head sizes."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from app.core.inventory import Part, Split, Weight
from app.core.model import LayerGroup, ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.common_shape import Dims, attention_part, model_shape, read_dims
from app.resolve.architectures.common_weights import (
    attention,
    gated_mlp,
    linear,
    norms,
    routed_experts,
    router,
    vector,
    vocabulary,
)
from app.resolve.architectures.fields import Config

PREFIX_LM = "prefix_lm"
FULL = "full_attention"
SLIDING = "sliding_attention"
LAYER_NORMS = (
    "input_layernorm",
    "post_attention_layernorm",
    "pre_feedforward_layernorm",
    "post_feedforward_layernorm",
)
EXPERT_NORMS = (
    "post_feedforward_layernorm_1",
    "post_feedforward_layernorm_2",
    "pre_feedforward_layernorm_2",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """What makes two layers alike: their window, their heads, and whose cache they read."""

    slides: bool
    head_dim: int
    kv_heads: int
    reads_other: bool


@family("gemma4_text", architectures=("Gemma4ForCausalLM",))
def gemma4_text(config: Config) -> ModelShape:
    """Windowed layers and, where `layer_types` says so and always last, full ones with
    `global_head_dim` wide heads, whose values may be their keys (`attention_k_eq_v`, which also
    gives them `num_global_key_value_heads`); the cache keeps both all the same. The last
    `num_kv_shared_layers` read the cache of an earlier layer. Defaults: Gemma4TextConfig.
    """
    return gemma4_decoder(config, window=512, positions=131072, per_layer_width=256)


@family("gemma4_unified_text", architectures=("Gemma4UnifiedForCausalLM",))
def gemma4_unified_text(config: Config) -> ModelShape:
    """As `gemma4_text`, without experts and per-layer inputs. Defaults: Gemma4UnifiedTextConfig."""
    config = config.overlay(enable_moe_block=False, hidden_size_per_layer_input=0)
    if "use_bidirectional_attention" not in config.data:
        config = config.overlay(use_bidirectional_attention="vision")
    return gemma4_decoder(config, window=1024, positions=262144, per_layer_width=0)


@family("diffusion_gemma_text")
def diffusion_gemma_text(config: Config) -> ModelShape:
    """The encoder half of DiffusionGemma, whose weights its decoder shares: Gemma 4 with experts
    in every layer, no values in full layers, no shared caches. Defaults: DiffusionGemmaTextConfig.
    """
    fixed = config.overlay(
        enable_moe_block=config.has("num_experts"),
        hidden_size_per_layer_input=0,
        num_kv_shared_layers=0,
        attention_k_eq_v=True,
    )
    return gemma4_decoder(fixed, window=512, positions=131072, per_layer_width=0)


def gemma4_decoder(
    config: Config, *, window: int, positions: int, per_layer_width: int
) -> ModelShape:
    """The common decoder; keyword arguments are the class's defaults."""
    dims = read_dims(
        config,
        layers=30,
        hidden=2304,
        heads=8,
        kv_heads=4,
        head_dim=256,
        intermediate=9216,
        vocab=262144,
        max_positions=positions,
        tied=True,
    )
    window = config.integer("sliding_window", default=window)
    bidirectional = config.text("use_bidirectional_attention")
    if bidirectional == "all":
        window = window // 2 + 1
    members = _layer_kinds(config, dims)
    at = config.prefix + "model.layers.{layer}"
    weights = [
        *vocabulary(dims, prefix=config.prefix),
        *norms(at, dims.hidden, dims.all_layers, *LAYER_NORMS),
        vector(config.prefix + "model.norm", dims.hidden),
        *_experts(config, at, dims),
        *_per_layer_inputs(config, at, dims, per_layer_width),
    ]
    bias = config.boolean("attention_bias", default=False)
    keys_are_values = config.boolean("attention_k_eq_v", default=False)
    double = config.boolean("use_double_wide_mlp", default=False)
    groups = []
    for kind, layers in members.items():
        sized = replace(dims, head_dim=kind.head_dim, kv_heads=kind.kv_heads)
        part = attention_part(sized, window=window if kind.slides else None)
        groups.append(
            LayerGroup(
                layers=tuple(layers),
                parts=() if kind.reads_other else (part,),
                num_attention_heads=dims.heads,
            )
        )
        whole = attention(
            at,
            sized,
            layers,
            bias=bias,
            out_bias=bias,
            value_from_key=keys_are_values and not kind.slides,
        )
        own = [whole[0], whole[-1]] if kind.reads_other else whole
        weights += [
            *own,
            *norms(at, kind.head_dim, layers, "self_attn.q_norm"),
            *([] if kind.reads_other else norms(at, kind.head_dim, layers, "self_attn.k_norm")),
            *gated_mlp(
                at,
                dims.hidden,
                dims.intermediate * (2 if double and kind.reads_other else 1),
                layers,
            ),
        ]
    return model_shape(
        config,
        dims,
        groups=tuple(groups),
        weights=weights,
        traits=(PREFIX_LM,) if bidirectional == "vision" else (),
    )


def _layer_kinds(config: Config, dims: Dims) -> dict[Kind, list[int]]:
    types = config.texts("layer_types")
    if types is None:
        types = [FULL if (index + 1) % 6 == 0 else SLIDING for index in range(dims.layers)]
    types = [*config.per_layer(types, "layer_types", dims.layers)[:-1], FULL]
    if unknown := set(types).difference((FULL, SLIDING)):
        raise config.fail("layer_types", f"has kinds this family does not know: {sorted(unknown)}")
    shared = config.integer("num_kv_shared_layers", default=0, minimum=0, maximum=dims.layers)
    first_shared = dims.layers - shared
    if shared and shared < dims.layers and set(types[:first_shared]) != set(types):
        raise config.fail("num_kv_shared_layers", "leaves no layer of some kind with a cache")
    own = _overrides(config)
    plain = (dims.head_dim, dims.kv_heads)
    full = _full_sizes(config, dims) if own is None else plain
    members: dict[tuple[bool, int, int, bool], list[int]] = {}
    for index, name in enumerate(types):
        head_dim, kv_heads = full if name == FULL else plain
        if own and index in own:
            head_dim = own[index][0] or head_dim
            kv_heads = own[index][1] or kv_heads
        key = (name == SLIDING, head_dim, kv_heads, index >= first_shared)
        members.setdefault(key, []).append(index)
    return {
        Kind(slides=slides, head_dim=head_dim, kv_heads=kv_heads, reads_other=reads): layers
        for (slides, head_dim, kv_heads, reads), layers in members.items()
    }


def _full_sizes(config: Config, dims: Dims) -> tuple[int, int]:
    kv_heads = None
    if config.boolean("attention_k_eq_v", default=False):
        kv_heads = config.optional_integer("num_global_key_value_heads")
    return config.integer("global_head_dim", default=512), kv_heads or dims.kv_heads


def _overrides(config: Config) -> dict[int, tuple[int | None, int | None]] | None:
    """Sizes by layer as newer configs write them, {"05": {"head_dim": 512}}; they replace the
    sizes of full layers altogether.
    """
    stated = config.get("per_layer_config")
    if stated is None:
        return None
    if not isinstance(stated, Mapping):
        raise config.fail("per_layer_config", "must be an object")
    sizes = {}
    for name, values in stated.items():
        if not (isinstance(name, str) and name.isascii() and name.isdigit()) or len(name) > 9:
            raise config.fail("per_layer_config", "must have layer numbers as names")
        layer = Config(values, path=(*config.path, "per_layer_config", name))
        sizes[int(name)] = (
            layer.optional_integer("head_dim"),
            layer.optional_integer("num_key_value_heads"),
        )
    return sizes


def _experts(config: Config, at: str, dims: Dims) -> list[Weight]:
    """Experts beside the dense MLP, with a router that scales its input and each expert."""
    if not config.boolean("enable_moe_block", default=False):
        return []
    layers = dims.all_layers
    num_experts = config.integer("num_experts")
    common: dict[str, Any] = {"part": Part.ROUTER, "layers": layers}
    return [
        router(at, dims.hidden, num_experts, layers, module="router.proj"),
        vector(f"{at}.router.scale", dims.hidden, **common),
        vector(f"{at}.router.per_expert_scale", num_experts, **common),
        *routed_experts(
            at,
            dims.hidden,
            config.integer("moe_intermediate_size", "expert_intermediate_size"),
            layers,
            num_experts=num_experts,
            top_k=config.integer("top_k_experts", "num_experts_per_tok"),
            module="experts.{expert}",
        ),
        *norms(at, dims.hidden, layers, *EXPERT_NORMS),
    ]


def _per_layer_inputs(config: Config, at: str, dims: Dims, default: int) -> list[Weight]:
    """A second, narrow embedding that adds to every layer."""
    width = config.integer("hidden_size_per_layer_input", default=default, minimum=0)
    if not width:
        return []
    vocab = config.integer("vocab_size_per_layer_input", default=262144)
    return per_layer_inputs(config.prefix, at, dims, width=width, vocab=vocab)


def per_layer_inputs(prefix: str, at: str, dims: Dims, *, width: int, vocab: int) -> list[Weight]:
    """The weights of per-layer inputs, also Gemma 3n's."""
    common: dict[str, Any] = {"part": Part.OTHER, "layers": dims.all_layers}
    return [
        Weight(
            name=prefix + "model.embed_tokens_per_layer",
            shape=(vocab, dims.layers * width),
            part=Part.OTHER,
            split=Split.VOCAB,
        ),
        linear(
            prefix + "model.per_layer_model_projection",
            dims.layers * width,
            dims.hidden,
            part=Part.OTHER,
        ),
        vector(prefix + "model.per_layer_projection_norm", width),
        linear(f"{at}.per_layer_input_gate", width, dims.hidden, **common),
        linear(f"{at}.per_layer_projection", dims.hidden, width, **common),
        *norms(at, dims.hidden, dims.all_layers, "post_per_layer_input_norm"),
    ]
