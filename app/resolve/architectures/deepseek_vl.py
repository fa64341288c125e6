"""DeepSeek-VL and VL2, DeepSeek-OCR 1 and 2, Unlimited-OCR, GOT-OCR 2."""

from collections.abc import Mapping
from typing import Any

from app.core.inventory import Part, Weight
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_encoder import (
    array,
    conv,
    dense_chain,
    encoder_layers,
    layer_norm,
)
from app.resolve.architectures.blocks_sam import neck, sam
from app.resolve.architectures.blocks_vision import clip, siglip
from app.resolve.architectures.common_weights import linear
from app.resolve.architectures.fields import Config
from app.resolve.architectures.multimodal import filled, inner, multimodal, text_model

PROJECTOR = Part.PROJECTOR
VISION = Part.VISION
CLIP_LARGE: Mapping[str, Any] = {
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "image_size": 224,
    "patch_size": 14,
}
VL2_TOWER: Mapping[str, Any] = {"image_size": 384}
QWEN_ENCODER = {"layers": 24, "hidden": 896, "heads": 14, "kv_heads": 2, "ffn": 4864}
GOT_TEXT: Mapping[str, Any] = {
    "vocab_size": 151860,
    "hidden_size": 1024,
    "intermediate_size": 2816,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "max_position_embeddings": 32768,
    "tie_word_embeddings": True,
}


@family("deepseek_vl_v2", architectures=("DeepseekVLV2ForCausalLM",))
def deepseek_vl2(config: Config) -> ModelShape:
    """DeepSeek V2's latents, or K and V of every head where `kv_lora_rank` is null (Tiny); SigLIP
    with its pooling head, four patches a token. Defaults: the model's own config classes.
    """
    names = config.texts("architectures") or []
    if "DeepseekOCRForCausalLM" in names:
        return deepseek_ocr(config)
    if "DeepseekOCR2ForCausalLM" in names:
        return deepseek_ocr2(config)
    text = text_model(
        config, "language_config", "text_config", prefix="language.", model_type="deepseek_v2"
    )
    stated = config.section("vision_config")
    vision = filled(
        stated,
        model_type="siglip",
        defaults={
            **VL2_TOWER,
            "hidden_size": stated.integer("width", default=1024),
            "num_hidden_layers": stated.integer("layers", default=24, maximum=4096),
            "num_attention_heads": stated.integer("heads", default=16),
        },
    )
    if not vision.has("mlp_ratio"):
        vision = vision.overlay(mlp_ratio=4)
    projector = config.section("projector_config")
    out = projector.integer("n_embed", default=2048)
    inside = out * projector.integer("mlp_ratio", default=1, maximum=1024)
    merged = (
        projector.integer("input_dim", default=1152)
        * projector.integer("downsample_ratio", default=2, maximum=64) ** 2
    )
    depth = projector.integer("depth", default=2, maximum=64)
    weights = [
        *siglip(vision, "vision", head=True),
        *dense_chain(
            "projector.layers",
            ("0", inside, merged),
            *((str(2 * step), inside, inside) for step in range(1, depth - 1)),
            (str(2 * depth - 2), out, inside),
        ),
        array("image_newline", out, part=PROJECTOR),
        array("view_seperator", out, part=PROJECTOR),
    ]
    return multimodal(config, text, weights)


@family("deepseek_ocr", architectures=("DeepseekOCRForCausalLM",))
def deepseek_ocr(config: Config) -> ModelShape:
    """DeepSeek V2 with plain attention; SAM's features go through CLIP. Fixed in its code: the
    sizes of both towers.
    """
    text = text_model(config, "language_config", "text_config", prefix="", model_type="deepseek_v2")
    out = config.section("projector_config").integer("n_embed", default=1280)
    read = config.section("projector_config").integer("input_dim", default=2048)
    large = Config(CLIP_LARGE, path=config.path)
    weights = [
        *sam(Config({}, path=config.path), "model.sam_model"),
        *_strides("model.sam_model", (256, 512, 1024)),
        *(w for w in clip(large, "model.vision_model") if "post_layernorm" not in w.name),
        linear("model.projector.layers", out, read, part=PROJECTOR, bias=True),
        array("model.image_newline", out, part=PROJECTOR),
        array("model.view_seperator", out, part=PROJECTOR),
    ]
    return multimodal(config, text, weights)


