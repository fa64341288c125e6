"""Gemma 3 with its vision tower, PaliGemma 1 and 2, ShieldGemma 2."""

from collections.abc import Mapping
from typing import Any

from app.core.inventory import Part
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_encoder import array, layer_norm
from app.resolve.architectures.blocks_vision import tower_of, tower_width
from app.resolve.architectures.common_weights import linear
from app.resolve.architectures.fields import Config
from app.resolve.architectures.multimodal import (
    MULTIMODAL,
    PREFIX_LM,
    inner,
    multimodal,
    text_model,
)

PROJECTOR = "multi_modal_projector"
SIGLIP = "siglip_vision_model"
PALIGEMMA_TOWER: Mapping[str, Any] = {
    "hidden_size": 1152,
    "intermediate_size": 4096,
    "num_hidden_layers": 27,
    "num_attention_heads": 16,
    "patch_size": 14,
    "image_size": 224,
    "vision_use_head": False,
}
PALIGEMMA_TEXT: Mapping[str, Any] = {
    "hidden_size": 2048,
    "intermediate_size": 16384,
    "num_hidden_layers": 18,
    "num_attention_heads": 8,
    "num_key_value_heads": 1,
    "vocab_size": 257152,
}


@family(
    "gemma3",
    "shieldgemma2",
    architectures=("Gemma3ForConditionalGeneration", "ShieldGemma2ForImageClassification"),
)
def gemma3(config: Config) -> ModelShape:
    """The text model's cache; an image's tokens see each other, so it is prefilled in one go.
    Defaults: Gemma3Config.
    """
    text = text_model(config, prefix="language_model.", model_type="gemma3_text", tied=True)
    vision = inner(config, "vision_config", model_type=SIGLIP)
    width = tower_width(vision)
    weights = [
        *tower_of(vision, "vision_tower.vision_model"),
        array(
            f"{PROJECTOR}.mm_input_projection_weight", width, text.hidden_size, part=Part.PROJECTOR
        ),
        layer_norm(f"{PROJECTOR}.mm_soft_emb_norm", width, part=Part.PROJECTOR, bias=False),
    ]
    return multimodal(config, text, weights, traits=(MULTIMODAL, PREFIX_LM))


@family("paligemma", architectures=("PaliGemmaForConditionalGeneration",))
def paligemma(config: Config) -> ModelShape:
    """Gemma 1 or 2 behind SigLIP; the whole prompt is a prefix. Defaults: PaliGemmaConfig."""
    text = text_model(
        config, prefix="language_model.", model_type="gemma", absent=PALIGEMMA_TEXT, tied=True
    )
    vision = inner(config, "vision_config", model_type=SIGLIP, absent=PALIGEMMA_TOWER)
    width = tower_width(vision)
    out = config.integer("projection_dim", default=2048)
    weights = [
        *tower_of(vision, "vision_tower.vision_model"),
        linear(f"{PROJECTOR}.linear", out, width, part=Part.PROJECTOR, bias=True),
    ]
    return multimodal(config, text, weights, traits=(MULTIMODAL, PREFIX_LM))
