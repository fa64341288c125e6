"""BART, mBART, PLBart, MVP, Pegasus, Marian, Blenderbot, M2M-100 (NLLB) and Florence 2's text."""

from dataclasses import dataclass

from app.core.inventory import Part, Split, Weight
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_encoder import array
from app.resolve.architectures.blocks_seq2seq import (
    bart_layers,
    has_sides,
    read_stack,
    sentence_layer,
    seq2seq_shape,
)
from app.resolve.architectures.common_weights import linear, vector
from app.resolve.architectures.fields import Config

LONGEST_INPUT = "the encoder's input is taken at its longest, {tokens} tokens"


@dataclass(frozen=True, kw_only=True, slots=True)
class Variant:
    """Sizes a class defaults to, and what differs: whether positions are stored (with how many
    rows more than positions), whether the embeddings are normed, whether the stacks end in a norm.
    """

    vocab: int = 50265
    width: int = 1024
    encoder_layers: int = 12
    decoder_layers: int = 12
    heads: int = 16
    ffn: int = 4096
    positions: int = 1024
    stored_positions: bool = True
    offset: int = 0
    embedding_norm: bool = False
    last_norm: bool = False


VARIANTS = {
    "bart": Variant(offset=2, embedding_norm=True),
    "mvp": Variant(vocab=50267, offset=2, embedding_norm=True),
    "plbart": Variant(
        vocab=50005,
        width=768,
        encoder_layers=6,
        decoder_layers=6,
        heads=12,
        ffn=3072,
        offset=2,
        embedding_norm=True,
    ),
    "mbart": Variant(offset=2, embedding_norm=True, last_norm=True),
    "pegasus": Variant(last_norm=True),
    "marian": Variant(vocab=58101),
    "m2m_100": Variant(vocab=128112, stored_positions=False, last_norm=True),
    "blenderbot": Variant(
        vocab=8008,
        width=2560,
        encoder_layers=2,
        decoder_layers=24,
        heads=32,
        ffn=10240,
        positions=128,
        last_norm=True,
    ),
    "blenderbot-small": Variant(
        width=512,
        encoder_layers=8,
        decoder_layers=8,
        ffn=2048,
        positions=512,
        embedding_norm=True,
    ),
}


@family(
    *VARIANTS,
    architectures=(
        "BartForConditionalGeneration",
        "BartModel",
        "MBartForConditionalGeneration",
        "M2M100ForConditionalGeneration",
        "MarianMTModel",
        "PegasusForConditionalGeneration",
    ),
)
def bart(config: Config) -> ModelShape:
    """Every decoder layer caches its tokens and the encoder's output. Defaults: BartConfig and
    those of its kin.
    """
    return bart_shape(config, "model", VARIANTS.get(config.text("model_type"), VARIANTS["bart"]))


def bart_shape(config: Config, at: str, variant: Variant) -> ModelShape:
    """The model under the path `at`."""
    width = config.integer("d_model", "hidden_size", default=variant.width)
    sizes = {"heads": variant.heads, "ffn": variant.ffn}
    encoder = read_stack(config, "encoder", width, layers=variant.encoder_layers, **sizes)
    decoder = read_stack(config, "decoder", width, layers=variant.decoder_layers, **sizes)
    sides = [
        side for side, has in zip(("encoder", "decoder"), has_sides(config), strict=True) if has
    ]
    vocab = config.integer("vocab_size", default=variant.vocab)
    positions = config.integer("max_position_embeddings", default=variant.positions)
    tied = config.boolean("tie_word_embeddings", default=True)
    weights = [
        Weight(name=f"{at}.shared", shape=(vocab, width), part=Part.EMBEDDING, split=Split.VOCAB),
    ]
    weights += sentence_layer(config, width)
    if not tied:
        weights.append(linear("lm_head", vocab, width, part=Part.HEAD, split=Split.VOCAB))
    for side in sides:
        cross = side == "decoder"
        stack = decoder if cross else encoder
        weights += bart_layers(f"{at}.{side}", stack, width, cross=cross)
        if variant.stored_positions:
            rows = positions + variant.offset
            weights.append(array(f"{at}.{side}.embed_positions", rows, width, part=Part.OTHER))
        if variant.embedding_norm:
            weights.append(vector(f"{at}.{side}.layernorm_embedding", width, bias=True))
        if variant.last_norm:
            weights.append(vector(f"{at}.{side}.layer_norm", width, bias=True))
    return seq2seq_shape(
        config,
        decoder,
        weights,
        width=width,
        vocab=vocab,
        encoder_tokens=positions if "encoder" in sides else 0,
        max_positions=positions,
        tied=tied,
        assumptions=(LONGEST_INPUT.format(tokens=positions),),
    )
