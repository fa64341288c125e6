"""What text encoders share: sizes, embeddings, and what they have on their last layer by the task that
their class's name says. Labels themselves are alike in all families (`task_heads`).
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from app.core.inventory import Part, Weight
from app.core.model import ModelShape
from app.resolve.architectures.common_shape import Dims, read_dims
from app.resolve.architectures.common_weights import linear, vector
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import (
    ENCODER_ONLY,
    EVERY_BIAS,
    Names,
    llama_like,
    position_table,
    uncached,
)
from app.resolve.architectures.task_heads import POOLING, ends

EMBEDDING_NORM = "embeddings.LayerNorm"
WORDS = ("ForMaskedLM", "LMHeadModel", "ForCausalLM")
GENERATING = ("LMHeadModel", "ForCausalLM", "Decoder")
SENTENCES = ("ForSequenceClassification", "ForMultipleChoice", "ForNextSentencePrediction")
TOKENS = ("ForTokenClassification", "ForQuestionAnswering")
PRETRAINING = "ForPreTraining"


@dataclass(frozen=True, kw_only=True, slots=True)
class Heads:
    """Module names: the pooler ("" where the encoder has none), the layer before a sentence's
    labels where there is no pooler, and the layer, norm and bias that predict words.
    """

    pooler: str = ""
    sentence: str = "classifier.dense"
    words: tuple[str, str, str] = ("lm_head.dense", "lm_head.layer_norm", "lm_head")


PREDICTIONS = "cls.predictions"
BERT_HEADS = Heads(
    pooler="pooler.dense",
    words=(f"{PREDICTIONS}.transform.dense", f"{PREDICTIONS}.transform.LayerNorm", PREDICTIONS),
)
ROBERTA_HEADS = Heads(pooler="pooler.dense")


def encoder_head(
    config: Config, dims: Dims, heads: Heads, *, width: int | None = None
) -> list[Weight]:
    """The layer before a sentence's labels; what predicts words (`width` is that of their
    embeddings), to which BERT's pre-training adds the pooler and whether a sentence follows another;
    nothing before the labels of tokens; else the pooler.
    """
    if ends(config, *TOKENS):
        return []
    if ends(config, *SENTENCES):
        return [_dense(config, heads.pooler or heads.sentence, dims.hidden, dims.hidden)]
    pooler = [_dense(config, heads.pooler, dims.hidden, dims.hidden)] if heads.pooler else []
    if ends(config, *WORDS):
        return _words(config, dims, heads, width or dims.hidden)
    if ends(config, PRETRAINING) and heads.pooler:
        words = _words(config, dims, heads, width or dims.hidden)
        return [*pooler, *words, _dense(config, "cls.seq_relationship", 2, dims.hidden)]
    return pooler


def _dense(config: Config, name: str, rows: int, columns: int) -> Weight:
    return linear(config.prefix + name, rows, columns, part=Part.OTHER, bias=True)


def _words(config: Config, dims: Dims, heads: Heads, width: int) -> list[Weight]:
    """A layer, a norm, and a bias on the tied embedding."""
    dense, norm, bias = heads.words
    return [
        _dense(config, dense, width, dims.hidden),
        vector(config.prefix + norm, width, bias=True),
        vector(config.prefix + bias, dims.vocab, part=Part.OTHER),
    ]


def encoder_dims(
    config: Config,
    *,
    layers: int = 12,
    hidden: int = 768,
    heads: int = 12,
    intermediate: int = 3072,
    vocab: int = 30522,
    positions: int = 512,
) -> Dims:
    """The sizes; whatever `tie_word_embeddings` says, there is no head of its own."""
    return read_dims(
        config.overlay(tie_word_embeddings=True),
        layers=layers,
        hidden=hidden,
        heads=heads,
        intermediate=intermediate,
        vocab=vocab,
        max_positions=positions,
    )


def encoder_shape(
    config: Config, dims: Dims, names: Names, *, extra: Iterable[Weight]
) -> ModelShape:
    """An encoder with biases everywhere, which caches nothing; its layers cache where a class that
    generates says `is_decoder`.
    """
    if not (config.boolean("is_decoder", default=False) and ends(config, *GENERATING)):
        traits = (ENCODER_ONLY, POOLING)
        return llama_like(
            config,
            dims,
            names=names,
            groups=uncached(dims),
            **EVERY_BIAS,
            extra=extra,
            traits=traits,
        )
    if config.boolean("add_cross_attention", default=False):
        raise config.fail("add_cross_attention", "looks at an encoder that is not described")
    return llama_like(config, dims, names=names, **EVERY_BIAS, extra=extra)


def embeddings(
    config: Config, dims: Dims, width: int, *, types: int = 2, learned: bool = True
) -> list[Weight]:
    """Positions where they are learned, token types where there are any, and the norm."""
    weights = [vector(config.prefix + EMBEDDING_NORM, width, bias=True)]
    if learned:
        table = position_table(config, dims, "embeddings.position_embeddings")
        weights.append(replace(table, shape=(table.shape[0], width)))
    count = config.integer("type_vocab_size", default=types, minimum=0) if types else 0
    if count:
        name = config.prefix + "embeddings.token_type_embeddings"
        weights.append(Weight(name=name, shape=(count, width), part=Part.OTHER))
    return weights
