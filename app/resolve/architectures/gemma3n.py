"""Gemma 3n: layers that read another's cache, per-layer inputs, four parallel residual streams."""

from typing import Any

from app.core.inventory import Part, Weight
from app.core.model import LayerGroup, ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_encoder import array, conv, mlp_layers
from app.resolve.architectures.blocks_mobilenet import mobilenet_v5
from app.resolve.architectures.common_shape import Dims, attention_part, model_shape, read_dims
from app.resolve.architectures.common_weights import (
    attention,
    gated_mlp,
    linear,
    norms,
    vector,
    vocabulary,
)
from app.resolve.architectures.fields import MAX_LAYERS, Config
from app.resolve.architectures.gemma4_text import LAYER_NORMS, per_layer_inputs
from app.resolve.architectures.multimodal import filled, multimodal, text_model

FULL = "full_attention"
SLIDING = "sliding_attention"
MOBILENET = "mobilenetv5_300m_enc"


@family("gemma3n_text", architectures=("Gemma3nForCausalLM",))
def gemma3n_text(config: Config) -> ModelShape:
    """Every fifth layer has full attention, the others a window; the last
    `num_kv_shared_layers` read the cache of an earlier layer of their kind and keep none.
    Defaults: Gemma3nTextConfig.
    """
    widths = config.get("intermediate_size")
    sized = config if not isinstance(widths, list) else config.overlay(intermediate_size=None)
    dims = read_dims(
        sized,
        layers=35,
        hidden=2048,
        heads=8,
        kv_heads=2,
        head_dim=256,
        intermediate=16384,
        vocab=262400,
        max_positions=32768,
        tied=True,
    )
    if isinstance(widths, list):
        stated = config.integers("intermediate_size", minimum=1) or []
        per_layer = config.per_layer(stated, "intermediate_size", dims.layers)
    else:
        per_layer = [dims.intermediate] * dims.layers
    types = config.texts("layer_types")
    if types is None:
        types = [FULL if (index + 1) % 5 == 0 else SLIDING for index in range(dims.layers)]
    types = config.per_layer(types, "layer_types", dims.layers)
    if unknown := set(types).difference((FULL, SLIDING)):
        raise config.fail("layer_types", f"has kinds this family does not know: {sorted(unknown)}")
    shared = config.integer("num_kv_shared_layers", default=15, minimum=0, maximum=dims.layers)
    first_shared = dims.layers - shared
    if shared and set(types[:first_shared]) != set(types):
        raise config.fail("num_kv_shared_layers", "leaves no layer of some kind with a cache")
    window = config.integer("sliding_window", default=512)
    at = config.prefix + "model.layers.{layer}"
    own, reading = dims.all_layers[:first_shared], dims.all_layers[first_shared:]
    bias = config.boolean("attention_bias", default=False)
    queries = attention(at, dims, reading, bias=bias, out_bias=bias)
    weights = [
        *vocabulary(dims, prefix=config.prefix),
        *attention(at, dims, own, bias=bias, out_bias=bias),
        *([queries[0], queries[-1]] if reading else []),
        *norms(at, dims.head_dim, dims.all_layers, "self_attn.q_norm"),
        *norms(at, dims.head_dim, own, "self_attn.k_norm"),
        *norms(at, dims.hidden, dims.all_layers, *LAYER_NORMS),
        vector(config.prefix + "model.norm", dims.hidden),
        *per_layer_inputs(
            config.prefix,
            at,
            dims,
            width=config.integer("hidden_size_per_layer_input", default=256),
            vocab=config.integer("vocab_size_per_layer_input", default=262144),
        ),
        *_streams(config, at, dims),
    ]
    for width in dict.fromkeys(per_layer):
        layers = [index for index, other in enumerate(per_layer) if other == width]
        weights += gated_mlp(at, dims.hidden, width, layers)
    return model_shape(
        config, dims, groups=_groups(dims, types, first_shared, window), weights=weights
    )


def _groups(dims: Dims, types: list[str], first_shared: int, window: int) -> tuple[LayerGroup, ...]:
    members: dict[tuple[str, bool], list[int]] = {}
    for index, name in enumerate(types):
        members.setdefault((name, index >= first_shared), []).append(index)
    return tuple(
        LayerGroup(
            layers=tuple(layers),
            parts=()
            if reads_other
            else (attention_part(dims, window=window if name == SLIDING else None),),
            num_attention_heads=dims.heads,
        )
        for (name, reads_other), layers in members.items()
    )


