"""DeBERTa 2 and 3: BERT that attends to words and to distances apart from each other."""

from dataclasses import replace

from app.core.inventory import Part, Weight
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_bert import (
    EMBEDDING_NORM,
    Heads,
    encoder_dims,
    encoder_head,
    encoder_shape,
)
from app.resolve.architectures.blocks_encoder import array, conv
from app.resolve.architectures.common_shape import Dims
from app.resolve.architectures.common_weights import linear, vector
from app.resolve.architectures.encoders import BERT
from app.resolve.architectures.fields import Config

DEBERTA = replace(
    BERT, qkvo=("self.query_proj", "self.key_proj", "self.value_proj", "output.dense")
)
TRANSFORM = "cls.predictions.transform"
HEADS = Heads(
    sentence="pooler.dense",
    words=(f"{TRANSFORM}.dense", f"{TRANSFORM}.LayerNorm", "cls.predictions"),
)


@family(
    "deberta-v2",
    architectures=(
        "DebertaV2Model",
        "DebertaV2ForMaskedLM",
        "DebertaV2ForSequenceClassification",
        "DebertaV2ForTokenClassification",
    ),
)
def deberta_v2(config: Config) -> ModelShape:
    """Sees the whole text at once and caches nothing. Defaults: DebertaV2Config."""
    dims = encoder_dims(config, layers=24, hidden=1536, heads=24, intermediate=6144, vocab=128100)
    width = config.integer("embedding_size", default=dims.hidden)
    legacy = config.boolean("legacy", default=True)
    extra = [
        *_embeddings(config, dims, width),
        *_distances(config, dims),
        *encoder_head(config, dims, HEADS, width=width if legacy else None),
    ]
    shape = encoder_shape(config, dims, DEBERTA, extra=extra)
    weights = tuple(
        replace(weight, shape=(dims.vocab, width)) if weight.part is Part.EMBEDDING else weight
        for weight in shape.weights
    )
    return replace(shape, weights=weights)


def _embeddings(config: Config, dims: Dims, width: int) -> list[Weight]:
    """What stands beside the words': positions, token types, a projection, the norm."""
    types = config.integer("type_vocab_size", default=0, minimum=0)
    positions = dims.max_positions or 0
    if not config.boolean("position_biased_input", default=True):
        positions = 0
    tables = (("position_embeddings", positions), ("token_type_embeddings", types))
    weights = [
        array(f"{config.prefix}embeddings.{name}", rows, width, part=Part.OTHER)
        for name, rows in tables
        if rows
    ]
    if width != dims.hidden:
        name = config.prefix + "embeddings.embed_proj"
        weights.append(linear(name, dims.hidden, width, part=Part.OTHER))
    return [*weights, vector(config.prefix + EMBEDDING_NORM, dims.hidden, bias=True)]


def _distances(config: Config, dims: Dims) -> list[Weight]:
    """One table of distances for all layers, a layer's projections of it where it shares none with
    the words', and a convolution after the first layer.
    """
    size, at = dims.hidden, config.prefix + "encoder"
    weights = []
    if config.boolean("relative_attention", default=False):
        furthest = config.integer("max_relative_positions", default=-1, minimum=-1)
        buckets = config.integer("position_buckets", default=-1, minimum=-1)
        rows = buckets if buckets > 0 else furthest if furthest > 0 else dims.max_positions or 0
        weights.append(array(f"{at}.rel_embeddings", 2 * rows, size, part=Part.OTHER))
        if not config.boolean("share_att_key", default=False):
            own = {"c2p": "pos_key_proj", "p2c": "pos_query_proj"}
            inside = f"{DEBERTA.at(config)}.attention.self"
            weights += [
                linear(
                    f"{inside}.{own[kind]}",
                    size,
                    size,
                    part=Part.ATTENTION,
                    layers=dims.all_layers,
                    bias=True,
                )
                for kind in sorted(_kinds(config).intersection(own))
            ]
    if "layer_norm" in _words(config.text("norm_rel_ebd", default="none")):
        weights.append(vector(f"{at}.LayerNorm", size, bias=True))
    kernel = config.integer("conv_kernel_size", default=0, minimum=0, maximum=1024)
    if kernel:
        groups = config.integer("conv_groups", default=1, maximum=size)
        weights.append(conv(f"{at}.conv.conv", size, size // groups, kernel, part=Part.OTHER))
        weights.append(vector(f"{at}.conv.LayerNorm", size, bias=True))
    return weights


def _kinds(config: Config) -> set[str]:
    """`pos_att_type`, a list or "p2c|c2p"."""
    stated = config.get("pos_att_type")
    if isinstance(stated, str):
        return _words(stated)
    return set(config.texts("pos_att_type") or ())


def _words(text: str) -> set[str]:
    return {word.strip() for word in text.lower().split("|")}
