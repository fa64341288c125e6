"""LLaVA 1.5, 1.6 (NeXT), its video and OneVision models, Video-LLaVA and ViP-LLaVA."""

from collections.abc import Mapping
from typing import Any

from app.core.inventory import Part, Weight
from app.core.model import ModelShape
from app.resolve.architectures import architecture_names, build, family
from app.resolve.architectures.blocks_encoder import (
    array,
    feature_layers,
    layer_norm,
    mlp_projector,
)
from app.resolve.architectures.blocks_vision import tower_of, tower_width
from app.resolve.architectures.fields import Config
from app.resolve.architectures.multimodal import filled, inner, multimodal, text_model

CLIP_LARGE: Mapping[str, Any] = {
    "model_type": "clip_vision_model",
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "patch_size": 14,
    "image_size": 336,
}
SIGLIP_LARGE: Mapping[str, Any] = {
    "model_type": "siglip_vision_model",
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_hidden_layers": 26,
    "num_attention_heads": 16,
    "patch_size": 14,
    "image_size": 384,
    "vision_use_head": False,
}
PROJECTOR = "multi_modal_projector"
FLAT_TOWERS = {"openai/clip-vit-large-patch14-336": 336, "openai/clip-vit-large-patch14": 224}
FLAT_TEXTS = {
    "LlavaLlamaForCausalLM": "llama",
    "LlavaMistralForCausalLM": "mistral",
    "LlavaQwenForCausalLM": "qwen2",
    "LlavaMptForCausalLM": "mpt",
}


@family("llava", architectures=("LlavaForConditionalGeneration",))
def llava(config: Config) -> ModelShape:
    """The text model's cache; CLIP and a two-layer projector. Defaults: LlavaConfig."""
    if not config.has("text_config") and config.has("mm_vision_tower", "hidden_size"):
        return flat_llava(config)
    return _llava(config, hoisted=True)


@family("llava_next", architectures=("LlavaNextForConditionalGeneration",))
def llava_next(config: Config) -> ModelShape:
    """With a learned line break between rows of image tiles. Defaults: LlavaNextConfig."""
    return _llava(config, hoisted=False, newline=True)


@family("llava_next_video", architectures=("LlavaNextVideoForConditionalGeneration",))
def llava_next_video(config: Config) -> ModelShape:
    """As LLaVA-NeXT, frames pooled. Defaults: LlavaNextVideoConfig."""
    return _llava(config, hoisted=True, newline=True)


@family("llava_onevision", architectures=("LlavaOnevisionForConditionalGeneration",))
def llava_onevision(config: Config) -> ModelShape:
    """Qwen 2 behind SigLIP. Defaults: LlavaOnevisionConfig."""
    return _llava(config, text="qwen2", tower=SIGLIP_LARGE, hoisted=True, newline=True)


@family("video_llava", architectures=("VideoLlavaForConditionalGeneration",))
def video_llava(config: Config) -> ModelShape:
    """One tower for images, one for video. Defaults: VideoLlavaConfig."""
    tower = {**CLIP_LARGE, "image_size": 224}
    return _llava(config, tower=tower, hoisted=False, towers=("image_tower", "video_tower"))


@family("vipllava", architectures=("VipLlavaForConditionalGeneration",))
def vipllava(config: Config) -> ModelShape:
    """Five layers of the tower side by side. Defaults: VipLlavaConfig."""
    text = text_model(config, prefix="language_model.", tied=False)
    vision = inner(config, "vision_config", model_type="clip_vision_model", absent=CLIP_LARGE)
    width = tower_width(vision) * feature_layers(config, 5)
    weights = [
        *tower_of(vision, "vision_tower.vision_model"),
        layer_norm(f"{PROJECTOR}.projector_layernorm", width, part=Part.PROJECTOR),
        *mlp_projector(PROJECTOR, width, text.hidden_size),
    ]
    return multimodal(config, text, weights)


def _llava(
    config: Config,
    *,
    hoisted: bool,
    text: str = "llama",
    tower: Mapping[str, Any] = CLIP_LARGE,
    towers: tuple[str, ...] = ("vision_tower",),
    newline: bool = False,
) -> ModelShape:
    shape = text_model(
        config, prefix="language_model.", model_type=text, tied=False, hoisted=hoisted
    )
    vision = inner(config, "vision_config", model_type=str(tower["model_type"]), absent=tower)
    weights: list[Weight] = []
    for name in towers:
        weights += tower_of(vision, f"{name}.vision_model")
    if newline:
        weights.append(array("image_newline", shape.hidden_size, part=Part.PROJECTOR))
    width = tower_width(vision) * feature_layers(config, 1)
    bias = config.boolean("multimodal_projector_bias", default=True)
    weights += mlp_projector(PROJECTOR, width, shape.hidden_size, bias=bias)
    return multimodal(config, shape, weights)


@family(
    "llava_llama",
    "llava_mistral",
    "llava_qwen",
    "llava_mpt",
    architectures=tuple(FLAT_TEXTS),
)
def flat_llava(config: Config) -> ModelShape:
    """LLaVA as its authors publish it: the text model's config with `mm_` keys in between; the
    tower is named, and known only where it is CLIP's.
    """
    named = next((FLAT_TEXTS[n] for n in architecture_names(config) if n in FLAT_TEXTS), "llama")
    text = build(filled(config, model_type=named, force=True))
    width = config.integer("mm_hidden_size", default=1024)
    at = "model.mm_projector"
    if config.text("mm_projector_type", default="linear") == "linear":
        weights = mlp_projector(at, width, text.hidden_size)[:1]
    else:
        weights = mlp_projector(at, width, text.hidden_size)
    tower = config.text("mm_vision_tower", default="")
    if tower not in FLAT_TOWERS:
        return multimodal(
            config, text, weights, assumptions=(f"the vision tower {tower!r} is not counted",)
        )
    vision = Config({**CLIP_LARGE, "image_size": FLAT_TOWERS[tower]}, path=config.path)
    path = "model.vision_tower.vision_tower.vision_model"
    return multimodal(config, text, [*weights, *tower_of(vision, path)])
