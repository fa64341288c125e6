"""Idefics 2 and 3, SmolVLM and Granite Docling (258M): SigLIP before Mistral or Llama."""

from collections.abc import Mapping
from typing import Any

from app.core.inventory import Part, Weight
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_encoder import (
    NO_BIASES,
    array,
    encoder_layers,
    layer_norm,
)
from app.resolve.architectures.blocks_vision import idefics_vision
from app.resolve.architectures.common_weights import linear
from app.resolve.architectures.fields import MAX_LAYERS, Config
from app.resolve.architectures.multimodal import multimodal, text_model

PART = Part.PROJECTOR
GATED = ("gate_proj", "up_proj", "down_proj")
NESTED: dict[str, Any] = {"tied": False}
IDEFICS2_TEXT: Mapping[str, Any] = {"max_position_embeddings": 32768}


@family(
    "idefics3",
    "smolvlm",
    architectures=("Idefics3ForConditionalGeneration", "SmolVLMForConditionalGeneration"),
)
def idefics3(config: Config) -> ModelShape:
    """The text model's cache; `scale_factor` squared patches become one token. Defaults:
    Idefics3Config, SmolVLMConfig.
    """
    text = text_model(config, prefix="model.text_", model_type="llama", **NESTED)
    vision = config.section("vision_config")
    width = vision.integer("hidden_size", default=1152)
    width *= config.integer("scale_factor", default=2, maximum=64) ** 2
    weights = [
        *idefics_vision(vision, "model.vision_model", width=1152),
        linear("model.connector.modality_projection.proj", text.hidden_size, width, part=PART),
    ]
    return multimodal(config, text, weights)


@family("idefics2", architectures=("Idefics2ForConditionalGeneration",))
def idefics2(config: Config) -> ModelShape:
    """The text model's cache; a perceiver turns any image into `resampler_n_latents` tokens.
    Defaults: Idefics2Config.
    """
    text = text_model(
        config, prefix="model.text_", model_type="mistral", absent=IDEFICS2_TEXT, **NESTED
    )
    vision = config.section("vision_config")
    inner = config.section("text_config").integer("intermediate_size", default=14336)
    width = vision.integer("hidden_size", default=768)
    at = "model.connector.modality_projection"
    weights = [
        *idefics_vision(vision, "model.vision_model", width=768),
        linear(f"{at}.gate_proj", inner, width, part=PART),
        linear(f"{at}.up_proj", inner, width, part=PART),
        linear(f"{at}.down_proj", text.hidden_size, inner, part=PART),
        *_perceiver(config.section("perceiver_config"), "model.connector.perceiver_resampler"),
    ]
    return multimodal(config, text, weights)


def _perceiver(config: Config, at: str) -> list[Weight]:
    hidden = config.integer("hidden_size", default=4096)
    depth = range(config.integer("resampler_depth", default=3, maximum=MAX_LAYERS))
    head_dim = config.integer("resampler_head_dim", default=96)
    inside = f"{at}.layers.{{layer}}"
    return [
        array(
            f"{at}.latents",
            config.integer("resampler_n_latents", default=64),
            hidden,
            part=PART,
        ),
        *encoder_layers(
            inside,
            hidden,
            4 * hidden,
            depth,
            part=PART,
            qkvo=("q_proj", "k_proj", "v_proj", "o_proj"),
            width=head_dim * config.integer("resampler_n_heads", default=16),
            kv_width=head_dim * config.integer("num_key_value_heads", default=4),
            biases=NO_BIASES,
            mlp=tuple(f"mlp.{name}" for name in GATED),
            mlp_bias=False,
            norms=("input_latents_norm", "input_context_norm", "post_attention_layernorm"),
            norm_bias=False,
        ),
        layer_norm(f"{at}.norm", hidden, part=PART, bias=False),
    ]
