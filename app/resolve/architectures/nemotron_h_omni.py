"""Nemotron Nano and Super with eyes and ears: Nemotron-H, a RADIO vision tower, Parakeet for sound."""

from typing import Any

from app.core.inventory import Part, Split, Weight
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.common_weights import linear, plain_mlp, vector
from app.resolve.architectures.fields import MAX_LAYERS, MAX_WIDTH, Config
from app.resolve.architectures.multimodal import multimodal, text_model

OMNI = "nemotron_h_omni"


@family(
    OMNI,
    "NemotronH_Nano_VL_V2",
    "NemotronH_Nano_Omni_Reasoning_V3",
    "NemotronH_Super_Omni_Reasoning_V3",
    "NemotronH_Omni_Reasoning_V3",
    architectures=(
        "NemotronH_Nano_VL_V2",
        "NemotronH_Nano_Omni_Reasoning_V3",
        "NemotronH_Super_Omni_Reasoning_V3",
        "NemotronH_Omni_Reasoning_V3",
    ),
)
def nemotron_h_omni(config: Config) -> ModelShape:
    """Caches as its Nemotron-H does. Defaults: NemotronH_Omni_Reasoning_V3_Config, RadioConfig."""
    text = text_model(
        config, "text_config", "llm_config", model_type="nemotron_h", prefix="language_model."
    )
    vision = config.section("vision_config")
    if config.text("model_type") == OMNI and "video_temporal_patch_size" not in vision.data:
        vision = vision.overlay(video_temporal_patch_size=2)
    sound = config.has("audio_config", "sound_config")
    return multimodal(
        config,
        text,
        [*_radio(vision, "vision_model"), *_projector(config, vision, text.hidden_size)],
        assumptions=("weights of the sound encoder are not counted",) if sound else (),
    )


def _width(config: Config) -> int:
    return config.integer("hidden_size", default=1280)


def _radio(config: Config, at: str) -> list[Weight]:
    """A ViT with class and register tokens in front; one projection for still patches and, where
    frames are taken together, one for those.
    """
    hidden = _width(config)
    depth = config.integer("num_hidden_layers", default=32, maximum=MAX_LAYERS)
    width = int(hidden * config.number("mlp_ratio", default=4.0, minimum=0.01, maximum=64.0))
    patch = config.integer("patch_size", default=16, maximum=4096)
    pixels = config.integer("num_channels", default=3, maximum=64) * patch * patch
    frames = config.integer("video_temporal_patch_size", default=1, maximum=64)
    side = max(1, config.integer("max_img_size", default=2048) // patch)
    tokens = config.integer("num_cls_tokens", default=3) + config.integer(
        "num_registers", default=7
    )
    bias = config.boolean("qkv_bias", default=True)
    if not 0 < width <= MAX_WIDTH:
        raise config.fail("mlp_ratio", "makes no MLP of a possible width")
    layers = tuple(range(depth))
    block = f"{at}.encoder.layer.{{layer}}"
    vision: dict[str, Any] = {"part": Part.VISION, "layers": layers}
    embed = f"{at}.patch_generator"
    return [
        Weight(name=f"{embed}.pos_embed", shape=(side * side, hidden), part=Part.VISION),
        Weight(name=f"{embed}.cls_token", shape=(tokens, hidden), part=Part.VISION),
        linear(f"{embed}.embedder", hidden, pixels, part=Part.VISION),
        *(
            [linear(f"{embed}.video_embedder", hidden, frames * pixels, part=Part.VISION)]
            if frames > 1
            else []
        ),
        *(
            linear(
                f"{block}.attention.{name}_proj",
                hidden,
                hidden,
                bias=bias,
                split=Split.COLUMN,
                **vision,
            )
            for name in "qkv"
        ),
        linear(f"{block}.attention.o_proj", hidden, hidden, bias=True, split=Split.ROW, **vision),
        *plain_mlp(block, hidden, width, layers, bias=True, part=Part.VISION, names=("fc1", "fc2")),
        *(vector(f"{block}.{name}", hidden, bias=True, **vision) for name in ("norm1", "norm2")),
        *(vector(f"{block}.layer_scale{n}.lambda1", hidden, **vision) for n in (1, 2)),
    ]


def _projector(config: Config, vision: Config, out: int) -> list[Weight]:
    ratio = config.number("downsample_ratio", default=0.5, minimum=0.05, maximum=1.0)
    seen = config.integer("vision_hidden_size", "vit_hidden_size", default=_width(vision))
    merged = seen * round(1 / ratio) ** 2
    width = config.integer("projector_hidden_size", default=4096)
    part = Part.PROJECTOR
    return [
        vector("mlp1.0", merged, part=part),
        linear("mlp1.1", width, merged, part=part),
        linear("mlp1.3", out, width, part=part),
    ]
