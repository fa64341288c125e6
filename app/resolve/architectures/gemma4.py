"""Gemma 4 with its towers, Gemma 4 unified without any, and DiffusionGemma."""

from typing import Any

from app.core.inventory import Part, Weight
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_encoder import (
    NO_BIASES,
    array,
    conv,
    encoder_layers,
    layer_norm,
    mlp_layers,
    read_tower,
)
from app.resolve.architectures.common_weights import linear, vector
from app.resolve.architectures.fields import MAX_LAYERS, Config
from app.resolve.architectures.multimodal import multimodal, text_model

NESTED: dict[str, Any] = {"prefix": "model.language_", "tied": True}
LAYER_NORMS = (
    "input_layernorm",
    "post_attention_layernorm",
    "pre_feedforward_layernorm",
    "post_feedforward_layernorm",
)


@family("gemma4", architectures=("Gemma4ForConditionalGeneration",))
def gemma4(config: Config) -> ModelShape:
    """The text model's cache; towers only where the config describes them. Defaults: Gemma4Config
    and its tower configs.
    """
    text = text_model(config, "text_config", model_type="gemma4_text", **NESTED)
    weights: list[Weight] = []
    if config.has("vision_config"):
        vision = config.section("vision_config")
        weights += gemma4_vision(vision, "model.vision_tower")
        width = vision.integer("output_proj_dims", "hidden_size", default=768)
        weights.append(_projection("model.embed_vision", text.hidden_size, width))
    if config.has("audio_config"):
        audio = config.section("audio_config")
        weights += _conformer(audio, "model.audio_tower")
        width = audio.integer("output_proj_dims", default=1536)
        weights.append(_projection("model.embed_audio", text.hidden_size, width))
    return multimodal(config, text, weights)


@family("gemma4_unified", architectures=("Gemma4UnifiedForConditionalGeneration",))
def gemma4_unified(config: Config) -> ModelShape:
    """Pixels and samples go through one projection each. Defaults: Gemma4UnifiedConfig."""
    text = text_model(config, "text_config", model_type="gemma4_unified_text", **NESTED)
    part = Part.PROJECTOR
    weights: list[Weight] = []
    if config.has("vision_config"):
        vision = config.section("vision_config")
        patch = vision.integer("patch_size", default=16, maximum=4096) * vision.integer(
            "pooling_kernel_size", default=3, maximum=4096
        )
        pixels = 3 * vision.integer("model_patch_size", default=patch, maximum=2**20) ** 2
        width = vision.integer("mm_embed_dim", default=3840)
        at = "model.embed_vision"
        weights += [
            layer_norm(f"{at}.patch_ln1", pixels, part=part),
            linear(f"{at}.patch_dense", width, pixels, part=part, bias=True),
            layer_norm(f"{at}.patch_ln2", width, part=part),
            array(
                f"{at}.pos_embedding",
                vision.integer("mm_posemb_size", default=1120),
                2,
                width,
                part=part,
            ),
            layer_norm(f"{at}.pos_norm", width, part=part),
            _projection(
                f"{at}.multimodal_embedder",
                text.hidden_size,
                vision.integer("output_proj_dims", default=3840),
            ),
        ]
    if config.has("audio_config"):
        width = config.section("audio_config").integer(
            "output_proj_dims", "audio_embed_dim", "hidden_size", default=640
        )
        weights.append(_projection("model.embed_audio", text.hidden_size, width))
    return multimodal(config, text, weights)


@family("diffusion_gemma", architectures=("DiffusionGemmaForBlockDiffusion",))
def diffusion_gemma(config: Config) -> ModelShape:
    """A canvas of tokens is denoised against the cache of the prompt: the cache is Gemma 4's, the
    decoder adds only its self-conditioning MLP. Defaults: DiffusionGemmaConfig.
    """
    text = text_model(
        config,
        "text_config",
        prefix="model.encoder.language_",
        model_type="diffusion_gemma_text",
        tied=True,
    )
    vision = config.section("vision_config")
    at = "model.decoder.self_conditioning"
    intermediate = config.section("text_config").integer("intermediate_size", default=9216)
    weights = [
        *gemma4_vision(vision, "model.encoder.vision_tower"),
        _projection(
            "model.encoder.embed_vision",
            text.hidden_size,
            vision.integer("hidden_size", default=768),
        ),
        vector(f"{at}.pre_norm", text.hidden_size),
        *mlp_layers(
            at,
            text.hidden_size,
            intermediate,
            None,
            part=Part.MLP,
            names=("gate_proj", "up_proj", "down_proj"),
            bias=False,
        ),
    ]
    return multimodal(config, text, weights, traits=("multimodal", "block_diffusion"))


def _projection(at: str, out: int, width: int) -> Weight:
    return linear(f"{at}.embedding_projection", out, width, part=Part.PROJECTOR)


