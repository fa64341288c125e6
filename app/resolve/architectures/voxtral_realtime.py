"""Voxtral Realtime: a windowed Mistral that listens to a causal, windowed encoder as it goes."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from app.core.inventory import Part, Weight
from app.core.model import ModelShape
from app.resolve.architectures import build, family
from app.resolve.architectures.blocks_encoder import (
    conv,
    layer_norm,
    mlp_projector,
)
from app.resolve.architectures.blocks_seq2seq import attention_weights
from app.resolve.architectures.common_weights import linear
from app.resolve.architectures.fields import MAX_LAYERS, Config
from app.resolve.architectures.multimodal import filled, multimodal, text_model

AUDIO = Part.AUDIO
DELAY_RANK = 32
TEXT: Mapping[str, Any] = {
    "vocab_size": 131072,
    "hidden_size": 3072,
    "intermediate_size": 9216,
    "num_hidden_layers": 26,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
    "head_dim": 128,
    "tie_word_embeddings": True,
    "sliding_window": 8192,
}
CLASS: Mapping[str, Any] = {
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
    "sliding_window": 4096,
}


@family("voxtral_realtime_text")
def voxtral_realtime_text(config: Config) -> ModelShape:
    """Mistral with a window in every layer and a low-rank scale for the delay. Defaults:
    VoxtralRealtimeTextConfig.
    """
    shape = build(filled(config, model_type="mistral", defaults=CLASS, force=True))
    at = config.prefix + "model.layers.{layer}.ada_rms_norm"
    layers = range(shape.num_hidden_layers)
    common: dict[str, Any] = {"part": Part.OTHER, "layers": layers}
    delay = [
        linear(f"{at}.linear1", DELAY_RANK, shape.hidden_size, **common),
        linear(f"{at}.linear2", shape.hidden_size, DELAY_RANK, **common),
    ]
    return replace(shape, weights=(*shape.weights, *delay))


@family(
    "voxtral_realtime",
    architectures=("VoxtralRealtimeForConditionalGeneration", "VoxtralRealtimeGeneration"),
)
def voxtral_realtime(config: Config) -> ModelShape:
    """The text model's windows; what the encoder keeps of a stream is not counted. Defaults:
    VoxtralRealtimeConfig.
    """
    text = text_model(
        config,
        prefix="language_model.",
        model_type="voxtral_realtime_text",
        defaults=TEXT,
        force=True,
        tied=True,
    )
    audio = config.section("audio_config")
    merged = audio.integer("hidden_size", default=1280) * config.integer(
        "downsample_factor", default=4, maximum=1024
    )
    weights = [
        *_encoder(audio, "audio_tower"),
        *mlp_projector("multi_modal_projector", merged, text.hidden_size, bias=False),
    ]
    note = "the windows that the streaming encoder keeps are not counted"
    return multimodal(config, text, weights, assumptions=(note,))


def _encoder(config: Config, at: str) -> list[Weight]:
    hidden = config.integer("hidden_size", default=1280)
    width = config.integer("num_attention_heads", default=32) * config.integer(
        "head_dim", default=64
    )
    ffn = config.integer("intermediate_size", default=5120)
    layers = range(config.integer("num_hidden_layers", default=32, maximum=MAX_LAYERS))
    inside = f"{at}.layers.{{layer}}"
    common: dict[str, Any] = {"part": AUDIO, "layers": layers}
    qkvo = attention_weights(
        f"{inside}.self_attn",
        hidden,
        width,
        layers,
        names=("q_proj", "k_proj", "v_proj", "o_proj"),
        key_bias=False,
    )
    return [
        conv(
            f"{at}.embedder.conv1",
            hidden,
            config.integer("num_mel_bins", default=128),
            3,
            part=AUDIO,
        ),
        conv(f"{at}.embedder.conv2", hidden, hidden, 3, part=AUDIO),
        *(replace(weight, part=AUDIO) for weight in qkvo),
        linear(f"{inside}.mlp.gate_proj", ffn, hidden, **common),
        linear(f"{inside}.mlp.up_proj", ffn, hidden, **common),
        linear(f"{inside}.mlp.down_proj", hidden, ffn, bias=True, **common),
        layer_norm(f"{inside}.self_attn_layer_norm", hidden, bias=False, **common),
        layer_norm(f"{inside}.final_layer_norm", hidden, bias=False, **common),
        layer_norm(f"{at}.norm", hidden, part=AUDIO, bias=False),
    ]