def _streams(config: Config, at: str, dims: Dims) -> list[Weight]:
    """AltUp's residual streams (arXiv:2301.13310) and LAuReL's low-rank side path."""
    streams = config.integer("altup_num_inputs", default=4, maximum=1024)
    rank = config.integer("laurel_rank", default=64)
    layers, hidden = dims.all_layers, dims.hidden
    extra = tuple(range(streams - 1))
    common: dict[str, Any] = {"part": Part.OTHER, "layers": layers}
    root = config.prefix + "model."
    altup = f"{at}.altup"
    return [
        vector(f"{altup}.correct_output_scale", hidden, **common),
        array(f"{altup}.correction_coefs", streams, streams, **common),
        array(f"{altup}.prediction_coefs", streams * streams, streams, **common),
        array(f"{altup}.modality_router", streams, hidden, **common),
        vector(f"{altup}.router_norm", hidden, layers=layers),
        linear(f"{at}.laurel.linear_left", rank, hidden, **common),
        linear(f"{at}.laurel.linear_right", hidden, rank, **common),
        vector(f"{at}.laurel.post_laurel_norm", hidden, layers=layers),
        linear(root + "altup_projections.{layer}", hidden, hidden, part=Part.OTHER, layers=extra),
        linear(
            root + "altup_unembed_projections.{layer}",
            hidden,
            hidden,
            part=Part.OTHER,
            layers=extra,
        ),
    ]


@family("gemma3n", architectures=("Gemma3nForConditionalGeneration",))
def gemma3n(config: Config) -> ModelShape:
    """MobileNet-V5 for images, a conformer for sound. Defaults: Gemma3nConfig."""
    text = text_model(
        config, "text_config", prefix="model.language_", model_type="gemma3n_text", tied=True
    )
    vision = config.section("vision_config")
    audio = config.section("audio_config")
    if (name := vision.text("architecture", default=MOBILENET)) != MOBILENET:
        raise vision.fail("architecture", f"names a vision tower that is not known: {name!r}")
    weights = [
        *mobilenet_v5("model.vision_tower.timm_model"),
        *_audio_tower(audio, "model.audio_tower"),
        *_embedder("model.embed_vision", vision, text.hidden_size, width=2048),
        *_embedder("model.embed_audio", audio, text.hidden_size, width=1536),
    ]
    return multimodal(config, text, weights)


def _embedder(at: str, config: Config, out: int, *, width: int) -> list[Weight]:
    part = Part.PROJECTOR
    width = config.integer("hidden_size", default=width)
    return [
        array(f"{at}.embedding", config.integer("vocab_size", default=128), width, part=part),
        vector(f"{at}.hard_embedding_norm", width, part=part),
        vector(f"{at}.soft_embedding_norm", width, part=part),
        linear(f"{at}.embedding_projection", out, width, part=part),
    ]


def _audio_tower(config: Config, at: str) -> list[Weight]:
    """A conformer over twice-strided convolutions. Defaults: Gemma3nAudioConfig."""
    config = filled(config, model_type="gemma3n_audio", defaults={"conf_conv_kernel_size": 5})
    hidden = config.integer("hidden_size", default=1536)
    layers = tuple(range(config.integer("conf_num_hidden_layers", default=12, maximum=MAX_LAYERS)))
    heads = config.integer("conf_num_attention_heads", default=8)
    if hidden % heads:
        raise config.fail("conf_num_attention_heads", f"{heads} heads do not divide {hidden}")
    features = config.integer("input_feat_size", default=128)
    channels = config.integers("sscp_conv_channel_size", minimum=1) or [128, 32]
    first, second = channels[0], channels[-1]
    for _ in range(2):
        features = (features + 1) // 2
    part = Part.AUDIO
    inside = f"{at}.conformer.{{layer}}"
    common: dict[str, Any] = {"part": part, "layers": layers}
    sub = f"{at}.subsample_conv_projection"
    weights = [
        conv(f"{sub}.conv_0.conv", first, 1, 3, 3, part=part, bias=False),
        vector(f"{sub}.conv_0.norm", first, part=part),
        conv(f"{sub}.conv_1.conv", second, first, 3, 3, part=part, bias=False),
        vector(f"{sub}.conv_1.norm", second, part=part),
        linear(f"{sub}.input_proj_linear", hidden, second * features, part=part),
        vector(f"{inside}.attention.attn.per_dim_scale", hidden // heads, **common),
        linear(f"{inside}.lconv1d.linear_start", 2 * hidden, hidden, **common),
        linear(f"{inside}.lconv1d.linear_end", hidden, hidden, **common),
        array(
            f"{inside}.lconv1d.depthwise_conv1d",
            hidden,
            1,
            config.integer("conf_conv_kernel_size", default=5, maximum=4096),
            **common,
        ),
    ]
    weights += [
        linear(f"{inside}.attention.{name}", hidden, hidden, **common)
        for name in (
            "attn.q_proj",
            "attn.k_proj",
            "attn.v_proj",
            "attn.relative_position_embedding.pos_proj",
            "post",
        )
    ]
    for name in ("ffw_layer_start", "ffw_layer_end"):
        weights += mlp_layers(
            f"{inside}.{name}",
            hidden,
            4 * hidden,
            layers,
            part=part,
            names=("ffw_layer_1", "ffw_layer_2"),
            bias=False,
        )
        weights += [
            vector(f"{inside}.{name}.{norm}", hidden, **common)
            for norm in ("pre_layer_norm", "post_layer_norm")
        ]
    weights += [
        vector(f"{inside}.{name}", hidden, **common)
        for name in (
            "attention.pre_attn_norm",
            "attention.post_norm",
            "lconv1d.pre_layer_norm",
            "lconv1d.conv_norm",
            "norm",
        )
    ]
    return weights
