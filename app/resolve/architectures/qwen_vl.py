"""Qwen2-VL, Qwen2.5-VL, Qwen3-VL and its mixture, and the models published as them."""

from collections.abc import Mapping
from typing import Any

from app.core.model import ModelShape
from app.resolve.architectures import build, family
from app.resolve.architectures.blocks_qwen2_vision import qwen2_5_vision, qwen2_vision
from app.resolve.architectures.blocks_qwen_vision import qwen3_vision
from app.resolve.architectures.fields import Config
from app.resolve.architectures.multimodal import filled, multimodal, text_model

QWEN2_TEXT: Mapping[str, Any] = {
    "vocab_size": 152064,
    "hidden_size": 8192,
    "intermediate_size": 29568,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "max_position_embeddings": 32768,
    "max_window_layers": 80,
    "tie_word_embeddings": False,
}
QWEN3_TEXT: Mapping[str, Any] = {
    "max_position_embeddings": 128000,
    "tie_word_embeddings": False,
}
QWEN3_MOE_TEXT: Mapping[str, Any] = {
    "vocab_size": 151936,
    "hidden_size": 2048,
    "intermediate_size": 5632,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "max_position_embeddings": 128000,
    "moe_intermediate_size": 1408,
    "num_experts": 60,
    "num_experts_per_tok": 4,
    "tie_word_embeddings": False,
}


@family("qwen2_vl_text", "qwen2_5_vl_text")
def qwen2_vl_text(config: Config) -> ModelShape:
    """Qwen 2 with rotary positions along three axes. Defaults: Qwen2VLTextConfig."""
    return build(filled(config, model_type="qwen2", defaults=QWEN2_TEXT, force=True))


@family("qwen3_vl_text")
def qwen3_vl_text(config: Config) -> ModelShape:
    """Qwen 3 with rotary positions along three axes. Defaults: Qwen3VLTextConfig."""
    return build(filled(config, model_type="qwen3", defaults=QWEN3_TEXT, force=True))


@family("qwen3_vl_moe_text")
def qwen3_vl_moe_text(config: Config) -> ModelShape:
    """Qwen 3's mixture likewise. Defaults: Qwen3VLMoeTextConfig."""
    return build(filled(config, model_type="qwen3_moe", defaults=QWEN3_MOE_TEXT, force=True))


def flat_or_nested_text(config: Config, model_type: str) -> tuple[ModelShape, str]:
    """The text model and the path of the vision tower: configs of before transformers 4.52 have
    the text model's keys beside the vision config's and name modules accordingly.
    """
    if config.has("text_config"):
        text = text_model(
            config,
            "text_config",
            prefix="model.language_",
            model_type=model_type,
            tied=False,
            hoisted=True,
        )
        return text, "model.visual"
    return build(filled(config, model_type=model_type, force=True)), "visual"


@family("qwen2_vl", architectures=("Qwen2VLForConditionalGeneration",))
def qwen2_vl(config: Config) -> ModelShape:
    """The text model's cache; the tower merges four patches into a token. Defaults: Qwen2VLConfig."""
    text, at = flat_or_nested_text(config, "qwen2_vl_text")
    return multimodal(config, text, qwen2_vision(config.section("vision_config"), at))


@family("qwen2_5_vl", architectures=("Qwen2_5_VLForConditionalGeneration",))
def qwen2_5_vl(config: Config) -> ModelShape:
    """As Qwen2-VL with a windowed tower. Defaults: Qwen2_5_VLConfig."""
    text, at = flat_or_nested_text(config, "qwen2_5_vl_text")
    return multimodal(config, text, qwen2_5_vision(config.section("vision_config"), at))


@family("qwen3_vl", architectures=("Qwen3VLForConditionalGeneration",))
def qwen3_vl(config: Config) -> ModelShape:
    """The text model's cache; features of several depths of the tower join the first layers
    (deepstack), which adds mergers and no cache. Defaults: Qwen3VLConfig.
    """
    return _qwen3(config, "qwen3_vl_text")


@family("qwen3_vl_moe", architectures=("Qwen3VLMoeForConditionalGeneration",))
def qwen3_vl_moe(config: Config) -> ModelShape:
    """As Qwen3-VL with routed experts. Defaults: Qwen3VLMoeConfig."""
    return _qwen3(config, "qwen3_vl_moe_text")


def _qwen3(config: Config, model_type: str) -> ModelShape:
    text = text_model(
        config, "text_config", prefix="model.language_", model_type=model_type, tied=False
    )
    vision = config.section("vision_config")
    return multimodal(config, text, qwen3_vision(vision, "model.visual.", deepstack=True))
