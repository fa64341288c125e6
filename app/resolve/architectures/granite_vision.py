"""Granite 4 Vision and Granite Docling: Granite that reads features of several depths of SigLIP."""

from collections.abc import Mapping
from typing import Any

from app.core.inventory import Part, Weight
from app.core.model import ModelShape
from app.resolve.architectures import build, family
from app.resolve.architectures.blocks_encoder import array, layer_norm, mlp_projector
from app.resolve.architectures.blocks_qformer import qformer
from app.resolve.architectures.blocks_vision import siglip, tower_of, tower_width
from app.resolve.architectures.common_weights import linear
from app.resolve.architectures.fields import Config
from app.resolve.architectures.multimodal import filled, inner, multimodal, text_model

PROJECTOR = Part.PROJECTOR
SPATIAL = 4
DOCLING_TEXT: Mapping[str, Any] = {
    "vocab_size": 133800,
    "hidden_size": 1024,
    "intermediate_size": 2048,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "max_position_embeddings": 32768,
    "tie_word_embeddings": True,
}
DOCLING_TOWER: Mapping[str, Any] = {"image_size": 512, "patch_size": 16}


@family("granite4_vision_text")
def granite4_vision_text(config: Config) -> ModelShape:
    """Granite. Defaults: Granite4VisionTextConfig."""
    return build(filled(config, model_type="granite", force=True))


@family("granite4_vision", architectures=("Granite4VisionForConditionalGeneration",))
def granite4_vision(config: Config) -> ModelShape:
    """The text model's cache; a query transformer for each pair of tower and text layer
    (`deepstack_layer_map`) and four for parts of the picture. Defaults: Granite4VisionConfig.
    """
    text = text_model(
        config, prefix="model.language_", model_type="granite4_vision_text", tied=False
    )
    vision = inner(config, "vision_config", model_type="clip_vision_model")
    width = tower_width(vision)
    pairs = config.sequence("deepstack_layer_map") or []
    weights = [
        *tower_of(vision, "model.vision_tower"),
        array("model.image_newline", text.hidden_size, part=PROJECTOR),
    ]
    for name, count in (("layerwise_projectors", len(pairs)), ("spatial_projectors", SPATIAL)):
        for index in range(count):
            at = f"model.{name}.{index}"
            weights += _downsampler(config, at, width, text.hidden_size)
    return multimodal(config, text, weights)


def _downsampler(config: Config, at: str, width: int, out: int) -> list[Weight]:
    """Queries over windows of patches; `downsample_rate` "4/8" makes 4 x 4 of 8 x 8."""
    query, window = _sides(config)
    stated = config.section("qformer_config")
    defaults = {"num_hidden_layers": 1, "cross_attention_frequency": 1}
    reader = filled(stated, model_type="blip_2_qformer", defaults=defaults)
    reader = reader.overlay(hidden_size=width)
    return [
        *qformer(reader, f"{at}.qformer", source=width),
        layer_norm(f"{at}.norm", width, part=PROJECTOR),
        array(f"{at}.query", 1, query**2, width, part=PROJECTOR),
        array(f"{at}.image_positions", 1, window**2, width, part=PROJECTOR),
        linear(f"{at}.out_linear", out, width, part=PROJECTOR, bias=True),
    ]


def _sides(config: Config) -> tuple[int, int]:
    sides = config.text("downsample_rate", default="").split("/")
    if len(sides) != 2 or not all(s.isascii() and s.isdigit() and len(s) < 5 for s in sides):
        raise config.fail("downsample_rate", 'must be two whole numbers such as "4/8"')
    return int(sides[0]), int(sides[1])


@family("granite_docling_text")
def granite_docling_text(config: Config) -> ModelShape:
    """Granite. Defaults: GraniteDoclingTextConfig."""
    return build(filled(config, model_type="granite", defaults=DOCLING_TEXT, force=True))


@family("granite_docling", architectures=("GraniteDoclingForConditionalGeneration",))
def granite_docling(config: Config) -> ModelShape:
    """The text model's cache; a coarse and a fine route from the tower. Defaults:
    GraniteDoclingConfig and its vision config.
    """
    text = text_model(config, prefix="model.text_", model_type="granite_docling_text", tied=True)
    vision = filled(config.section("vision_config"), model_type="siglip", defaults=DOCLING_TOWER)
    width = vision.integer("hidden_size", default=768)
    out = vision.integer("out_hidden_size", default=1024)
    scale = vision.integer("scale_factor", default=4, maximum=64)
    depths = vision.sequence("deepstack_visual_indexes")
    mergers = 3 if depths is None else len(depths)
    fine = vision.boolean("use_fine_route", default=True)
    at = "model.vision_model.connector"
    weights = [
        *siglip(vision, "model.vision_model", head=False),
        layer_norm(f"{at}.ln_in", width, part=PROJECTOR),
        layer_norm(f"{at}.ln_mid", out, part=PROJECTOR),
        linear(f"{at}.mlp_fc2", out, out, part=PROJECTOR),
        layer_norm(f"{at}.ln_out", out, part=PROJECTOR),
        *_route(f"{at}.coarse", width * scale**2, out, mergers),
        *(_route(f"{at}.fine", width * (scale // 2) ** 2, out, mergers) if fine else []),
    ]
    hidden = config.optional_integer("density_router_hidden_size")
    notes = ("the density router is not counted",) if hidden else ()
    return multimodal(config, text, weights, assumptions=notes)


def _route(at: str, merged: int, out: int, mergers: int) -> list[Weight]:
    weights = [linear(f"{at}.projection", out, merged, part=PROJECTOR)]
    for index in range(mergers):
        inside = f"{at}.deepstack_mergers.{index}"
        weights += [
            layer_norm(f"{inside}.layer_norm", merged, part=PROJECTOR),
            *mlp_projector(inside, merged, out),
        ]
    return weights
