"""Step-3.7: Step-3.5's decoder behind a perception encoder."""

from app.core.inventory import Part, Weight
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_encoder import (
    array,
    conv,
    encoder_layers,
    layer_norm,
    patch_conv,
    read_tower,
)
from app.resolve.architectures.common_weights import linear
from app.resolve.architectures.fields import Config
from app.resolve.architectures.multimodal import multimodal
from app.resolve.architectures.step import step3p5

MLP_RATIO = 8960 / 1536


@family("step3p7", architectures=("Step3p7ForConditionalGeneration",))
def step3p7(config: Config) -> ModelShape:
    """The text model's cache. A published file may be flat: it then states the padded vocabulary,
    while the checkpoint has the class's. Defaults: Step3p7Config.
    """
    nested = config.has("text_config")
    section = config.section("text_config") if nested else config.overlay(vocab_size=None)
    text = step3p5(Config({**section.data, "model_type": "step3p5"}, path=section.path))
    return multimodal(config, text, perception(config, text.hidden_size))


def perception(model: Config, text_width: int) -> list[Weight]:
    """A ViT with layer scales, two strided convolutions and a projector."""
    config = model.section("vision_config")
    projector_bias = model.boolean("projector_bias", default=False)
    tower = read_tower(config, layers=47, hidden=1536, heads=16, intermediate=8960, image=728)
    width = int(tower.hidden * config.number("mlp_ratio", default=MLP_RATIO, maximum=64.0))
    at = "vision_model"
    hidden = tower.hidden
    part = Part.VISION
    return [
        patch_conv(f"{at}.conv1", tower, bias=False),
        array(f"{at}.positional_embedding", tower.patches, hidden, part=part),
        layer_norm(f"{at}.ln_pre", hidden, part=part),
        *encoder_layers(
            f"{at}.transformer.resblocks.{{layer}}",
            hidden,
            width,
            tower.all_layers,
            attention="attn",
            qkvo=("in_proj", "out_proj"),
            mlp=("mlp.c_fc", "mlp.c_proj"),
            norms=("ln_1", "ln_2"),
            scales=("ls_1.gamma", "ls_2.gamma"),
        ),
        conv(f"{at}.vit_downsampler1", 2 * hidden, hidden, 3, 3, part=part),
        conv(f"{at}.vit_downsampler2", 4 * hidden, 2 * hidden, 3, 3, part=part),
        linear(
            "vit_large_projector", text_width, 4 * hidden, part=Part.PROJECTOR, bias=projector_bias
        ),
    ]
