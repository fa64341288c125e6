"""Mistral Small 3.1 and later, Devstral 2, Ministral 3 and Pixtral: Mistral behind Pixtral's tower."""

from collections.abc import Mapping
from typing import Any

from app.core.inventory import Part, Weight
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_encoder import feature_layers, layer_norm, mlp_projector
from app.resolve.architectures.blocks_vision import tower_of, tower_width
from app.resolve.architectures.common_weights import linear
from app.resolve.architectures.fields import Config
from app.resolve.architectures.multimodal import inner, multimodal, text_model

TEXT: Mapping[str, Any] = {
    "hidden_size": 5120,
    "intermediate_size": 32768,
    "num_hidden_layers": 40,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 131072,
    "max_position_embeddings": 131072,
    "sliding_window": 0,
}
PIXTRAL_TOWER: Mapping[str, Any] = {
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "patch_size": 14,
    "image_size": 1540,
}
LIGHTON_TEXT: Mapping[str, Any] = {
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
}
PROJECTOR = "multi_modal_projector"


@family(
    "mistral3",
    architectures=("Mistral3ForConditionalGeneration", "PixtralForConditionalGeneration"),
)
def mistral3(config: Config) -> ModelShape:
    """The text model's cache; the projector merges `spatial_merge_size` squared patches. Defaults:
    Mistral3Config.
    """
    text = text_model(
        config, prefix="language_model.", model_type="mistral", absent=TEXT, tied=True
    )
    vision = inner(config, "vision_config", model_type="pixtral", absent=PIXTRAL_TOWER)
    return multimodal(
        config, text, [*tower_of(vision, "vision_tower"), *patch_merger(config, vision, text)]
    )


def patch_merger(config: Config, vision: Config, text: ModelShape) -> list[Weight]:
    """The projector: a norm, a matrix that merges neighbouring patches, two to the text width."""
    width = tower_width(vision)
    merged = width * config.integer("spatial_merge_size", default=2, maximum=64) ** 2
    return [
        layer_norm(f"{PROJECTOR}.norm", width, part=Part.PROJECTOR, bias=False),
        linear(f"{PROJECTOR}.patch_merger.merging_layer", width, merged, part=Part.PROJECTOR),
        *mlp_projector(
            PROJECTOR,
            width * feature_layers(config, 1),
            text.hidden_size,
            bias=config.boolean("multimodal_projector_bias", default=False),
        ),
    ]


@family(
    "lighton_ocr",
    architectures=("LightOnOcrForConditionalGeneration", "LightOnOCRForConditionalGeneration"),
)
def lighton_ocr(config: Config) -> ModelShape:
    """Qwen 3 behind the same tower and projector. Defaults: LightOnOcrConfig."""
    text = text_model(
        config, prefix="language_model.", model_type="qwen3", absent=LIGHTON_TEXT, tied=True
    )
    vision = inner(config, "vision_config", model_type="pixtral", absent=PIXTRAL_TOWER)
    return multimodal(
        config, text, [*tower_of(vision, "vision_tower"), *patch_merger(config, vision, text)]
    )
