"""GLM-4.1V, 4.5V, 4.6V and GLM-OCR: GLM text models behind a ViT that merges four patches."""

from collections.abc import Mapping
from typing import Any

from app.core.inventory import Part, Weight
from app.core.model import ModelShape
from app.resolve.architectures import build, family
from app.resolve.architectures.blocks_encoder import (
    array,
    conv,
    encoder_layers,
    layer_norm,
    mlp_layers,
    read_tower,
)
from app.resolve.architectures.blocks_qwen_vision import patch_elements
from app.resolve.architectures.common_shape import read_dims
from app.resolve.architectures.common_weights import linear
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import FUSED_GATE_UP, Names, llama_like
from app.resolve.architectures.multimodal import filled, multimodal, text_model

VISION = Part.VISION
PROJECTOR = Part.PROJECTOR
GATED = ("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")
SANDWICH = Names(
    norms=(
        "input_layernorm",
        "post_attention_layernorm",
        "post_self_attn_layernorm",
        "post_mlp_layernorm",
    ),
    mlp=FUSED_GATE_UP,
)
MOE_TEXT: Mapping[str, Any] = {
    "vocab_size": 151424,
    "max_position_embeddings": 65536,
    "attention_bias": True,
    "use_qk_norm": False,
    "num_nextn_predict_layers": 0,
}


@family("glm4v_text")
def glm4v_text(config: Config) -> ModelShape:
    """GLM-4 with rotary positions along three axes. Defaults: Glm4vTextConfig."""
    dims = read_dims(
        config,
        layers=40,
        hidden=4096,
        heads=32,
        kv_heads=2,
        intermediate=13696,
        vocab=151552,
        max_positions=32768,
    )
    return llama_like(config, dims, names=SANDWICH, qkv_bias=True)


@family("glm_ocr_text")
def glm_ocr_text(config: Config) -> ModelShape:
    """As GLM-4.1V's, without biases, heads of 128. Defaults: GlmOcrTextConfig."""
    dims = read_dims(
        config,
        layers=16,
        hidden=1024,
        heads=16,
        kv_heads=8,
        intermediate=4096,
        vocab=59392,
        max_positions=131072,
    )
    return llama_like(config, dims, names=SANDWICH)


@family("glm4v_moe_text")
def glm4v_moe_text(config: Config) -> ModelShape:
    """GLM-4.5's mixture. Defaults: Glm4vMoeTextConfig."""
    return build(filled(config, model_type="glm4_moe", defaults=MOE_TEXT, force=True))


@family(
    "glm4v",
    "glm46v",
    "glmga",
    architectures=("Glm4vForConditionalGeneration", "Glm46VForConditionalGeneration"),
)
def glm4v(config: Config) -> ModelShape:
    """The text model's cache. Defaults: Glm4vConfig."""
    return _wrapped(config, "glm4v_text")


@family("glm4v_moe", architectures=("Glm4vMoeForConditionalGeneration",))
def glm4v_moe(config: Config) -> ModelShape:
    """The mixture's cache. Defaults: Glm4vMoeConfig."""
    return _wrapped(config, "glm4v_moe_text")


@family("glm_ocr", architectures=("GlmOcrForConditionalGeneration",))
def glm_ocr(config: Config) -> ModelShape:
    """The text model's cache; a smaller tower with norms on queries and keys. Defaults:
    GlmOcrConfig.
    """
    text = _text(config, "glm_ocr_text")
    vision = config.section("vision_config")
    tower = read_tower(vision, layers=24, hidden=1024, heads=16, intermediate=4096, image=336)
    out = vision.integer("out_hidden_size", default=1536)
    bias = vision.boolean("attention_bias", default=True)
    if tower.hidden % tower.heads:
        raise vision.fail("num_heads", f"{tower.heads} heads do not divide {tower.hidden}")
    at = "model.visual"
    weights = [
        *encoder_layers(
            f"{at}.blocks.{{layer}}",
            tower.hidden,
            tower.intermediate,
            tower.all_layers,
            attention="attn",
            qkvo=("qkv", "proj"),
            biases=(bias, bias, bias, bias),
            mlp=GATED,
            mlp_bias=bias,
            norms=("norm1", "norm2"),
            norm_bias=False,
            qk_norms=("q_norm", "k_norm"),
            qk_norm_size=tower.hidden // tower.heads,
        ),
        *_ends(vision, at, tower.hidden, out, merger=out * tower.channels),
    ]
    return multimodal(config, text, weights)


def _text(config: Config, model_type: str) -> ModelShape:
    return text_model(
        config, prefix="model.language_", model_type=model_type, tied=False, hoisted=True
    )


def _wrapped(config: Config, model_type: str) -> ModelShape:
    text = _text(config, model_type)
    vision = config.section("vision_config")
    tower = read_tower(vision, layers=24, hidden=1536, heads=12, intermediate=13696, image=336)
    out = vision.integer("out_hidden_size", default=4096)
    bias = vision.boolean("attention_bias", default=False)
    at = "model.visual"
    weights = [
        array(f"{at}.embeddings.position_embedding", tower.patches, tower.hidden, part=VISION),
        *encoder_layers(
            f"{at}.blocks.{{layer}}",
            tower.hidden,
            out,
            tower.all_layers,
            attention="attn",
            qkvo=("qkv", "proj"),
            biases=(bias, bias, bias, False),
            mlp=GATED,
            mlp_bias=False,
            norms=("norm1", "norm2"),
            norm_bias=False,
        ),
        layer_norm(f"{at}.post_conv_layernorm", tower.hidden, part=VISION, bias=False),
        *_ends(vision, at, tower.hidden, out, merger=tower.intermediate),
    ]
    return multimodal(config, text, weights, tower_heads=12)


def _ends(config: Config, at: str, width: int, out: int, *, merger: int) -> list[Weight]:
    """Before and after the blocks: patches, a strided convolution, the merger."""
    stride = config.integer("spatial_merge_size", default=2, maximum=64)
    pixels = patch_elements(config.overlay(patch_size=config.get("patch_size") or 14))
    return [
        array(f"{at}.patch_embed.proj", width, pixels, part=VISION, bias=width),
        conv(f"{at}.downsample", out, width, stride, stride, part=VISION),
        layer_norm(f"{at}.post_layernorm", width, part=VISION, bias=False),
        linear(f"{at}.merger.proj", out, out, part=PROJECTOR),
        layer_norm(f"{at}.merger.post_projection_norm", out, part=PROJECTOR),
        *mlp_layers(
            f"{at}.merger",
            out,
            merger,
            None,
            part=PROJECTOR,
            names=("gate_proj", "up_proj", "down_proj"),
            bias=False,
        ),
    ]
