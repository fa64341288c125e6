"""Speech in, text out: Qwen2-Audio, Qwen3-ASR, Voxtral, Audio and Music Flamingo 3, GLM-ASR,
MOSS-Transcribe. The text model caches; Whisper's encoder or one like it stands before it.
"""

from collections.abc import Mapping
from typing import Any

from app.core.inventory import Part
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_audio import (
    KEYS_UNBIASED,
    qwen3_audio_tower,
    whisper_encoder,
)
from app.resolve.architectures.blocks_encoder import (
    conv,
    dense_chain,
    encoder_layers,
    layer_norm,
    mlp_projector,
)
from app.resolve.architectures.common_weights import linear
from app.resolve.architectures.fields import MAX_LAYERS, Config
from app.resolve.architectures.multimodal import multimodal, text_model

PROJECTOR = "multi_modal_projector"
TOWER = "audio_tower"
QWEN3_ASR_TEXT: Mapping[str, Any] = {
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 65536,
}
VOXTRAL_TEXT: Mapping[str, Any] = {
    "vocab_size": 131072,
    "hidden_size": 3072,
    "intermediate_size": 8192,
    "num_hidden_layers": 30,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
    "head_dim": 128,
}
GLM_ASR_TEXT: Mapping[str, Any] = {
    "vocab_size": 59264,
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "max_position_embeddings": 8192,
}
MOSS_TEXT: Mapping[str, Any] = {
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
}


@family("qwen2_audio", architectures=("Qwen2AudioForConditionalGeneration",))
def qwen2_audio(config: Config) -> ModelShape:
    """Qwen 2 behind Whisper's encoder. Defaults: Qwen2AudioConfig."""
    text = text_model(config, prefix="language_model.", model_type="qwen2")
    audio = config.section("audio_config")
    width = audio.integer("d_model", default=1280)
    weights = [
        *whisper_encoder(audio, TOWER),
        linear(f"{PROJECTOR}.linear", text.hidden_size, width, part=Part.PROJECTOR, bias=True),
    ]
    return multimodal(config, text, weights)


@family(
    "qwen3_asr",
    architectures=("Qwen3ASRForConditionalGeneration", "Qwen3ASRRealtimeGeneration"),
)
def qwen3_asr(config: Config) -> ModelShape:
    """Qwen 3 behind a convolutional encoder; published configs nest both in `thinker_config`.
    Defaults: Qwen3ASRConfig.
    """
    nested = config.has("thinker_config")
    outer = config.section("thinker_config") if nested else config
    prefix = "thinker." if nested else ""
    text = text_model(
        outer,
        prefix=prefix,
        model_type="qwen3",
        absent=QWEN3_ASR_TEXT,
        tied=None if nested else True,
        force=True,
    )
    audio = outer.section("audio_config")
    width = audio.integer("d_model", default=1024)
    out = audio.integer("output_dim", default=3584)
    at = f"{prefix}{TOWER}"
    weights = [
        *qwen3_audio_tower(audio, at, width=1024, depth=24, ffn=4096),
        *dense_chain(at, ("proj1", width, width), ("proj2", out, width)),
    ]
    shape = multimodal(outer, text, weights)
    return multimodal(config, shape)


@family("voxtral", architectures=("VoxtralForConditionalGeneration",))
def voxtral(config: Config) -> ModelShape:
    """Mistral (as Llama) behind Whisper's encoder, four frames a token. Defaults: VoxtralConfig."""
    text = text_model(config, prefix="language_model.", model_type="llama", defaults=VOXTRAL_TEXT)
    audio = config.section("audio_config")
    merged = audio.integer("intermediate_size", default=5120)
    weights = [
        *whisper_encoder(audio, TOWER),
        *mlp_projector(PROJECTOR, merged, text.hidden_size, bias=False),
    ]
    return multimodal(config, text, weights)


@family("audioflamingo3", architectures=("AudioFlamingo3ForConditionalGeneration",))
def audioflamingo3(config: Config) -> ModelShape:
    """Qwen 2 behind Whisper's encoder. Defaults: AudioFlamingo3Config."""
    return _flamingo(config)


@family("musicflamingo", architectures=("MusicFlamingoForConditionalGeneration",))
def musicflamingo(config: Config) -> ModelShape:
    """As Audio Flamingo 3. Defaults: MusicFlamingoConfig."""
    return _flamingo(config)


def _flamingo(config: Config) -> ModelShape:
    text = text_model(config, prefix="language_model.", model_type="qwen2")
    audio = config.section("audio_config")
    width = audio.integer("hidden_size", default=1280)
    bias = config.boolean("projector_bias", default=True)
    weights = [
        *whisper_encoder(audio, TOWER),
        *mlp_projector(PROJECTOR, width, text.hidden_size, bias=bias),
    ]
    return multimodal(config, text, weights)


@family("glmasr", architectures=("GlmAsrForConditionalGeneration",))
def glmasr(config: Config) -> ModelShape:
    """Llama behind an encoder with rotary positions, four frames a token. Defaults:
    GlmAsrConfig.
    """
    text = text_model(
        config, prefix="language_model.", model_type="llama", defaults=GLM_ASR_TEXT, tied=True
    )
    audio = config.section("audio_config")
    width = audio.integer("hidden_size", default=1280)
    depth = audio.integer("num_hidden_layers", default=32, maximum=MAX_LAYERS)
    ffn = audio.integer("intermediate_size", default=5120)
    heads = audio.integer("num_attention_heads", default=20)
    kv_heads = audio.integer("num_key_value_heads", default=heads)
    if width % heads:
        raise audio.fail("num_attention_heads", f"{heads} heads do not divide {width}")
    weights = [
        conv(f"{TOWER}.conv1", width, audio.integer("num_mel_bins", default=128), 3, part=AUDIO),
        conv(f"{TOWER}.conv2", width, width, 3, part=AUDIO),
        *encoder_layers(
            f"{TOWER}.layers.{{layer}}",
            width,
            ffn,
            range(depth),
            part=AUDIO,
            qkvo=("q_proj", "k_proj", "v_proj", "o_proj"),
            kv_width=kv_heads * (width // heads),
            biases=KEYS_UNBIASED,
            norms=("input_layernorm", "post_attention_layernorm"),
        ),
        layer_norm(f"{TOWER}.norm", width, part=AUDIO),
        *mlp_projector(PROJECTOR, ffn, text.hidden_size, inner=2 * text.hidden_size),
    ]
    return multimodal(config, text, weights)


AUDIO = Part.AUDIO


@family(
    "moss_transcribe_diarize",
    architectures=("MossTranscribeDiarizeForConditionalGeneration",),
)
def moss_transcribe_diarize(config: Config) -> ModelShape:
    """Qwen 3 behind Whisper's encoder, `audio_merge_size` frames a token. Defaults:
    MossTranscribeDiarizeConfig.
    """
    text = text_model(
        config, prefix="language_model.", model_type="qwen3", absent=MOSS_TEXT, tied=True
    )
    audio = config.section("audio_config")
    merged = audio.integer("hidden_size", default=1024) * config.integer(
        "audio_merge_size", default=4, maximum=1024
    )
    bias = config.boolean("projector_bias", default=True)
    weights = [
        *whisper_encoder(audio, TOWER, width=1024, depth=24, intermediate=4096, mels=80),
        *mlp_projector(PROJECTOR, merged, text.hidden_size, bias=bias),
        layer_norm(f"{PROJECTOR}.norm", text.hidden_size, part=Part.PROJECTOR),
    ]
    return multimodal(config, text, weights)
