"""InternVL: as transformers publishes it (InternVL 3 -hf, InternS1 mini) and as OpenGVLab does."""

from collections.abc import Mapping
from typing import Any

from app.core.inventory import Part, Weight
from app.core.model import ModelShape
from app.resolve.architectures import architecture_names, family
from app.resolve.architectures.blocks_encoder import (
    array,
    dense_chain,
    encoder_layers,
    layer_norm,
    mlp_projector,
    patch_conv,
    read_tower,
)
from app.resolve.architectures.blocks_vision import tower_of, tower_width
from app.resolve.architectures.fields import Config
from app.resolve.architectures.multimodal import inner, multimodal, text_model

PROJECTOR = "multi_modal_projector"
VISION = Part.VISION


@family(
    "internvl",
    "interns1",
    architectures=("InternVLForConditionalGeneration", "InternS1ForConditionalGeneration"),
)
def internvl(config: Config) -> ModelShape:
    """The text model's cache; four patches are shuffled into one token. Defaults: InternVLConfig."""
    text = text_model(config, prefix="language_model.", model_type="qwen2", tied=True)
    return _shuffling(config, text, attention_bias=False)


@family("qianfan_ocr", architectures=("QianfanOCRForConditionalGeneration",))
def qianfan_ocr(config: Config) -> ModelShape:
    """Qwen 3's cache; the tower's attention has biases. Defaults: QianfanOCRConfig."""
    text = text_model(config, prefix="model.language_", model_type="qwen3", tied=False)
    return _shuffling(config, text, attention_bias=True)


def _shuffling(config: Config, text: ModelShape, *, attention_bias: bool) -> ModelShape:
    vision = inner(
        config,
        "vision_config",
        model_type="internvl_vision",
        defaults={"attention_bias": attention_bias},
        force=True,
    )
    width = tower_width(vision) * shuffled(config)
    weights = [
        *tower_of(vision, "vision_tower"),
        layer_norm(f"{PROJECTOR}.layer_norm", width, part=Part.PROJECTOR),
        *mlp_projector(PROJECTOR, width, text.hidden_size),
    ]
    return multimodal(config, text, weights)


def shuffled(config: Config) -> int:
    """Patches that become one token: (1 / `downsample_ratio`) squared."""
    ratio = config.number("downsample_ratio", default=0.5, minimum=1 / 64, maximum=1.0)
    return int(1 / ratio) ** 2


@family(
    "internvl_chat",
    "h2ovl_chat",
    "skywork_chat",
    "NVLM_D",
    architectures=(
        "InternVLChatModel",
        "H2OVLChatModel",
        "SkyworkR1VChatModel",
        "NVLM_D",
        "NVLM_D_Model",
    ),
)
def internvl_chat(config: Config) -> ModelShape:
    """The text model in `llm_config` (InternLM 2, Llama, Phi 3, Qwen 2 or 3), InternViT before it,
    of which only the layers up to `select_layer` are kept.
    """
    text = text_model(
        config, "llm_config", "text_config", prefix="language_model.", model_type="internlm2"
    )
    vision = config.section("vision_config")
    width = vision.integer("hidden_size", default=3200) * shuffled(config)
    if {"NVLM_D", "NVLM_D_Model"} & set(architecture_names(config)):
        middle = config.section("llm_config").integer("intermediate_size", default=29568)
        bias = False
    else:
        middle, bias = text.hidden_size, True
    weights = [
        *_intern_vit_6b(vision, "vision_model"),
        layer_norm("mlp1.0", width, part=Part.PROJECTOR),
        *dense_chain("mlp1", ("1", middle, width), ("3", text.hidden_size, middle), bias=bias),
    ]
    return multimodal(config, text, weights)


INTERN_VIT: Mapping[str, Any] = {"norms": ("norm1", "norm2"), "scales": ("ls1", "ls2")}


def _intern_vit_6b(config: Config, at: str) -> list[Weight]:
    """InternViT with its authors' names. Defaults: InternVisionConfig (the 6B tower)."""
    tower = read_tower(config, layers=48, hidden=3200, heads=25, intermediate=12800)
    bias = config.boolean("qkv_bias", default=False)
    norm_bias = config.text("norm_type", default="rms_norm") == "layer_norm"
    qk_norm = config.boolean("qk_normalization", default=True)
    return [
        array(f"{at}.embeddings.class_embedding", 1, 1, tower.hidden, part=VISION),
        patch_conv(f"{at}.embeddings.patch_embedding", tower),
        array(
            f"{at}.embeddings.position_embedding", 1, tower.patches + 1, tower.hidden, part=VISION
        ),
        *encoder_layers(
            f"{at}.encoder.layers.{{layer}}",
            tower.hidden,
            tower.intermediate,
            tower.all_layers,
            attention="attn",
            qkvo=("qkv", "proj"),
            biases=(bias, bias, bias, True),
            norm_bias=norm_bias,
            qk_norms=("q_norm", "k_norm") if qk_norm else (),
            qk_norm_size=tower.hidden,
            **INTERN_VIT,
        ),
    ]
