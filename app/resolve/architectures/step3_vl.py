"""Step-3: the text model behind a ViT whose patches two strided convolutions merge."""

from app.core.inventory import Part, Weight
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_encoder import (
    array,
    conv,
    encoder_layers,
    patch_conv,
    read_tower,
)
from app.resolve.architectures.common_weights import linear
from app.resolve.architectures.fields import Config
from app.resolve.architectures.multimodal import multimodal, text_model


@family("step3_vl", architectures=("Step3VLForConditionalGeneration",))
def step3_vl(config: Config) -> ModelShape:
    """The text model's cache. Defaults: the engine's Step3VLConfig."""
    text = text_model(config, model_type="step3_text")
    return multimodal(config, text, _vision(config, text.hidden_size))


def _vision(config: Config, text_width: int) -> list[Weight]:
    section = config.section("vision_config")
    tower = read_tower(section, layers=63, hidden=1792, heads=16, intermediate=3072, image=728)
    width = section.integer("output_hidden_size", default=4096)
    bias = config.boolean("projector_bias", default=True)
    at = "vision_model"
    vision = Part.VISION
    return [
        array(f"{at}.embeddings.class_embedding", 1, tower.hidden, part=vision),
        patch_conv(f"{at}.embeddings.patch_embedding", tower),
        array(f"{at}.embeddings.position_embedding", tower.patches + 1, tower.hidden, part=vision),
        *encoder_layers(
            f"{at}.transformer.layers.{{layer}}",
            tower.hidden,
            tower.intermediate,
            tower.all_layers,
            qkvo=("qkv_proj", "out_proj"),
            norms=("layer_norm1", "layer_norm2"),
        ),
        conv("vit_downsampler", width, tower.hidden, 2, 2, part=vision),
        conv("vit_downsampler2", 2 * width, width, 3, 3, part=vision),
        linear("vit_large_projector", text_width, 2 * width, part=Part.PROJECTOR, bias=bias),
    ]
