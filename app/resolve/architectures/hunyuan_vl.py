"""Hunyuan-VL and HunyuanOCR: dense Hunyuan behind a ViT whose merger is convolutional."""

from collections.abc import Mapping
from typing import Any

from app.core.inventory import Part
from app.core.model import ModelShape
from app.resolve.architectures import build, family
from app.resolve.architectures.blocks_encoder import (
    array,
    conv,
    encoder_layers,
    layer_norm,
    patch_conv,
    read_tower,
)
from app.resolve.architectures.common_weights import linear
from app.resolve.architectures.fields import Config
from app.resolve.architectures.multimodal import filled, multimodal, text_model

VISION = Part.VISION
PROJECTOR = Part.PROJECTOR
TEXT: Mapping[str, Any] = {"vocab_size": 290943, "tie_word_embeddings": True}


@family("hunyuan_vl_text")
def hunyuan_vl_text(config: Config) -> ModelShape:
    """Dense Hunyuan with rotary positions along four axes. Defaults: HunYuanVLTextConfig."""
    return build(filled(config, model_type="hunyuan_v1_dense", defaults=TEXT, force=True))


@family("hunyuan_vl", architectures=("HunYuanVLForConditionalGeneration",))
def hunyuan_vl(config: Config) -> ModelShape:
    """The text model's cache; older configs have its keys at the top. Defaults: HunYuanVLConfig
    and its vision config.
    """
    if config.has("text_config"):
        text = text_model(
            config, prefix="model.language_", model_type="hunyuan_vl_text", force=True, tied=True
        )
        at = "model.vision_tower"
    else:
        text = build(filled(config, model_type="hunyuan_vl_text", force=True))
        at = "vit"
    vision = config.section("vision_config")
    tower = read_tower(vision, layers=27, hidden=1152, heads=16, intermediate=4304, patch=16)
    side = vision.integer("max_image_size", default=2048, maximum=2**16) // tower.patch
    merge = vision.integer("spatial_merge_size", default=2, maximum=64)
    out = vision.integer("text_hidden_size", "out_hidden_size", default=3072)
    width = tower.hidden
    merger = f"{at}.perceive"
    weights = [
        patch_conv(f"{at}.embeddings.patch_embedding", tower),
        array(f"{at}.embeddings.position_embedding", side * side + 1, width, part=VISION),
        *encoder_layers(
            f"{at}.layers.{{layer}}",
            width,
            tower.intermediate,
            tower.all_layers,
            qkvo=("q_proj", "k_proj", "v_proj", "o_proj"),
        ),
        layer_norm(f"{merger}.before_rms", width, part=PROJECTOR, bias=False),
        conv(f"{merger}.proj_conv", 2 * width, width, merge, merge, part=PROJECTOR),
        conv(f"{merger}.proj_out", 4 * width, 2 * width, 1, 1, part=PROJECTOR),
        linear(f"{merger}.mlp", out, 4 * width, part=PROJECTOR, bias=True),
        array(f"{merger}.image_newline", 4 * width, part=PROJECTOR),
        *(
            array(f"{merger}.{name}", out, part=PROJECTOR)
            for name in ("image_begin", "image_end", "image_sep")
        ),
        layer_norm(f"{merger}.after_rms", out, part=PROJECTOR, bias=False),
    ]
    return multimodal(config, text, weights)
