"""Ovis 2 as transformers has it: Qwen 2 that looks pictures up in a table of visual words."""

from app.core.inventory import Part
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_encoder import (
    array,
    encoder_layers,
    layer_norm,
    patch_conv,
    read_tower,
)
from app.resolve.architectures.common_weights import linear
from app.resolve.architectures.fields import Config
from app.resolve.architectures.multimodal import multimodal, text_model

VISION = Part.VISION


@family("ovis2", architectures=("Ovis2ForConditionalGeneration",))
def ovis2(config: Config) -> ModelShape:
    """The text model's cache. Defaults: Ovis2Config, Ovis2VisionConfig (AIMv2's tower)."""
    text = text_model(config, prefix="model.language_", model_type="qwen2", tied=True)
    vision = config.section("vision_config")
    tower = read_tower(vision, layers=24, hidden=1024, heads=8, intermediate=2816)
    qkv = vision.boolean("qkv_bias", default=False)
    mlp = vision.boolean("mlp_bias", default=False)
    words = vision.integer("vocab_size", default=16384)
    spelled = words - vision.integer("num_visual_indicator_tokens", default=5)
    if spelled < 1:
        raise vision.fail("num_visual_indicator_tokens", "leaves no visual words")
    stride = vision.integer("hidden_stride", default=1, maximum=64)
    at = "model.vision_tower.transformer"
    weights = [
        patch_conv(f"{at}.embeddings.patch_embedding", tower),
        array(f"{at}.embeddings.position_embedding", tower.patches, tower.hidden, part=VISION),
        layer_norm(f"{at}.embeddings.rms_norm", tower.hidden, part=VISION, bias=False),
        *encoder_layers(
            f"{at}.encoder.layers.{{layer}}",
            tower.hidden,
            tower.intermediate,
            tower.all_layers,
            attention="attention",
            biases=(qkv, qkv, qkv, qkv),
            mlp=("ffn.gate_proj", "ffn.up_proj", "ffn.down_proj"),
            mlp_bias=mlp,
            norms=("rms_norm1", "rms_norm2"),
            norm_bias=False,
        ),
        layer_norm(f"{at}.rms_norm", tower.hidden, part=VISION, bias=False),
        linear("model.vision_tower.head_linear", spelled, tower.hidden * stride**2, part=VISION),
        layer_norm("model.vision_tower.head_norm", spelled, part=VISION),
        array(
            "model.visual_embeddings_table",
            words,
            config.integer("hidden_size", default=1536),
            part=Part.PROJECTOR,
        ),
    ]
    return multimodal(config, text, weights)
