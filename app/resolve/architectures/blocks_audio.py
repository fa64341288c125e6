"""Audio towers that several families share: Whisper's encoder and what became of it."""

from app.core.inventory import Part, Weight
from app.resolve.architectures.blocks_encoder import (
    array,
    conv,
    encoder_layers,
    layer_norm,
)
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
