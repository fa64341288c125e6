"""EXAONE 4.5: EXAONE 4 behind Qwen2.5-VL's tower with grouped keys."""

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_qwen2_vision import qwen2_5_vision
from app.resolve.architectures.fields import Config
from app.resolve.architectures.multimodal import inner, multimodal, text_model


@family("exaone4_5", architectures=("Exaone4_5_ForConditionalGeneration",))
def exaone4_5(config: Config) -> ModelShape:
    """The text model's cache. Defaults: Exaone4_5_Config and its vision config."""
    named = inner(config, "text_config", model_type="exaone4").text("model_type")
    text = text_model(
        config,
        prefix="model.language_",
        model_type="exaone4",
        force=named == "exaone4_5_text",
        head="lm_head",
        tied=False,
    )
    vision = config.section("vision_config")
    kv_heads = vision.integer("num_key_value_heads", default=8)
    return multimodal(config, text, qwen2_5_vision(vision, "model.visual", kv_heads=kv_heads))
