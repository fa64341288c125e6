"""Kimi-VL and Kimi K2.5, K2.6: DeepSeek's text models behind MoonViT; LocateAnything behind it."""

from app.core.inventory import Part
from app.core.model import ModelShape
from app.core.weights import STORED_TIED_HEAD
from app.resolve.architectures import family
from app.resolve.architectures.blocks_encoder import dense_chain, layer_norm
from app.resolve.architectures.blocks_moonvit import moonvit3d
from app.resolve.architectures.fields import Config
from app.resolve.architectures.multimodal import MULTIMODAL, multimodal, text_model

TOWER = "vision_tower"


@family("kimi_vl", architectures=("KimiVLForConditionalGeneration",))
def kimi_vl(config: Config) -> ModelShape:
    """Latents of DeepSeek V2 (Moonlight); four patches a token. Defaults: MoonViTConfig."""
    text = text_model(config, prefix="language_model.", model_type="deepseek_v2")
    vision = config.section("vision_config")
    tower = moonvit3d(vision, TOWER, "multi_modal_projector", text.hidden_size)
    return multimodal(config, text, tower)


@family(
    "kimi_k25",
    architectures=("KimiK25ForConditionalGeneration", "Kimi_K25ForConditionalGeneration"),
)
def kimi_k25(config: Config) -> ModelShape:
    """Latents of DeepSeek V3 (Kimi K2). Defaults: Kimi_K25Config and its vision config."""
    text = text_model(config, prefix="language_model.", model_type="deepseek_v3", tied=True)
    vision = config.section("vision_config")
    tower = moonvit3d(vision, TOWER, "mm_projector", text.hidden_size)
    return multimodal(config, text, tower)


@family("locateanything", architectures=("LocateAnythingForConditionalGeneration",))
def locate_anything(config: Config) -> ModelShape:
    """Qwen 2's cache; the projector is InternVL's over four patches at once. Published with code of
    its own; its files hold the tied head too.
    """
    text = text_model(config, prefix="language_model.", model_type="qwen2")
    vision = config.section("vision_config")
    merged = 4 * vision.integer("hidden_size", default=1152)
    tower = [
        weight
        for weight in moonvit3d(vision, "vision_model", "mlp1", text.hidden_size)
        if weight.part is Part.VISION
    ]
    steps = (("1", text.hidden_size, merged), ("3", text.hidden_size, text.hidden_size))
    projector = [layer_norm("mlp1.0", merged, part=Part.PROJECTOR), *dense_chain("mlp1", *steps)]
    return multimodal(config, text, [*tower, *projector], traits=(MULTIMODAL, STORED_TIED_HEAD))
