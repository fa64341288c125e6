"""Text models behind SigLIP: Command A Vision, Aya Vision, LFM2-VL, Aria."""

from collections.abc import Mapping
from typing import Any

from app.core.inventory import Part
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_encoder import (
    array,
    dense_chain,
    layer_norm,
    mlp_projector,
    multihead,
)
from app.resolve.architectures.blocks_vision import tower_of, tower_width
from app.resolve.architectures.common_shape import read_dims
from app.resolve.architectures.common_weights import linear
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import attention_bias, llama_like, mixture
from app.resolve.architectures.multimodal import inner, multimodal, text_model

PROJECTOR = "multi_modal_projector"
PART = Part.PROJECTOR
SIGLIP = "siglip_vision_model"
COHERE_TOWER: Mapping[str, Any] = {
    "hidden_size": 1152,
    "intermediate_size": 3072,
    "image_size": 512,
    "num_hidden_layers": 27,
    "num_attention_heads": 12,
}
AYA_TOWER: Mapping[str, Any] = {
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "patch_size": 14,
    "image_size": 384,
    "num_hidden_layers": 26,
    "num_attention_heads": 14,
    "vision_use_head": False,
}


def _merged(config: Config, vision: Config) -> int:
    """Width of `downsample_factor` squared patches side by side."""
    factor = config.integer("downsample_factor", default=2, maximum=64)
    return tower_width(vision) * factor**2


@family("cohere2_vision", architectures=("Cohere2VisionForConditionalGeneration",))
def cohere2_vision(config: Config) -> ModelShape:
    """Command A's cache; a gated projector. Defaults: Cohere2VisionConfig."""
    text = text_model(config, prefix="language_model.", model_type="cohere2", tied=True)
    vision = inner(config, "vision_config", model_type=SIGLIP, absent=COHERE_TOWER)
    width = config.integer("alignment_intermediate_size", default=36864)
    weights = [
        *tower_of(vision, "vision_tower.vision_model"),
        *dense_chain(
            PROJECTOR,
            ("linear_1", width, _merged(config, vision)),
            ("linear_2", text.hidden_size, width // 2),
        ),
    ]
    return multimodal(config, text, weights)


@family("aya_vision", architectures=("AyaVisionForConditionalGeneration",))
def aya_vision(config: Config) -> ModelShape:
    """As Command A Vision, with a norm before the projector. Defaults: AyaVisionConfig."""
    text = text_model(config, prefix="language_model.", model_type="cohere2", tied=True)
    vision = inner(config, "vision_config", model_type=SIGLIP, absent=AYA_TOWER)
    width = config.integer("alignment_intermediate_size", default=text.hidden_size)
    merged = _merged(config, vision)
    weights = [
        *tower_of(vision, "vision_tower.vision_model"),
        layer_norm(f"{PROJECTOR}.layernorm", merged, part=PART),
        *dense_chain(
            PROJECTOR, ("linear_1", width, merged), ("linear_2", text.hidden_size, width // 2)
        ),
    ]
    return multimodal(config, text, weights)


@family("lfm2_vl", architectures=("Lfm2VlForConditionalGeneration",))
def lfm2_vl(config: Config) -> ModelShape:
    """LFM2's caches and states. Defaults: Lfm2VlConfig."""
    text = text_model(config, prefix="model.language_", model_type="lfm2", tied=True)
    vision = inner(config, "vision_config", model_type="siglip2_vision_model")
    merged = _merged(config, vision)
    bias = config.boolean("projector_bias", default=True)
    normed = config.boolean("projector_use_layernorm", default=True)
    at = f"model.{PROJECTOR}"
    weights = [
        *tower_of(vision, "model.vision_tower.vision_model"),
        *([layer_norm(f"{at}.layer_norm", merged, part=PART)] if normed else []),
        *mlp_projector(
            at,
            merged,
            text.hidden_size,
            bias=bias,
            inner=config.integer("projector_hidden_size", default=2560),
        ),
    ]
    return multimodal(config, text, weights)


@family("aria_text", architectures=("AriaForCausalLM",))
def aria_text(config: Config) -> ModelShape:
    """Llama's attention over routed and shared experts. Defaults: AriaTextConfig."""
    dims = read_dims(
        config,
        layers=32,
        hidden=4096,
        heads=32,
        intermediate=4096,
        vocab=32000,
        max_positions=2048,
    )
    at = config.prefix + "model.layers.{layer}"
    shared = config.integer("moe_num_shared_experts", default=2, minimum=0, maximum=4096)
    return llama_like(
        config,
        dims,
        **attention_bias(config),
        mlp=mixture(
            at,
            dims.hidden,
            dims.intermediate,
            dims.all_layers,
            num_experts=config.integer("moe_num_experts", default=8),
            top_k=config.integer("moe_topk", default=2),
            gate="router",
            shared_width=dims.intermediate * shared,
        ),
    )


@family("aria", architectures=("AriaForConditionalGeneration",))
def aria(config: Config) -> ModelShape:
    """The mixture's cache; learned queries read the image. Defaults: AriaConfig."""
    text = text_model(config, prefix="language_model.", model_type="aria_text", tied=False)
    vision = inner(config, "vision_config", model_type="idefics3_vision")
    width = tower_width(vision)
    at = f"{PROJECTOR}.cross_attn"
    weights = [
        *tower_of(vision, "vision_tower"),
        array(f"{PROJECTOR}.query", _queries(config), width, part=PART),
        *dense_chain(
            at,
            ("q_proj", width, width),
            ("k_proj", width, width),
            ("v_proj", width, width),
            bias=False,
        ),
        *multihead(f"{at}.multihead_attn", width, part=PART),
        linear(f"{at}.linear", width, width, part=PART, bias=True),
        layer_norm(f"{at}.layer_norm", width, part=PART),
        layer_norm(f"{at}.layer_norm_kv", width, part=PART),
        layer_norm(f"{PROJECTOR}.layer_norm", width, part=PART),
        *dense_chain(
            f"{PROJECTOR}.feed_forward",
            ("linear_in", text.hidden_size, width),
            ("linear_out", text.hidden_size, text.hidden_size),
            bias=False,
        ),
    ]
    return multimodal(config, text, weights)


def _queries(config: Config) -> int:
    """The most queries that any number of patches is given (`projector_patch_to_query_dict`)."""
    stated = config.get("projector_patch_to_query_dict")
    if stated is None:
        return 256
    if not isinstance(stated, Mapping) or not stated:
        raise config.fail("projector_patch_to_query_dict", "must be an object with entries")
    table = Config(stated, path=(*config.path, "projector_patch_to_query_dict"))
    return max(table.integer(name) for name in list(stated)[:4096])
