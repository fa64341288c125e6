"""Whisper: speech through an encoder, text out of a decoder that looks at all of it."""

from app.core.inventory import Part, Split, Weight
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_encoder import array, conv
from app.resolve.architectures.blocks_seq2seq import (
    ENCODER_DECODER,
    bart_layers,
    read_stack,
    seq2seq_shape,
)
from app.resolve.architectures.common_weights import linear, vector
from app.resolve.architectures.fields import Config
from app.resolve.architectures.multimodal import MULTIMODAL


@family("whisper", architectures=("WhisperForConditionalGeneration",))
def whisper(config: Config) -> ModelShape:
    """Every decoder layer caches its tokens and, once, all `max_source_positions` frames of the
    encoder's output. Keys have no bias. Defaults: WhisperConfig.
    """
    width = config.integer("d_model", default=384)
    encoder = read_stack(config, "encoder", width, layers=4, heads=6, ffn=1536)
    decoder = read_stack(config, "decoder", width, layers=4, heads=6, ffn=1536)
    vocab = config.integer("vocab_size", default=51865)
    mels = config.integer("num_mel_bins", default=80)
    frames = config.integer("max_source_positions", default=1500)
    positions = config.integer("max_target_positions", default=448)
    tied = config.boolean("tie_word_embeddings", default=True)
    weights = [
        Weight(
            name="model.decoder.embed_tokens",
            shape=(vocab, width),
            part=Part.EMBEDDING,
            split=Split.VOCAB,
        ),
        conv("model.encoder.conv1", width, mels, 3, part=Part.OTHER),
        conv("model.encoder.conv2", width, width, 3, part=Part.OTHER),
        array("model.encoder.embed_positions", frames, width, part=Part.OTHER),
        array("model.decoder.embed_positions", positions, width, part=Part.OTHER),
        *bart_layers("model.encoder", encoder, width, cross=False, key_bias=False),
        *bart_layers("model.decoder", decoder, width, cross=True, key_bias=False),
        vector("model.encoder.layer_norm", width, bias=True),
        vector("model.decoder.layer_norm", width, bias=True),
    ]
    if not tied:
        weights.append(linear("proj_out", vocab, width, part=Part.HEAD, split=Split.VOCAB))
    return seq2seq_shape(
        config,
        decoder,
        weights,
        width=width,
        vocab=vocab,
        encoder_tokens=frames,
        max_positions=positions,
        tied=tied,
        traits=(ENCODER_DECODER, MULTIMODAL),
    )
