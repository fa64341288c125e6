"""MiniCPM-V 2 to 4.7, MiniCPM-o and MiniCPM-OCR: small text models behind SigLIP."""

from collections.abc import Mapping
from typing import Any

from app.core.inventory import Part, Weight
from app.core.model import ModelShape
from app.resolve.architectures import build, family
from app.resolve.architectures.blocks_audio import whisper_encoder
from app.resolve.architectures.blocks_encoder import (
    array,
    dense_chain,
    layer_norm,
    multihead,
    read_tower,
)
from app.resolve.architectures.blocks_vision import siglip
from app.resolve.architectures.common_weights import linear
from app.resolve.architectures.fields import MAX_LAYERS, Config
from app.resolve.architectures.multimodal import filled, multimodal, text_model

PROJECTOR = Part.PROJECTOR
VISION = Part.VISION
# The text model of each version (engines go by it too); the oldest configs name none.
TEXT_BY_VERSION = {
    "2": "minicpm",
    "2.0": "minicpm",
    "2.5": "llama",
    "2.6": "qwen2",
    "4": "llama",
    "4.0": "llama",
    "4.5": "qwen3",
}
SO400M: Mapping[str, Any] = {
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_hidden_layers": 27,
    "num_attention_heads": 16,
    "patch_size": 14,
    "image_size": 980,
}
TIMM_IMAGE = 384
SPEECH = "the speech decoder, which engines do not load, is not counted"


@family("minicpmv", architectures=("MiniCPMV",))
def minicpmv(config: Config) -> ModelShape:
    """The text model of the config's `version`, its keys at the top; `query_num` learned queries
    read each slice of an image.
    """
    version = _version(config)
    text = _text(config, version)
    return multimodal(config, text, _sight(config, text.hidden_size, version))


@family("minicpmo", architectures=("MiniCPMO",))
def minicpmo(config: Config) -> ModelShape:
    """MiniCPM-V 2.6 (or 4.5) that also hears through Whisper's encoder."""
    version = _version(config)
    text = _text(config, "2.6" if version == "2" else version)
    weights = _sight(config, text.hidden_size, version)
    if config.boolean("init_audio", default=True):
        audio = config.section("audio_config")
        width = audio.integer("d_model", default=1024)
        out = text.hidden_size
        weights += whisper_encoder(audio, "apm", width=1024, depth=24, intermediate=4096, mels=80)
        weights += dense_chain(
            "audio_projection_layer", ("linear1", out, width), ("linear2", out, out)
        )
    speaks = config.boolean("init_tts", default=True)
    return multimodal(config, text, weights, assumptions=(SPEECH,) if speaks else ())


def _version(config: Config) -> str:
    stated = config.get("version")
    if stated is None:
        queries = config.integer("query_num", default=64)
        old = config.integer("hidden_size", default=4096) == 2304 and queries == 64
        return "2" if old else "2.5"
    if isinstance(stated, int | float) and not isinstance(stated, bool):
        return f"{stated:g}"
    return config.text("version")


def _text(config: Config, version: str) -> ModelShape:
    name = TEXT_BY_VERSION.get(version)
    if name is None:
        raise config.fail("version", f"is none of {', '.join(TEXT_BY_VERSION)}")
    section = filled(config, model_type=name, force=True)
    return build(Config(section.data, path=config.path, prefix="llm."))


def _sight(config: Config, out: int, version: str) -> list[Weight]:
    """SigLIP so400m, without its last layer where the config drops it, and the resampler."""
    stated = config.section("vision_config")
    oldest = version in ("2", "2.0")
    vision = filled(stated, model_type="siglip_vision_model", defaults=SO400M)
    if oldest:
        vision = vision.overlay(image_size=TIMM_IMAGE)
    if config.boolean("drop_vision_last_layer", default=oldest):
        depth = vision.integer("num_hidden_layers", default=27, maximum=MAX_LAYERS)
        vision = vision.overlay(num_hidden_layers=max(1, depth - 1))
    width = vision.integer("hidden_size", default=1152)
    queries = config.integer("query_num", default=64)
    at = "resampler"
    same = width == out
    return [
        *siglip(vision, "vpm", head=False),
        array(f"{at}.query", queries, out, part=PROJECTOR),
        array(f"{at}.proj", out, out, part=PROJECTOR),
        *([] if same else [linear(f"{at}.kv_proj", out, width, part=PROJECTOR)]),
        *multihead(f"{at}.attn", out, part=PROJECTOR),
        *(layer_norm(f"{at}.{name}", out, part=PROJECTOR) for name in ("ln_q", "ln_kv", "ln_post")),
        *([array(f"{at}.pos_embed", queries, out, part=PROJECTOR)] if oldest else []),
    ]


@family(
    "minicpmv4_6",
    "minicpmv4_7",
    architectures=("MiniCPMV4_6ForConditionalGeneration", "MiniCPMV4_7ForConditionalGeneration"),
)
def minicpmv4_6(config: Config) -> ModelShape:
    """Qwen 3.5's states and caches; the tower merges windows of patches halfway. Defaults:
    MiniCPMV4_6Config, MiniCPMV4_7Config.
    """
    return _merging(config, tied=False)


@family("minicpm_ocr", architectures=("MiniCPMOcrForConditionalGeneration",))
def minicpm_ocr(config: Config) -> ModelShape:
    """As MiniCPM-V 4.6. Defaults: MiniCPMOcrConfig."""
    return _merging(config, tied=True)


def _merging(config: Config, *, tied: bool) -> ModelShape:
    text = text_model(config, prefix="model.language_", model_type="qwen3_5_text", tied=tied)
    vision = config.section("vision_config")
    tower = read_tower(vision, layers=12, hidden=768, heads=12, intermediate=3072, patch=16)
    window = _area(vision, "window_kernel_size")
    merge = tower.hidden * 4
    times = config.integer("merger_times", default=1, maximum=64)
    at = "model.vision_tower"
    merger = f"{at}.vit_merger"
    mlp = "model.merger.mlp"
    weights = [
        *siglip(vision, at, head=False),
        *dense_chain(
            f"{merger}.self_attn",
            *(
                (name, tower.hidden, tower.hidden)
                for name in ("q_proj", "k_proj", "v_proj", "out_proj")
            ),
            part=VISION,
        ),
        layer_norm(f"{merger}.layer_norm1", tower.hidden, part=VISION),
        layer_norm(f"{merger}.pre_norm", tower.hidden * window, part=VISION),
        *dense_chain(
            merger,
            ("linear_1", tower.intermediate * window, tower.hidden * window),
            ("linear_2", tower.hidden, tower.intermediate * window),
            part=VISION,
        ),
    ]
    for step in range(times):
        out = text.hidden_size if step == times - 1 else tower.hidden
        weights += [
            layer_norm(f"{mlp}.{step}.pre_norm", merge, part=PROJECTOR),
            *dense_chain(f"{mlp}.{step}", ("linear_1", merge, merge), ("linear_2", out, merge)),
        ]
    return multimodal(config, text, weights)


def _area(config: Config, name: str) -> int:
    sides = config.integers(name, minimum=1, maximum=64) or [2, 2]
    return sides[0] * sides[-1]
