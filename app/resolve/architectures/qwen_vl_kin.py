"""Text models behind the towers of Qwen2.5-VL and Qwen3-VL: OpenCUA, Cosmos 3, Cohere Compass,
HyperCLOVA X Vision, Ming-Lite-Omni, dots.ocr.
"""

from app.core.inventory import Part
from app.core.model import ModelShape
from app.resolve.architectures import build, family
from app.resolve.architectures.blocks_encoder import (
    dense_chain,
    encoder_layers,
    layer_norm,
    patch_conv,
    read_tower,
)
from app.resolve.architectures.blocks_qwen2_vision import qwen2_5_vision
from app.resolve.architectures.blocks_qwen_vision import qwen3_vision
from app.resolve.architectures.common_weights import linear
from app.resolve.architectures.fields import Config
from app.resolve.architectures.multimodal import filled, multimodal, text_model

VISION = Part.VISION


@family("opencua", architectures=("OpenCUAForConditionalGeneration",))
def opencua(config: Config) -> ModelShape:
    """Qwen 2's cache behind Qwen2.5-VL's tower."""
    text = text_model(config, prefix="language_model.", model_type="qwen2")
    return multimodal(config, text, qwen2_5_vision(config.section("vision_config"), "vision_tower"))


@family(
    "cosmos3_omni",
    "alpamayo2_super",
    architectures=(
        "Cosmos3OmniForConditionalGeneration",
        "Cosmos3ForConditionalGeneration",
        "Alpamayo2Super",
    ),
)
def cosmos3_omni(config: Config) -> ModelShape:
    """Qwen3-VL that reasons before something else acts: the reasoner's cache. Defaults:
    Cosmos3OmniConfig.
    """
    text = text_model(config, prefix="model.language_", model_type="qwen3_vl_text", tied=False)
    vision = config.section("vision_config")
    return multimodal(config, text, qwen3_vision(vision, "model.visual.", deepstack=True))


@family("cohere_compass_text")
def cohere_compass_text(config: Config) -> ModelShape:
    """Cohere 2's windows and full layers. Defaults: CohereCompassTextConfig."""
    return build(filled(config, model_type="cohere2", force=True))


@family("cohere_compass", architectures=("CohereCompassForConditionalGeneration",))
def cohere_compass(config: Config) -> ModelShape:
    """Cohere 2 behind Qwen3-VL's tower. Defaults: CohereCompassConfig."""
    text = text_model(
        config, prefix="model.language_", model_type="cohere_compass_text", tied=False
    )
    vision = config.section("vision_config")
    return multimodal(config, text, qwen3_vision(vision, "model.visual.", deepstack=True))


@family(
    "hyperclovax_vision_v2",
    architectures=("HyperCLOVAXVisionV2ForConditionalGeneration",),
)
def hyperclovax_vision(config: Config) -> ModelShape:
    """HyperCLOVA X's cache. Defaults: HyperCLOVAXVisionV2Config."""
    text = text_model(config, prefix="model.language_", model_type="hyperclovax", tied=True)
    vision = config.section("vision_config")
    out = vision.integer("out_hidden_size", default=3584)
    weights = [
        *qwen2_5_vision(vision, "model.vision_model"),
        linear("model.projector", text.hidden_size, out, part=Part.PROJECTOR, bias=True),
    ]
    return multimodal(config, text, weights)


@family("bailingmm", architectures=("BailingMMNativeForConditionalGeneration",))
def ming_lite_omni(config: Config) -> ModelShape:
    """Ling's cache. The routers for images and sound, the sound encoder and what speaks are
    described by the model's own code only.
    """
    text = text_model(config, "llm_config", prefix="model.", model_type="bailing_moe")
    vision = config.section("vision_config")
    out = vision.integer("out_hidden_size", default=3584)
    weights = [
        *qwen2_5_vision(vision, "vision"),
        *dense_chain(
            "linear_proj",
            ("0", text.hidden_size, out),
            ("2", text.hidden_size, text.hidden_size),
        ),
    ]
    note = (
        "the sound encoder, the speech decoder and the routers of images and sound are not counted"
    )
    return multimodal(config, text, weights, assumptions=(note,))


@family("dots_ocr", architectures=("DotsOCRForCausalLM",))
def dots_ocr(config: Config) -> ModelShape:
    """Qwen 2's cache, its keys at the top, behind a ViT of its own. Defaults: DotsVisionConfig."""
    text = build(filled(config, model_type="qwen2", force=True))
    vision = config.section("vision_config")
    tower = read_tower(vision, layers=42, hidden=1536, heads=12, intermediate=4224)
    bias = vision.boolean("use_bias", default=False)
    merged = tower.hidden * vision.integer("spatial_merge_size", default=2, maximum=64) ** 2
    last = vision.boolean("post_norm", default=True)
    at = "vision_tower"
    weights = [
        patch_conv(f"{at}.patch_embed.patchifier.proj", tower),
        layer_norm(f"{at}.patch_embed.patchifier.norm", tower.hidden, part=VISION, bias=False),
        *encoder_layers(
            f"{at}.blocks.{{layer}}",
            tower.hidden,
            tower.intermediate,
            tower.all_layers,
            attention="attn",
            qkvo=("qkv", "proj"),
            biases=(bias, bias, bias, bias),
            mlp=("mlp.fc1", "mlp.fc3", "mlp.fc2"),
            mlp_bias=bias,
            norms=("norm1", "norm2"),
            norm_bias=False,
        ),
        *(
            [layer_norm(f"{at}.post_trunk_norm", tower.hidden, part=VISION, bias=False)]
            if last
            else []
        ),
        layer_norm(f"{at}.merger.ln_q", tower.hidden, part=Part.PROJECTOR),
        *dense_chain(
            f"{at}.merger", ("mlp.0", merged, merged), ("mlp.2", text.hidden_size, merged)
        ),
    ]
    return multimodal(config, text, weights)
