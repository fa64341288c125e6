"""Phi-3 and 3.5 Vision, Phi-4 Multimodal: Phi 3 or 4 mini with CLIP or SigLIP, and a conformer."""

from collections.abc import Mapping
from typing import Any

from app.core.inventory import Part, Weight
from app.core.model import ModelShape
from app.resolve.architectures import build, family
from app.resolve.architectures.blocks_encoder import array, conv, dense_chain, layer_norm
from app.resolve.architectures.blocks_vision import clip, siglip
from app.resolve.architectures.common_weights import linear
from app.resolve.architectures.fields import MAX_LAYERS, Config
from app.resolve.architectures.multimodal import filled, multimodal

AUDIO = Part.AUDIO
PROJECTOR = Part.PROJECTOR
CLIP_LARGE: Mapping[str, Any] = {
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "image_size": 336,
    "patch_size": 14,
}
SO400M: Mapping[str, Any] = {
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_hidden_layers": 27,
    "num_attention_heads": 16,
    "image_size": 448,
    "patch_size": 14,
}
PHI4_TEXT: Mapping[str, Any] = {
    "vocab_size": 200064,
    "hidden_size": 3072,
    "intermediate_size": 8192,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
    "original_max_position_embeddings": 4096,
    "sliding_window": None,
}
LORA = "the LoRA adapters for images and speech are not counted"


@family("phi3_v", architectures=("Phi3VForCausalLM",))
def phi3_v(config: Config) -> ModelShape:
    """Phi 3's cache; CLIP-L/336, which the config names in `img_processor`, four patches a token."""
    text = build(filled(config, model_type="phi3", force=True))
    processor = config.section("img_processor", "embd_layer")
    width = processor.integer("image_dim_out", default=1024)
    at = "model.vision_embed_tokens"
    merged, out = 4 * width, text.hidden_size
    weights = [
        *clip(Config(CLIP_LARGE, path=config.path), f"{at}.img_processor.vision_model"),
        array(f"{at}.glb_GN", 1, 1, merged, part=PROJECTOR),
        array(f"{at}.sub_GN", 1, 1, 1, merged, part=PROJECTOR),
        *dense_chain(f"{at}.img_projection", ("0", out, merged), ("2", out, out)),
    ]
    return multimodal(config, text, weights)


@family(
    "phi4_multimodal",
    "phi4mm",
    architectures=("Phi4MultimodalForCausalLM", "Phi4MMForCausalLM"),
)
def phi4_multimodal(config: Config) -> ModelShape:
    """Phi 4 mini's cache. Defaults: Phi4MultimodalConfig, whose towers the published remote-code
    config (`phi4mm`) fixes in its code.
    """
    text = build(filled(config, model_type="phi3", defaults=PHI4_TEXT, force=True))
    vision = filled(config.section("vision_config"), model_type="siglip", defaults=SO400M)
    width = vision.integer("hidden_size", default=1152)
    out = text.hidden_size
    image = "model.embed_tokens_extend.image_embed"
    weights = [
        *siglip(vision, f"{image}.img_processor", head=True),
        array(f"{image}.global_img_feature_extensor", 1, 1, width, part=PROJECTOR),
        array(f"{image}.sub_img_feature_extensor", 1, 1, 1, width, part=PROJECTOR),
        *dense_chain(image, ("img_projection_up", out, width), ("img_projection_down", out, out)),
        *_speech(config.section("audio_config"), "model.embed_tokens_extend.audio_embed", out),
    ]
    notes = (LORA,) if config.has("speech_lora", "vision_lora") else ()
    return multimodal(config, text, weights, assumptions=notes)


def _speech(config: Config, at: str, out: int) -> list[Weight]:
    """A conformer with one table of relative biases, and a projector for each use of it. Defaults:
    Phi4MultimodalAudioConfig.
    """
    hidden = config.integer("hidden_size", default=1024)
    ffn = config.integer("intermediate_size", default=1536)
    blocks = range(config.integer("num_blocks", default=24, maximum=MAX_LAYERS))
    heads = config.integer("num_attention_heads", default=16)
    channels = config.integer("nemo_conv_channels", default=1024)
    features = config.integer("input_size", default=80)
    reduction = config.integer("time_reduction", default=8, maximum=1024)
    distance = config.integer("bias_max_distance", default=1000)
    symmetric = config.boolean("bias_symmetric", default=False)
    outer = config.integer("ext_pw_out_channel", default=1024)
    deep = config.integer("depthwise_separable_out_channel", default=1024)
    kernel = config.integer("kernel_size", default=3, maximum=4096)
    wide = hidden * config.integer("depthwise_multiplier", default=1, maximum=1024)
    final = config.integer("nemo_final_size", default=-(-features // reduction))
    encoder = f"{at}.encoder"
    layer = f"{encoder}.encoders.{{layer}}"
    common: dict[str, Any] = {"part": AUDIO, "layers": blocks}
    strides = max(1, reduction.bit_length() - 1)
    weights = [
        conv(f"{encoder}.embed.conv.0", channels, 1, 3, 3, part=AUDIO),
        conv(
            f"{encoder}.embed.conv.depthwise",
            channels,
            1,
            3,
            3,
            part=AUDIO,
            layers=range(strides - 1),
        ),
        conv(
            f"{encoder}.embed.conv.pointwise",
            channels,
            channels,
            1,
            1,
            part=AUDIO,
            layers=range(strides - 1),
        ),
        linear(f"{encoder}.embed.out", hidden, channels * final, part=AUDIO, bias=True),
        array(
            f"{encoder}.relative_attention_bias_layer.bias_values",
            distance * (1 if symmetric else 2),
            heads,
            part=AUDIO,
        ),
        layer_norm(f"{layer}.conv.layer_norm", hidden, **common),
        array(f"{layer}.conv.glu.b1", 1, outer, 1, **common),
        array(f"{layer}.conv.glu.b2", 1, outer, 1, **common),
        conv(f"{layer}.conv.glu.ext_pw_conv_1d", 2 * outer, hidden, 1, **common),
        conv(f"{layer}.conv.dw_sep_conv_1d.dw_conv", wide, 1, kernel, **common),
        conv(f"{layer}.conv.dw_sep_conv_1d.pw_conv", deep, wide, 1, **common),
        conv(f"{layer}.conv.ext_pw_conv_1d", outer, deep, 1, **common),
        layer_norm(f"{layer}.layer_norm_att", hidden, **common),
        layer_norm(f"{layer}.layer_norm", hidden, **common),
    ]
    for name in ("feed_forward_in", "feed_forward_out"):
        weights += [
            layer_norm(f"{layer}.{name}.layer_norm", hidden, **common),
            linear(f"{layer}.{name}.gate_up_proj", 2 * ffn, hidden, bias=True, **common),
            linear(f"{layer}.{name}.down_proj", hidden, ffn, bias=True, **common),
        ]
    weights += [
        linear(f"{layer}.self_attn.{name}", hidden, hidden, bias=True, **common)
        for name in ("q_proj", "k_proj", "v_proj", "o_proj")
    ]
    for use in ("speech", "vision_speech"):
        weights += dense_chain(
            at, (f"up_proj_for_{use}", out, hidden), (f"down_proj_for_{use}", out, out)
        )
    return weights