def gemma4_vision(config: Config, at: str) -> list[Weight]:
    """A ViT with norms before and after everything and learned positions along both axes.
    Defaults: Gemma4VisionConfig.
    """
    tower = read_tower(config, layers=16, hidden=768, heads=12, intermediate=3072, patch=16)
    head_dim = config.integer("head_dim", default=64)
    kv_heads = config.integer("num_key_value_heads", default=12)
    positions = config.integer("position_embedding_size", default=10240)
    pixels = 3 * tower.patch * tower.patch
    return [
        linear(f"{at}.patch_embedder.input_proj", tower.hidden, pixels, part=Part.VISION),
        array(
            f"{at}.patch_embedder.position_embedding_table",
            2,
            positions,
            tower.hidden,
            part=Part.VISION,
        ),
        *encoder_layers(
            f"{at}.encoder.layers.{{layer}}",
            tower.hidden,
            tower.intermediate,
            tower.all_layers,
            qkvo=tuple(f"{name}.linear" for name in ("q_proj", "k_proj", "v_proj", "o_proj")),
            width=tower.heads * head_dim,
            kv_width=kv_heads * head_dim,
            biases=NO_BIASES,
            mlp=tuple(f"mlp.{name}.linear" for name in ("gate_proj", "up_proj", "down_proj")),
            mlp_bias=False,
            norms=LAYER_NORMS,
            norm_bias=False,
            qk_norms=("q_norm", "k_norm"),
            qk_norm_size=head_dim,
        ),
    ]


def _conformer(config: Config, at: str) -> list[Weight]:
    """A conformer: half an MLP, attention, a short convolution, half an MLP. Defaults:
    Gemma4AudioConfig.
    """
    hidden = config.integer("hidden_size", default=1024)
    depth = config.integer("num_hidden_layers", default=12, maximum=MAX_LAYERS)
    heads = config.integer("num_attention_heads", default=8)
    if hidden % heads:
        raise config.fail("num_attention_heads", f"{heads} heads do not divide {hidden}")
    kernel = config.integer("conv_kernel_size", default=5, maximum=4096)
    channels = config.integers("subsampling_conv_channels", minimum=1) or [128, 32]
    first, second = channels[0], channels[-1]
    layers = tuple(range(depth))
    inside = f"{at}.layers.{{layer}}"
    common: dict[str, Any] = {"part": Part.AUDIO, "layers": layers}
    weights = [
        conv(
            f"{at}.subsample_conv_projection.layer0.conv",
            first,
            1,
            3,
            3,
            part=Part.AUDIO,
            bias=False,
        ),
        vector(f"{at}.subsample_conv_projection.layer0.norm", first, part=Part.AUDIO),
        conv(
            f"{at}.subsample_conv_projection.layer1.conv",
            second,
            first,
            3,
            3,
            part=Part.AUDIO,
            bias=False,
        ),
        vector(f"{at}.subsample_conv_projection.layer1.norm", second, part=Part.AUDIO),
        linear(
            f"{at}.subsample_conv_projection.input_proj_linear",
            hidden,
            first // 4 * second,
            part=Part.AUDIO,
        ),
        linear(f"{inside}.self_attn.relative_k_proj", hidden, hidden, **common),
        vector(f"{inside}.self_attn.per_dim_scale", hidden // heads, **common),
        linear(f"{inside}.lconv1d.linear_start.linear", 2 * hidden, hidden, **common),
        linear(f"{inside}.lconv1d.linear_end.linear", hidden, hidden, **common),
        array(f"{inside}.lconv1d.depthwise_conv1d", hidden, 1, kernel, **common),
        linear(
            f"{at}.output_proj",
            config.integer("output_proj_dims", default=1536),
            hidden,
            part=Part.AUDIO,
            bias=True,
        ),
    ]
    weights += [
        linear(f"{inside}.self_attn.{name}", hidden, hidden, **common)
        for name in ("q_proj.linear", "k_proj.linear", "v_proj.linear", "post.linear")
    ]
    for name in ("feed_forward1", "feed_forward2"):
        weights += mlp_layers(
            f"{inside}.{name}",
            hidden,
            4 * hidden,
            layers,
            part=Part.AUDIO,
            names=("ffw_layer_1.linear", "ffw_layer_2.linear"),
            bias=False,
        )
    weights += [
        vector(f"{inside}.{name}", hidden, **common)
        for name in (
            "feed_forward1.pre_layer_norm",
            "feed_forward1.post_layer_norm",
            "feed_forward2.pre_layer_norm",
            "feed_forward2.post_layer_norm",
            "lconv1d.pre_layer_norm",
            "lconv1d.conv_norm",
            "norm_pre_attn",
            "norm_post_attn",
            "norm_out",
        )
    ]
    return weights
