"""Audio towers that several families share: Whisper's encoder and what became of it."""

from app.core.inventory import Part, Weight
from app.resolve.architectures.blocks_encoder import (
    array,
    conv,
    encoder_layers,
    layer_norm,
)
from app.resolve.architectures.common_weights import linear
from app.resolve.architectures.fields import MAX_LAYERS, Config

KEYS_UNBIASED = (True, False, True, True)
WHISPER_NORMS = ("self_attn_layer_norm", "final_layer_norm")


def whisper_encoder(
    config: Config,
    at: str,
    *,
    part: Part = Part.AUDIO,
    width: int = 1280,
    depth: int = 32,
    intermediate: int = 5120,
    mels: int = 128,
    positions: int | None = 1500,
    last_norm: str = "layer_norm",
    biases: tuple[bool, bool, bool, bool] = KEYS_UNBIASED,
) -> list[Weight]:
    """Two convolutions over the mel spectrogram, learned or fixed positions (stored where
    `positions` is given), a plain transformer. Keyword arguments are the class's defaults.
    """
    width = config.integer("d_model", "hidden_size", default=width)
    depth = config.integer("encoder_layers", "num_hidden_layers", default=depth, maximum=MAX_LAYERS)
    intermediate = config.integer("encoder_ffn_dim", "intermediate_size", default=intermediate)
    mels = config.integer("num_mel_bins", default=mels)
    weights = [
        conv(f"{at}.conv1", width, mels, 3, part=part),
        conv(f"{at}.conv2", width, width, 3, part=part),
        *encoder_layers(
            f"{at}.layers.{{layer}}",
            width,
            intermediate,
            range(depth),
            part=part,
            biases=biases,
            mlp=("fc1", "fc2"),
            norms=WHISPER_NORMS,
        ),
        layer_norm(f"{at}.{last_norm}", width, part=part),
    ]
    if positions is not None:
        frames = config.integer("max_source_positions", default=positions)
        weights.append(array(f"{at}.embed_positions", frames, width, part=part))
    return weights


def qwen3_audio_tower(config: Config, at: str, *, width: int, depth: int, ffn: int) -> list[Weight]:
    """Qwen3's audio encoder without its output projections: three strided 2-d convolutions, then
    Whisper's layers. Defaults are keyword arguments, as in Qwen3ASREncoderConfig and
    Qwen3OmniMoeAudioEncoderConfig.
    """
    part = Part.AUDIO
    width = config.integer("d_model", default=width)
    depth = config.integer("encoder_layers", "num_hidden_layers", default=depth, maximum=MAX_LAYERS)
    channels = config.integer("downsample_hidden_size", default=480)
    bins = config.integer("num_mel_bins", default=128)
    for _ in range(3):
        bins = (bins + 1) // 2
    return [
        conv(f"{at}.conv2d1", channels, 1, 3, 3, part=part),
        conv(f"{at}.conv2d2", channels, channels, 3, 3, part=part),
        conv(f"{at}.conv2d3", channels, channels, 3, 3, part=part),
        linear(f"{at}.conv_out", width, channels * bins, part=part),
        *encoder_layers(
            f"{at}.layers.{{layer}}",
            width,
            config.integer("encoder_ffn_dim", default=ffn),
            range(depth),
            part=part,
            mlp=("fc1", "fc2"),
            norms=WHISPER_NORMS,
        ),
        layer_norm(f"{at}.ln_post", width, part=part),
    ]
