"""Qwen2.5-Omni and Qwen3-Omni: a thinker that reads, sees and hears, and a talker that speaks.

Engines serve the thinker; the talker and the vocoder are weights of the checkpoint only.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from app.core.inventory import Part, Weight
from app.core.model import ModelShape
from app.resolve.architectures import build, family
from app.resolve.architectures.blocks_audio import qwen3_audio_tower, whisper_encoder
from app.resolve.architectures.blocks_code2wav import code2wav, talker
from app.resolve.architectures.blocks_encoder import array, dense_chain
from app.resolve.architectures.blocks_qwen2_vision import qwen2_5_vision
from app.resolve.architectures.blocks_qwen_vision import qwen3_vision
from app.resolve.architectures.blocks_token2wav import token2wav
from app.resolve.architectures.common_weights import linear
from app.resolve.architectures.fields import Config
from app.resolve.architectures.multimodal import filled, multimodal, text_model

AUDIO = Part.AUDIO
OMNI_TEXT: Mapping[str, Any] = {
    "vocab_size": 152064,
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "max_position_embeddings": 32768,
    "sliding_window": 32768,
    "tie_word_embeddings": True,
}
TALKER: Mapping[str, Any] = {**OMNI_TEXT, "vocab_size": 8448, "head_dim": 128}
OMNI_MOE_TEXT: Mapping[str, Any] = {
    "vocab_size": 3584,
    "hidden_size": 2048,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "max_position_embeddings": 32768,
    "moe_intermediate_size": 768,
    "num_experts": 128,
    "num_experts_per_tok": 8,
}


@family("qwen2_5_omni_text")
def qwen2_5_omni_text(config: Config) -> ModelShape:
    """Qwen 2. Defaults: Qwen2_5OmniTextConfig."""
    return build(filled(config, model_type="qwen2", defaults=OMNI_TEXT, force=True))


@family("qwen3_omni_moe_text")
def qwen3_omni_moe_text(config: Config) -> ModelShape:
    """Qwen 3's mixture. Defaults: Qwen3OmniMoeTextConfig."""
    if not config.has("head_dim"):
        width = config.integer("hidden_size", default=2048)
        heads = config.integer("num_attention_heads", default=28)
        config = config.overlay(head_dim=max(1, width // heads))
    return build(filled(config, model_type="qwen3_moe", defaults=OMNI_MOE_TEXT, force=True))


@family(
    "qwen2_5_omni",
    architectures=("Qwen2_5OmniForConditionalGeneration", "Qwen2_5OmniModel"),
)
def qwen2_5_omni(config: Config) -> ModelShape:
    """The thinker's cache. Defaults: Qwen2_5OmniConfig."""
    thinker = config.section("thinker_config")
    shape = _thinker(thinker, "thinker.")
    speaks = config.boolean("enable_audio_output", default=True)
    weights: list[Weight] = []
    if speaks:
        weights += _talker(config.section("talker_config"), "talker")
        weights += token2wav(config.section("token2wav_config"), "token2wav")
    return multimodal(config, shape, weights)


@family("qwen2_5_omni_thinker", architectures=("Qwen2_5OmniThinkerForConditionalGeneration",))
def qwen2_5_omni_thinker(config: Config) -> ModelShape:
    """The thinker alone. Defaults: Qwen2_5OmniThinkerConfig."""
    return _thinker(config, "")


def _thinker(config: Config, prefix: str) -> ModelShape:
    text = text_model(config, prefix=prefix, model_type="qwen2_5_omni_text", tied=False)
    audio = config.section("audio_config")
    width = audio.integer("d_model", default=1280)
    out = audio.integer("output_dim", default=3584)
    at = f"{prefix}audio_tower"
    weights = [
        *qwen2_5_vision(config.section("vision_config"), f"{prefix}visual"),
        *whisper_encoder(audio, at, positions=None, last_norm="ln_post"),
        array(f"{at}.audio_bos_eos_token", 2, out, part=AUDIO),
        linear(f"{at}.proj", out, width, part=AUDIO, bias=True),
    ]
    return multimodal(config, text, weights)


def _talker(config: Config, at: str) -> list[Weight]:
    """A small Qwen 2 over the thinker's states that predicts codec tokens. Defaults:
    Qwen2_5OmniTalkerConfig.
    """
    filled_in = filled(config, model_type="qwen2", defaults=TALKER, force=True)
    shape = build(Config(filled_in.data, path=config.path, prefix=f"{at}."))
    embedding = config.integer("embedding_size", default=3584)
    outside = (Part.EMBEDDING, Part.HEAD)
    return [
        *(replace(w, part=AUDIO) for w in shape.weights if w.part not in outside),
        array(f"{at}.model.embed_tokens", shape.vocab_size, embedding, part=AUDIO),
        linear(f"{at}.codec_head", shape.vocab_size, shape.hidden_size, part=AUDIO),
        linear(f"{at}.thinker_to_talker_proj", shape.hidden_size, embedding, part=AUDIO, bias=True),
    ]


@family("qwen3_omni_moe", architectures=("Qwen3OmniMoeForConditionalGeneration",))
def qwen3_omni_moe(config: Config) -> ModelShape:
    """The thinker's cache. Defaults: Qwen3OmniMoeConfig."""
    shape = _moe_thinker(config.section("thinker_config"), "thinker.")
    weights: list[Weight] = []
    if config.boolean("enable_audio_output", default=True):
        weights += talker(config.section("talker_config"), "talker")
        weights += code2wav(config.section("code2wav_config"), "code2wav")
    return multimodal(config, shape, weights)


@family(
    "qwen3_omni_moe_thinker",
    architectures=("Qwen3OmniMoeThinkerForConditionalGeneration",),
)
def qwen3_omni_moe_thinker(config: Config) -> ModelShape:
    """The thinker alone. Defaults: Qwen3OmniMoeThinkerConfig."""
    return _moe_thinker(config, "")


def _moe_thinker(config: Config, prefix: str) -> ModelShape:
    text = text_model(config, prefix=prefix, model_type="qwen3_omni_moe_text", tied=False)
    audio = config.section("audio_config")
    width = audio.integer("d_model", default=1280)
    out = audio.integer("output_dim", default=3584)
    at = f"{prefix}audio_tower"
    weights = [
        *qwen3_vision(config.section("vision_config"), f"{prefix}visual.", deepstack=True),
        *qwen3_audio_tower(audio, at, width=1280, depth=32, ffn=5120),
        *dense_chain(at, ("proj1", width, width), ("proj2", out, width), part=AUDIO),
    ]
    return multimodal(config, text, weights)
