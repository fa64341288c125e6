"""CLIP, SigLIP and SigLIP 2: an encoder of text beside one of images, compared in one space."""

from app.core.inventory import Part, Weight
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_bert import encoder_dims
from app.resolve.architectures.blocks_encoder import array
from app.resolve.architectures.blocks_vision import tower_of, tower_width
from app.resolve.architectures.common_weights import linear
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import (
    ENCODER_ONLY,
    EVERY_BIAS,
    Names,
    llama_like,
    position_table,
    uncached,
)
from app.resolve.architectures.multimodal import MULTIMODAL, inner, multimodal, text_model
from app.resolve.architectures.task_heads import POOLING, ends

TEXT = Names(
    layer="text_model.encoder.layers.{layer}",
    embed="text_model.embeddings.token_embedding",
    norm="text_model.final_layer_norm",
    norms=("layer_norm1", "layer_norm2"),
    qkvo=("q_proj", "k_proj", "v_proj", "out_proj"),
    mlp=("fc1", "fc2"),
)
POSITIONS = "text_model.embeddings.position_embedding"
TRAITS = (MULTIMODAL, POOLING)


@family("clip_text_model", architectures=("CLIPTextModel", "CLIPTextModelWithProjection"))
def clip_text_model(config: Config) -> ModelShape:
    """Each token sees those before it, so an engine keeps K and V. Defaults: CLIPTextConfig."""
    dims = encoder_dims(config, hidden=512, heads=8, intermediate=2048, vocab=49408, positions=77)
    extra = [position_table(config, dims, POSITIONS)]
    if ends(config, "WithProjection"):
        extra.append(_projection(config, "text_projection", dims.hidden))
    return llama_like(config, dims, names=TEXT, **EVERY_BIAS, extra=extra, traits=(POOLING,))


@family("clip", architectures=("CLIPModel",))
def clip_model(config: Config) -> ModelShape:
    """The text's cache, though pictures need none. Defaults: CLIPConfig."""
    text = text_model(config, model_type="clip_text_model")
    vision = inner(config, "vision_config", model_type="clip_vision_model")
    weights = [
        *tower_of(vision, "vision_model"),
        _projection(config, "visual_projection", tower_width(vision)),
        _projection(config, "text_projection", text.hidden_size),
        array("logit_scale", 1, part=Part.OTHER),
    ]
    return multimodal(config, text, weights, traits=TRAITS, tower_heads=12)


def _projection(config: Config, name: str, width: int) -> Weight:
    joint = config.integer("projection_dim", default=512)
    return linear(name, joint, width, part=Part.PROJECTOR)


@family(
    "siglip_text_model",
    "siglip2_text_model",
    architectures=("SiglipTextModel", "Siglip2TextModel"),
)
def siglip_text_model(config: Config) -> ModelShape:
    """Sees the whole text at once and caches nothing. Defaults: SiglipTextConfig."""
    dims = encoder_dims(config, vocab=32000, positions=64)
    out = config.integer("projection_size", default=dims.hidden)
    extra = [
        position_table(config, dims, POSITIONS),
        linear("text_model.head", out, dims.hidden, part=Part.PROJECTOR, bias=True),
    ]
    return llama_like(
        config,
        dims,
        names=TEXT,
        groups=uncached(dims),
        **EVERY_BIAS,
        extra=extra,
        traits=(ENCODER_ONLY, POOLING),
    )


@family("siglip", "siglip2", architectures=("SiglipModel", "Siglip2Model"))
def siglip_model(config: Config) -> ModelShape:
    """Caches nothing. Defaults: SiglipConfig, Siglip2Config."""
    kind = config.text("model_type", default="siglip")
    text = text_model(config, model_type=f"{kind}_text_model")
    vision = inner(config, "vision_config", model_type=f"{kind}_vision_model")
    scales = [array(name, 1, part=Part.OTHER) for name in ("logit_scale", "logit_bias")]
    weights = [*tower_of(vision, "vision_model"), *scales]
    return multimodal(config, text, weights, traits=TRAITS, tower_heads=12)
