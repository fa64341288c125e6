"""PaddleOCR-VL: ERNIE 4.5 behind SigLIP, four patches a token."""

from app.core.inventory import Part
from app.core.model import ModelShape
from app.resolve.architectures import build, family
from app.resolve.architectures.blocks_encoder import layer_norm, mlp_projector
from app.resolve.architectures.blocks_vision import siglip
from app.resolve.architectures.ernie4_5 import ernie4_5
from app.resolve.architectures.fields import Config
from app.resolve.architectures.multimodal import filled, multimodal, text_model

TOWER = {
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_hidden_layers": 27,
    "num_attention_heads": 16,
    "image_size": 384,
    "patch_size": 14,
}


@family("paddleocr_vl_text")
def paddleocr_vl_text(config: Config) -> ModelShape:
    """ERNIE 4.5, whose defaults PaddleOCRTextConfig has too."""
    return ernie4_5(config)


@family("paddleocr_vl", architectures=("PaddleOCRVLForConditionalGeneration",))
def paddleocr_vl(config: Config) -> ModelShape:
    """The text model's cache; published configs have its keys at the top. Defaults:
    PaddleOCRVLConfig.
    """
    if config.has("text_config"):
        text = text_model(
            config, prefix="model.language_", model_type="paddleocr_vl_text", force=True, tied=True
        )
        projector, at = "model.projector", "model.visual.vision_model"
    else:
        text = build(filled(config, model_type="paddleocr_vl_text", force=True))
        projector, at = "mlp_AR", "visual.vision_model"
    vision = filled(config.section("vision_config"), model_type="siglip", defaults=TOWER)
    width = vision.integer("hidden_size", default=1152)
    merged = width * vision.integer("spatial_merge_size", default=2, maximum=64) ** 2
    weights = [
        *siglip(vision, at, head=False),
        layer_norm(f"{projector}.pre_norm", width, part=Part.PROJECTOR),
        *mlp_projector(projector, merged, text.hidden_size, inner=merged),
    ]
    return multimodal(config, text, weights)
