"""Janus and Janus-Pro: Llama that reads pictures through SigLIP and draws with a VQGAN."""

from collections.abc import Mapping
from typing import Any

from app.core.inventory import Part, Weight
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_encoder import array
from app.resolve.architectures.blocks_vision import siglip
from app.resolve.architectures.blocks_vq import vq_model
from app.resolve.architectures.common_weights import linear
from app.resolve.architectures.fields import MAX_LAYERS, Config
from app.resolve.architectures.multimodal import filled, multimodal, text_model

PROJECTOR = Part.PROJECTOR
TOWER: Mapping[str, Any] = {
    "hidden_size": 1024,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "image_size": 384,
    "patch_size": 16,
    "mlp_ratio": 4.0,
}
NAMED_TOWER = "siglip_large_patch16_384"


@family("janus", architectures=("JanusForConditionalGeneration",))
def janus(config: Config) -> ModelShape:
    """The text model's cache. Defaults: JanusConfig and its vision and VQ configs."""
    text = text_model(config, prefix="model.language_", model_type="llama", tied=True)
    vision = filled(config.section("vision_config"), model_type="janus", defaults=TOWER)
    drawing = config.section("vq_config")
    width = vision.integer("hidden_size", default=1024)
    seen = vision.integer("projection_dim", default=2048)
    drawn = drawing.integer("projection_dim", default=2048)
    weights = [
        *siglip(vision, "model.vision_model", head=False),
        *_aligner(
            "model.aligner", width, seen, vision.integer("depth", default=2, maximum=MAX_LAYERS)
        ),
        *vq_model(drawing, "model.vqmodel"),
        *_drawing(
            drawing,
            "model",
            drawn,
            drawing.integer("num_hidden_layers", default=2, maximum=MAX_LAYERS),
        ),
    ]
    return multimodal(config, text, weights)


def _aligner(at: str, width: int, out: int, depth: int) -> list[Weight]:
    return [
        linear(f"{at}.fc1", out, width, part=PROJECTOR, bias=True),
        linear(
            f"{at}.hidden_layers.{{layer}}",
            out,
            out,
            part=PROJECTOR,
            bias=True,
            layers=range(depth - 1),
        ),
    ]


def _drawing(config: Config, at: str, out: int, depth: int) -> list[Weight]:
    words = config.integer("num_embeddings", default=16384)
    code = config.integer("embed_dim", default=8)
    head = config.integer("image_token_embed_dim", default=2048)
    return [
        array(f"{at}.generation_embeddings", words, code, part=PROJECTOR),
        *_aligner(f"{at}.generation_aligner", code, out, depth),
        linear(f"{at}.generation_head.proj_out", out, head, part=PROJECTOR, bias=True),
        linear(f"{at}.generation_head.vision_head", words, out, part=PROJECTOR, bias=True),
    ]


@family("multi_modality", architectures=("MultiModalityCausalLM",))
def multi_modality(config: Config) -> ModelShape:
    """Janus as its authors publish it, parts described by `params`: the same weights, SigLIP with
    the pooling head that is never used. DeepSeek-VL's published configs name the same class; their
    towers are not counted.
    """
    text = text_model(config, "language_config", prefix="language_model.", model_type="llama")
    vision = config.section("vision_config").section("params")
    if vision.text("model_name") != NAMED_TOWER or not config.has("gen_vision_config"):
        note = "the towers before the text model are not counted"
        return multimodal(config, text, assumptions=(note,))
    codes = config.section("gen_vision_config").section("params")
    out = text.hidden_size
    tower = filled(Config({}, path=vision.path), model_type="siglip", defaults=TOWER)
    drawing = Config(
        {
            "num_embeddings": codes.get("image_token_size"),
            "embed_dim": codes.get("n_embed"),
            "image_token_embed_dim": config.section("gen_head_config")
            .section("params")
            .integer("image_token_embed", default=out),
        },
        path=codes.path,
    )
    weights = [
        *siglip(tower, "vision_model.vision_tower", head=True),
        *_aligner("aligner.layers", 1024, out, _depth(config, "aligner_config")),
        *vq_model(drawing, "gen_vision_model"),
        *_drawing(drawing, "gen", out, _depth(config, "gen_aligner_config")),
    ]
    return multimodal(config, text, weights)


def _depth(config: Config, name: str) -> int:
    params = config.section(name).section("params")
    return params.integer("depth", default=2, maximum=MAX_LAYERS)
