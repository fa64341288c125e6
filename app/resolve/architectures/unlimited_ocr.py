"""Unlimited-OCR: DeepSeek-OCR's towers and text model, whose answers attend to the prompt and to
their own last tokens; engines keep everything.
"""

from collections.abc import Mapping
from typing import Any

from app.core.inventory import Part
from app.core.model import ModelShape
from app.resolve.architectures import build, family
from app.resolve.architectures.blocks_encoder import array, conv
from app.resolve.architectures.blocks_sam import sam
from app.resolve.architectures.blocks_vision import clip
from app.resolve.architectures.common_weights import linear
from app.resolve.architectures.fields import Config
from app.resolve.architectures.multimodal import filled, multimodal, text_model

VISION = Part.VISION
UNUSED = ("patch_embedding", "post_layernorm")
TEXT: Mapping[str, Any] = {
    "vocab_size": 129280,
    "hidden_size": 1280,
    "intermediate_size": 6848,
    "num_hidden_layers": 12,
    "num_attention_heads": 10,
    "num_key_value_heads": 10,
    "max_position_embeddings": 32768,
    "n_routed_experts": 64,
    "n_shared_experts": 2,
    "num_experts_per_tok": 6,
    "moe_intermediate_size": 896,
    "first_k_dense_replace": 1,
    "tie_word_embeddings": False,
}
ENCODER: Mapping[str, Any] = {
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "image_size": 224,
    "patch_size": 14,
}


@family("unlimited_ocr_text")
def unlimited_ocr_text(config: Config) -> ModelShape:
    """K and V of every head over a mixture. Defaults: UnlimitedOcrTextConfig."""
    section = filled(config, model_type="deepseek_v2", defaults=TEXT, force=True)
    plain = section.overlay(
        kv_lora_rank=None,
        q_lora_rank=None,
        qk_nope_head_dim=0,
        qk_rope_head_dim=0,
        use_mla=False,
        sliding_window=None,
        layer_types=None,
    )
    return build(plain)


@family(
    "unlimited_ocr",
    "unlimited-ocr",
    architectures=("UnlimitedOcrForConditionalGeneration", "UnlimitedOCRForCausalLM"),
)
def unlimited_ocr(config: Config) -> ModelShape:
    """The text model's cache. Defaults: UnlimitedOcrConfig."""
    text = text_model(
        config,
        "text_config",
        "language_config",
        prefix="model.language_",
        model_type="unlimited_ocr_text",
        force=True,
        tied=False,
    )
    vision = config.section("vision_config")
    details = vision.section("sam_config")
    whole = filled(vision.section("encoder_config"), model_type="clip", defaults=ENCODER)
    steps = (details.integers("downsample_channels", minimum=1) or [512, 1024])[:2]
    width = details.integer("output_channels", default=256)
    hidden = whole.integer("hidden_size")
    at = "model.vision_tower"
    kept = clip(whole, f"{at}.vision_encoder")
    weights = [
        *sam(details, f"{at}.sam_encoder"),
        conv(f"{at}.sam_encoder.proj.conv1", steps[0], width, 3, 3, part=VISION, bias=False),
        conv(f"{at}.sam_encoder.proj.conv2", steps[-1], steps[0], 3, 3, part=VISION, bias=False),
        *(weight for weight in kept if not weight.name.endswith(UNUSED)),
        linear(
            "model.multi_modal_projector",
            text.hidden_size,
            steps[-1] + hidden,
            part=Part.PROJECTOR,
            bias=True,
        ),
        array("model.image_newline", text.hidden_size, part=Part.PROJECTOR),
        array("model.view_separator", text.hidden_size, part=Part.PROJECTOR),
    ]
    return multimodal(config, text, weights)
