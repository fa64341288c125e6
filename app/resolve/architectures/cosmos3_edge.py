"""Cosmos 3 Edge and VideoLLaMA 3: small text models behind SigLIP 2 at any resolution."""

from app.core.inventory import Part
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_encoder import (
    dense_chain,
    encoder_layers,
    layer_norm,
    patch_conv,
    read_tower,
)
from app.resolve.architectures.blocks_vision import siglip2
from app.resolve.architectures.common_shape import read_dims
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import Names, attention_bias, llama_like
from app.resolve.architectures.multimodal import filled, multimodal, text_model

VISION = Part.VISION
PLAIN = Names(mlp=("fc1", "fc2"))


@family("cosmos3_edge_text")
def cosmos3_edge_text(config: Config) -> ModelShape:
    """Full attention and MLPs without a gate. Defaults: Cosmos3EdgeTextConfig."""
    dims = read_dims(
        config,
        layers=28,
        hidden=2048,
        heads=16,
        kv_heads=8,
        head_dim=128,
        intermediate=9216,
        vocab=131072,
        max_positions=131072,
    )
    return llama_like(
        config,
        dims,
        names=PLAIN,
        **attention_bias(config),
        mlp_bias=config.boolean("mlp_bias", default=False),
    )


@family("cosmos3_edge", architectures=("Cosmos3EdgeForConditionalGeneration",))
def cosmos3_edge(config: Config) -> ModelShape:
    """The text model's cache; four patches a token. Defaults: Cosmos3EdgeConfig."""
    text = text_model(config, prefix="model.language_", model_type="cosmos3_edge_text", tied=False)
    sizes = {
        "hidden_size": 1152,
        "intermediate_size": 4304,
        "num_hidden_layers": 27,
        "num_attention_heads": 16,
        "vision_use_head": False,
    }
    vision = filled(config.section("vision_config"), model_type="siglip2", defaults=sizes)
    width = vision.integer("hidden_size", default=1152)
    merged = width * vision.integer("spatial_merge_size", default=2, maximum=64) ** 2
    inner = config.integer("projector_hidden_size", default=11520)
    at = "model.projector"
    weights = [
        *siglip2(vision, "model.visual"),
        layer_norm(f"{at}.norm", width, part=Part.PROJECTOR),
        *dense_chain(at, ("linear_fc1", inner, merged), ("linear_fc2", text.hidden_size, inner)),
    ]
    return multimodal(config, text, weights)


@family("video_llama_3", architectures=("VideoLlama3ForConditionalGeneration",))
def video_llama_3(config: Config) -> ModelShape:
    """Qwen 2's cache behind a SigLIP with rotary positions. Defaults: VideoLlama3Config."""
    text = text_model(
        config, prefix="model.language_", model_type="qwen2", tied=False, hoisted=True
    )
    vision = config.section("vision_config")
    tower = read_tower(vision, layers=12, hidden=768, heads=12, intermediate=3072, patch=16)
    at = "model.vision_model"
    out = text.hidden_size
    weights = [
        patch_conv(f"{at}.embeddings.patch_embedding", tower),
        *encoder_layers(
            f"{at}.encoder.layers.{{layer}}", tower.hidden, tower.intermediate, tower.all_layers
        ),
        layer_norm(f"{at}.post_layernorm", tower.hidden, part=VISION),
        *dense_chain("model.projector.readout", ("0", out, tower.hidden), ("2", out, out)),
    ]
    return multimodal(config, text, weights)
