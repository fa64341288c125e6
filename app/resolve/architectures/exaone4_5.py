"""EXAONE 4.5: EXAONE 4 behind Qwen2.5-VL's tower with grouped keys."""

from dataclasses import replace

from app.core.inventory import Weight
from app.core.model import LayerGroup, ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_qwen2_vision import qwen2_5_vision
from app.resolve.architectures.exaone import exaone4_dims, mtp_weights
from app.resolve.architectures.fields import Config
from app.resolve.architectures.multimodal import inner, multimodal, text_model

MODULES = "num_nextn_predict_layers"


@family("exaone4_5", architectures=("Exaone4_5_ForConditionalGeneration",))
def exaone4_5(config: Config) -> ModelShape:
    """The text model's cache. Prediction modules repeat its first layers: as many as the wrapper
    says (engines: one where it says nothing); the text config says what is stored. Defaults:
    Exaone4_5_Config and its vision config.
    """
    named = inner(config, "text_config", model_type="exaone4").text("model_type")
    text = text_model(
        config,
        prefix="model.language_",
        model_type="exaone4",
        force=named == "exaone4_5_text",
        tied=False,
    )
    text = replace(text, draft_groups=_drafts(config, text))
    vision = config.section("vision_config")
    kv_heads = vision.integer("num_key_value_heads", default=8)
    weights = [*qwen2_5_vision(vision, "model.visual", kv_heads=kv_heads), *_stored_drafts(config)]
    return multimodal(config, text, weights)


def _drafts(config: Config, text: ModelShape) -> tuple[LayerGroup, ...]:
    modules = config.integer(MODULES, default=1, minimum=0, maximum=text.num_hidden_layers)
    kinds = {index: group for group in text.groups for index in group.layers if index < modules}
    return tuple(replace(kinds[index], layers=(index,)) for index in range(modules))


def _stored_drafts(config: Config) -> list[Weight]:
    section = config.section("text_config")
    modules = section.integer(MODULES, default=0, minimum=0, maximum=64)
    return mtp_weights(section, exaone4_dims(section), modules) if modules else []
