"""Whisper: speech through an encoder, text out of a decoder that looks at all of it."""

from app.core.inventory import Part, Split, Weight
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_encoder import array, conv
from app.resolve.architectures.blocks_seq2seq import (
    bart_layers,
    encoder_shape,
    has_sides,
    read_stack,
    seq2seq_shape,
    stack_dims,
)
from app.resolve.architectures.common_weights import linear, vector
from app.resolve.architectures.fields import Config
from app.resolve.architectures.multimodal import MULTIMODAL
from app.resolve.architectures.task_heads import ENCODER_DECODER, ends, label_count


@family(
    "whisper", architectures=("WhisperForConditionalGeneration", "WhisperForAudioClassification")
)
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
    listening = [
        conv("model.encoder.conv1", width, mels, 3, part=Part.OTHER),
        conv("model.encoder.conv2", width, width, 3, part=Part.OTHER),
        array("model.encoder.embed_positions", frames, width, part=Part.OTHER),
        *bart_layers("model.encoder", encoder, width, cross=False, key_bias=False),
        vector("model.encoder.layer_norm", width, bias=True),
    ]
    if ends(config, "ForAudioClassification"):
        weights = [*listening, *_classifier(config, width, encoder.layers)]
        return encoder_shape(config, stack_dims(encoder, width, vocab, frames), weights)
    listens = has_sides(config)[0]
    weights = [
        Weight(
            name="model.decoder.embed_tokens",
            shape=(vocab, width),
            part=Part.EMBEDDING,
            split=Split.VOCAB,
        ),
        array("model.decoder.embed_positions", positions, width, part=Part.OTHER),
        *bart_layers("model.decoder", decoder, width, cross=True, key_bias=False),
        vector("model.decoder.layer_norm", width, bias=True),
    ]
    if listens:
        weights += listening
    if not tied:
        weights.append(linear("proj_out", vocab, width, part=Part.HEAD, split=Split.VOCAB))
    return seq2seq_shape(
        config,
        decoder,
        weights,
        width=width,
        vocab=vocab,
        encoder_tokens=frames if listens else 0,
        max_positions=positions,
        tied=tied,
        traits=(ENCODER_DECODER, MULTIMODAL),
    )


def _classifier(config: Config, width: int, layers: int) -> list[Weight]:
    """Labels of a sound: of the encoder's output, or of all its layers' weighed."""
    inner = config.integer("classifier_proj_size", default=256)
    weights = [
        linear("projector", inner, width, part=Part.OTHER, bias=True),
        linear("classifier", label_count(config), inner, part=Part.OTHER, bias=True),
    ]
    if config.boolean("use_weighted_layer_sum", default=False):
        weights.append(vector("layer_weights", layers + 1, part=Part.OTHER))
    return weights
