"""What speaks in Qwen3-Omni: a talker that predicts codec tokens frame by frame, a small model that
predicts the rest of each frame, and a vocoder that makes sound of them.
"""

from collections.abc import Mapping
from typing import Any

from app.core.inventory import Part, Weight
from app.resolve.architectures import build
from app.resolve.architectures.blocks_encoder import (
    NO_BIASES,
    array,
    conv,
    dense_chain,
    encoder_layers,
    layer_norm,
    mlp_layers,
)
from app.resolve.architectures.common_weights import linear, vector
from app.resolve.architectures.fields import MAX_LAYERS, Config
from app.resolve.architectures.multimodal import filled

PART = Part.AUDIO
OUTSIDE = (Part.EMBEDDING, Part.HEAD)
GATED = ("gate_proj", "up_proj", "down_proj")
TALKER: Mapping[str, Any] = {
    "vocab_size": 3072,
    "hidden_size": 1024,
    "intermediate_size": 2048,
    "num_hidden_layers": 20,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "moe_intermediate_size": 384,
    "num_experts": 128,
    "num_experts_per_tok": 8,
}
PREDICTOR: Mapping[str, Any] = {
    "vocab_size": 2048,
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 5,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
}


def talker(config: Config, at: str) -> list[Weight]:
    """Both predictors and the projections from the thinker. Defaults: Qwen3OmniMoeTalkerConfig."""
    text = config.section("text_config")
    if not text.has("head_dim"):
        width = text.integer("hidden_size", default=1024)
        heads = text.integer("num_attention_heads", default=16)
        text = text.overlay(head_dim=max(1, width // heads))
    words, hidden, weights = _decoder(text, "qwen3_moe", TALKER, f"{at}.")
    seen = config.integer("thinker_hidden_size", default=2048)
    middle = text.integer("intermediate_size", default=2048)
    layers = range(text.integer("num_hidden_layers", default=20, maximum=MAX_LAYERS))
    shared = text.integer("shared_expert_intermediate_size", default=0, minimum=0)
    if shared:
        inside = f"{at}.model.layers.{{layer}}.mlp"
        names = tuple(f"shared_expert.{name}" for name in GATED)
        weights += mlp_layers(inside, hidden, shared, layers, part=PART, names=names, bias=False)
        weights.append(linear(f"{inside}.shared_expert_gate", 1, hidden, part=PART, layers=layers))
    for name in ("text_projection", "hidden_projection"):
        weights += dense_chain(
            f"{at}.{name}",
            ("linear_fc1", middle, seen),
            ("linear_fc2", hidden, middle),
            part=PART,
        )
    section = config.section("code_predictor_config")
    codes, inner, rest = _decoder(section, "qwen3", PREDICTOR, f"{at}.code_predictor.")
    groups = range(section.integer("num_code_groups", default=32, maximum=MAX_LAYERS) - 1)
    more: dict[str, Any] = {"part": PART, "layers": groups}
    return [
        *weights,
        array(f"{at}.model.codec_embedding", words, hidden, part=PART),
        linear(f"{at}.codec_head", words, hidden, part=PART),
        *rest,
        array(f"{at}.code_predictor.model.codec_embedding.{{layer}}", codes, inner, **more),
        linear(f"{at}.code_predictor.lm_head.{{layer}}", codes, inner, **more),
    ]


def _decoder(
    config: Config, model_type: str, defaults: Mapping[str, Any], prefix: str
) -> tuple[int, int, list[Weight]]:
    """(vocabulary, width, weights without embedding and head) of a text model that speaks."""
    section = filled(config, model_type=model_type, defaults=defaults, force=True)
    shape = build(Config(section.data, path=config.path, prefix=prefix))
    kept = [w.moved(PART) for w in shape.weights if w.part not in OUTSIDE]
    return shape.vocab_size, shape.hidden_size, kept


def code2wav(config: Config, at: str) -> list[Weight]:
    """A windowed transformer over codes, two steps of upsampling, a convolutional decoder.
    Defaults: Qwen3OmniMoeCode2WavConfig.
    """
    hidden = config.integer("hidden_size", default=1024)
    ffn = config.integer("intermediate_size", default=3072)
    layers = range(config.integer("num_hidden_layers", default=8, maximum=MAX_LAYERS))
    heads = config.integer("num_attention_heads", default=16)
    kv_heads = config.integer("num_key_value_heads", default=16)
    head_dim = config.integer("head_dim", default=max(1, hidden // heads))
    bias = config.boolean("attention_bias", default=False)
    codes = config.integer("codebook_size", default=2048) * config.integer(
        "num_quantizers", default=16
    )
    inside = f"{at}.pre_transformer.layers.{{layer}}"
    weights = [
        array(f"{at}.code_embedding", codes, hidden, part=PART),
        *encoder_layers(
            inside,
            hidden,
            ffn,
            layers,
            part=PART,
            qkvo=("q_proj", "k_proj", "v_proj", "o_proj"),
            width=heads * head_dim,
            kv_width=kv_heads * head_dim,
            biases=(bias, bias, bias, bias) if bias else NO_BIASES,
            mlp=tuple(f"mlp.{name}" for name in GATED),
            mlp_bias=False,
            norms=("input_layernorm", "post_attention_layernorm"),
            norm_bias=False,
            scales=("self_attn_layer_scale", "mlp_layer_scale"),
        ),
        vector(f"{at}.pre_transformer.norm", hidden, part=PART),
    ]
    for step, ratio in enumerate(_list(config, "upsampling_ratios", [2, 2])):
        weights += _upsample(f"{at}.upsample.{step}", hidden, ratio)
    return weights + _decoder_blocks(config, f"{at}.decoder", hidden)


def _list(config: Config, name: str, default: list[int]) -> list[int]:
    return (config.integers(name, minimum=1, maximum=4096) or default)[:32]


def _upsample(at: str, hidden: int, ratio: int) -> list[Weight]:
    """A transposed convolution and a ConvNeXt block."""
    return [
        conv(f"{at}.0.conv", hidden, hidden, ratio, part=PART),
        array(f"{at}.1.gamma", hidden, part=PART),
        conv(f"{at}.1.dwconv.conv", hidden, 1, 7, part=PART),
        layer_norm(f"{at}.1.norm", hidden, part=PART),
        *dense_chain(
            f"{at}.1", ("pwconv1", 4 * hidden, hidden), ("pwconv2", hidden, 4 * hidden), part=PART
        ),
    ]


def _decoder_blocks(config: Config, at: str, hidden: int) -> list[Weight]:
    """Each block halves the channels and lengthens the signal; three residual units in each."""
    width = config.integer("decoder_dim", default=1536)
    rates = _list(config, "upsample_rates", [8, 5, 4, 3])
    weights = [conv(f"{at}.0.conv", width, hidden, 7, part=PART)]
    units = range(3)
    for block, rate in enumerate(rates, start=1):
        before, after = width >> (block - 1), width >> block
        inside = f"{at}.{block}.block"
        weights += [
            array(f"{inside}.0", 2, before, part=PART),
            array(f"{inside}.1.conv", before, after, 2 * rate, part=PART, bias=after),
            array(f"{inside}.{{layer}}.act", 4, after, part=PART, layers=units),
            conv(f"{inside}.{{layer}}.conv1.conv", after, after, 7, part=PART, layers=units),
            conv(f"{inside}.{{layer}}.conv2.conv", after, after, 1, part=PART, layers=units),
        ]
    last = width >> len(rates)
    return [
        *weights,
        array(f"{at}.{len(rates) + 1}", 2, last, part=PART),
        conv(f"{at}.{len(rates) + 2}.conv", 1, last, 7, part=PART),
    ]