@family("deepseek_ocr2", architectures=("DeepseekOCR2ForCausalLM",))
def deepseek_ocr2(config: Config) -> ModelShape:
    """As the first, with a small Qwen 2 in CLIP's place and learned queries of two sizes."""
    text = text_model(config, "language_config", "text_config", prefix="", model_type="deepseek_v2")
    projector = config.section("projector_config")
    out = projector.integer("n_embed", default=1280)
    width = QWEN_ENCODER["hidden"]
    head_dim = width // QWEN_ENCODER["heads"]
    at = "model.qwen2_model"
    weights = [
        *sam(Config({}, path=config.path), "model.sam_model"),
        *_strides("model.sam_model", (256, 512, width)),
        *encoder_layers(
            f"{at}.model.model.layers.{{layer}}",
            width,
            QWEN_ENCODER["ffn"],
            range(QWEN_ENCODER["layers"]),
            qkvo=("q_proj", "k_proj", "v_proj", "o_proj"),
            kv_width=QWEN_ENCODER["kv_heads"] * head_dim,
            biases=(True, True, True, False),
            mlp=("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"),
            mlp_bias=False,
            norms=("input_layernorm", "post_attention_layernorm"),
            norm_bias=False,
        ),
        layer_norm(f"{at}.model.model.norm", width, part=VISION, bias=False),
        array(f"{at}.query_1024", 256, width, part=VISION),
        array(f"{at}.query_768", 144, width, part=VISION),
        linear(
            "model.projector.layers",
            out,
            projector.integer("input_dim", default=width),
            part=PROJECTOR,
            bias=True,
        ),
        array("model.view_seperator", out, part=PROJECTOR),
    ]
    return multimodal(config, text, weights)


def _strides(at: str, widths: tuple[int, int, int]) -> list[Weight]:
    first, second, third = widths
    return [
        conv(f"{at}.net_2", second, first, 3, 3, part=VISION, bias=False),
        conv(f"{at}.net_3", third, second, 3, 3, part=VISION, bias=False),
    ]


@family("got_ocr2", architectures=("GotOcr2ForConditionalGeneration",))
def got_ocr2(config: Config) -> ModelShape:
    """A small Qwen 2 behind SAM. Defaults: GotOcr2Config."""
    text = text_model(
        config, prefix="language_model.", model_type="qwen2", absent=GOT_TEXT, tied=True
    )
    vision = config.section("vision_config")
    width = vision.integer("output_channels", default=256)
    out = text.hidden_size
    at = "multi_modal_projector"
    weights = [
        *sam(vision, "vision_tower"),
        conv(f"{at}.conv_upsampler1", 2 * width, width, 3, 3, part=PROJECTOR, bias=False),
        conv(f"{at}.conv_upsampler2", out, 2 * width, 3, 3, part=PROJECTOR, bias=False),
        linear(f"{at}.multimodal_projector", out, out, part=PROJECTOR, bias=True),
    ]
    return multimodal(config, text, weights)


@family("deepseek_vl", architectures=("DeepseekVLForConditionalGeneration",))
def deepseek_vl(config: Config) -> ModelShape:
    """Llama behind SigLIP. Defaults: DeepseekVLConfig."""
    text = text_model(config, prefix="model.language_", model_type="llama", tied=True)
    vision = inner(config, "vision_config", model_type="siglip_vision_model")
    width = vision.integer("hidden_size", default=768)
    weights = [
        *siglip(vision, "model.vision_model"),
        *dense_chain(
            "model.aligner",
            ("linear1", text.hidden_size, width),
            ("linear2", text.hidden_size, text.hidden_size),
        ),
    ]
    return multimodal(config, text, weights)


@family("deepseek_vl_hybrid", architectures=("DeepseekVLHybridForConditionalGeneration",))
def deepseek_vl_hybrid(config: Config) -> ModelShape:
    """SigLIP for the whole picture, SAM for its details. Defaults: DeepseekVLHybridConfig."""
    text = text_model(config, prefix="model.language_", model_type="llama", tied=True)
    vision = inner(config, "vision_config", model_type="siglip_vision_model")
    detailed = config.section("high_res_vision_config")
    width = vision.integer("hidden_size", default=768)
    detail = detailed.integer("output_channels", default=256)
    out = text.hidden_size
    weights = [
        *siglip(vision, "model.vision_model"),
        *sam(detailed, "model.high_res_vision_model.vision_encoder"),
        *neck("model.high_res_vision_neck", detailed.integer("hidden_size", default=768), detail),
        conv("model.high_res_vision_proj.conv1", 2 * detail, detail, 3, 3, part=VISION, bias=False),
        conv(
            "model.high_res_vision_proj.conv2",
            4 * detail,
            2 * detail,
            3,
            3,
            part=VISION,
            bias=False,
        ),
        array("model.high_res_vision_alpha", 1, part=VISION),
        *dense_chain(
            "model.aligner",
            ("vision_proj", out // 2, width),
            ("high_res_vision_proj", out // 2, 4 * detail),
            ("proj", out, out),
        ),
    ]
    return multimodal(config, text, weights)
