"""Checkpoints that end in something other than a language-model head.

The class name says it: `...ForSequenceClassification` (reward models) has a `score` matrix of
`num_labels` rows in place of the head, `...Model` ends with the last norm. Both are served for
pooling, not for generation. (`GENERATES` lists class names that end alike but do generate.)
The other tasks of `LABELS` are as the first, with a bias; so is the first in encoders
and encoder-decoders.
"""

from dataclasses import replace

from app.core.inventory import Part, Split, Weight
from app.core.model import ModelShape
from app.resolve.architectures.common_shape import serving_dtype
from app.resolve.architectures.fields import Config

POOLING = "pooling"
ENCODER_DECODER = "encoder_decoder"
SENTENCE = "ForSequenceClassification"
LABELS = {
    SENTENCE: None,
    "ForTokenClassification": None,
    "ForQuestionAnswering": 2,
    "ForMultipleChoice": 1,
    "ForNextSentencePrediction": 2,
}
"""Rows by task: None is the config's number of labels; an answer has a start and an end."""
GENERATES = (
    "LMHeadModel",
    "MTModel",
    "ChatModel",
    "ChatGLMModel",
    "AquilaModel",
    "InfiMMZephyrModel",
    "MiDashengLMModel",
    "MossAudioModel",
    "NVLM_D_Model",
    "Qwen2_5OmniModel",
    "UltravoxModel",
)


def ends(config: Config, *suffixes: str) -> bool:
    """Whether a class name of the config ends in one of `suffixes`."""
    return any(name.endswith(suffixes) for name in config.texts("architectures") or ())


def with_task_head(config: Config, shape: ModelShape) -> ModelShape:
    """`shape` with the head its architecture name calls for; unchanged for generation."""
    name = shape.architecture
    task = next((task for task in LABELS if name.endswith(task)), None)
    if task is not None:
        bias = task != SENTENCE or not shape.traits.isdisjoint((POOLING, ENCODER_DECODER))
        return _with_score(config, shape, LABELS[task], bias=bias)
    if name.endswith(GENERATES):
        return shape
    if name.endswith("Model") and POOLING not in shape.traits:
        return for_pooling(shape)
    return shape


def for_pooling(shape: ModelShape) -> ModelShape:
    """`shape` up to its last norm."""
    return _for_pooling(shape, _without_head(shape))


def _for_pooling(shape: ModelShape, weights: tuple[Weight, ...]) -> ModelShape:
    stored = shape.checkpoint_dtype
    return replace(
        shape,
        weights=weights,
        traits=shape.traits | {POOLING},
        dtype=serving_dtype(stored, model_type=shape.model_type, pooling=True),
    )


def _without_head(shape: ModelShape) -> tuple[Weight, ...]:
    return tuple(weight for weight in shape.weights if not _of_head(weight))


def _of_head(weight: Weight) -> bool:
    """The head, or the bias of a tied one: of what else there is only that has a row a word."""
    return weight.part is Part.HEAD or (weight.part, weight.split) == (Part.OTHER, Split.VOCAB)


def label_count(config: Config) -> int:
    """How many labels a classifier gives."""
    labels = config.data.get("id2label")
    counted = len(labels) if isinstance(labels, dict) and labels else 2
    return config.integer("num_labels", default=counted)


def _with_score(config: Config, shape: ModelShape, rows: int | None, *, bias: bool) -> ModelShape:
    if rows is None:
        rows = label_count(config)
    score = Weight(
        name="score",
        shape=(rows, shape.hidden_size),
        part=Part.OTHER,
        linear=True,
        bias=rows if bias else 0,
    )
    pooled = _for_pooling(shape, (*_without_head(shape), score))
    return replace(pooled, tie_word_embeddings=False)
