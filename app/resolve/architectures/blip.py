"""BLIP-2 and InstructBLIP: OPT, Vicuna or FLAN-T5 behind a query transformer and a ViT."""

from app.core.inventory import Part, Weight
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_encoder import (
    array,
    encoder_layers,
    layer_norm,
    patch_conv,
    read_tower,
)
from app.resolve.architectures.blocks_qformer import qformer
from app.resolve.architectures.common_weights import linear
from app.resolve.architectures.fields import Config
from app.resolve.architectures.multimodal import multimodal, text_model


@family("blip-2", architectures=("Blip2ForConditionalGeneration",))
def blip2(config: Config) -> ModelShape:
    """The text model's cache; an image is `num_query_tokens` tokens. Defaults: Blip2Config."""
    return _blip(config, text_input=False)


@family(
    "instructblip",
    "instructblipvideo",
    architectures=(
        "InstructBlipForConditionalGeneration",
        "InstructBlipVideoForConditionalGeneration",
    ),
)
def instructblip(config: Config) -> ModelShape:
    """As BLIP-2; its queries read the instruction too. Defaults: InstructBlipConfig."""
    return _blip(config, text_input=True)


def _blip(config: Config, *, text_input: bool) -> ModelShape:
    text = text_model(config, prefix="language_model.", model_type="opt")
    vision = config.section("vision_config")
    queries = config.section("qformer_config")
    hidden = queries.integer("hidden_size", default=768)
    tower = read_tower(vision, layers=39, hidden=1408, heads=16, intermediate=6144)
    weights = [
        array(
            "query_tokens",
            1,
            config.integer("num_query_tokens", default=32),
            hidden,
            part=Part.PROJECTOR,
        ),
        *_vit(vision, "vision_model"),
        *qformer(queries, "qformer", source=tower.hidden, text_input=text_input),
        linear("language_projection", text.hidden_size, hidden, part=Part.PROJECTOR, bias=True),
    ]
    return multimodal(config, text, weights)


def _vit(config: Config, at: str) -> list[Weight]:
    """EVA's ViT as BLIP-2 carries it. Defaults: Blip2VisionConfig."""
    tower = read_tower(config, layers=39, hidden=1408, heads=16, intermediate=6144)
    bias = config.boolean("qkv_bias", default=True)
    part = Part.VISION
    return [
        array(f"{at}.embeddings.class_embedding", 1, 1, tower.hidden, part=part),
        array(f"{at}.embeddings.position_embedding", 1, tower.patches + 1, tower.hidden, part=part),
        patch_conv(f"{at}.embeddings.patch_embedding", tower),
        *encoder_layers(
            f"{at}.encoder.layers.{{layer}}",
            tower.hidden,
            tower.intermediate,
            tower.all_layers,
            qkvo=("qkv", "projection"),
            biases=(bias, bias, bias, True),
        ),
        layer_norm(f"{at}.post_layernorm", tower.hidden, part=part),
    ]
