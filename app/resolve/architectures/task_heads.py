"""Checkpoints that end in something other than a language-model head.

The class name says it: `...ForSequenceClassification` (reward models) has a `score` matrix of
`num_labels` rows in place of the head, `...Model` ends with the last norm. Both are served for
pooling, not for generation. (`GENERATES` lists class names that end alike but do generate.)
`...ForTokenClassification` is as the first, with a bias; so is the first in encoders.
"""

from dataclasses import replace

from app.core.inventory import Part, Weight
from app.core.model import ModelShape
from app.resolve.architectures.common_shape import serving_dtype
from app.resolve.architectures.fields import Config

POOLING = "pooling"
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


def with_task_head(config: Config, shape: ModelShape) -> ModelShape:
    """`shape` with the head its architecture name calls for; unchanged for generation."""
    name = shape.architecture
    if name.endswith("ForSequenceClassification"):
        return _with_score(config, shape, bias=POOLING in shape.traits)
    if name.endswith("ForTokenClassification"):
        return _with_score(config, shape, bias=True)
    if name.endswith(GENERATES):
        return shape
    if name.endswith("Model") and POOLING not in shape.traits:
        return _for_pooling(shape, _without_head(shape))
    return shape


def _for_pooling(shape: ModelShape, weights: tuple[Weight, ...]) -> ModelShape:
    stored = shape.checkpoint_dtype
    return replace(
        shape,
        weights=weights,
        traits=shape.traits | {POOLING},
        dtype=serving_dtype(stored, model_type=shape.model_type, pooling=True),
    )


def _without_head(shape: ModelShape) -> tuple[Weight, ...]:
    return tuple(weight for weight in shape.weights if weight.part is not Part.HEAD)


def _with_score(config: Config, shape: ModelShape, *, bias: bool) -> ModelShape:
    labels = config.data.get("id2label")
    counted = len(labels) if isinstance(labels, dict) and labels else 2
    num_labels = config.integer("num_labels", default=counted)
    score = Weight(
        name="score",
        shape=(num_labels, shape.hidden_size),
        part=Part.OTHER,
        linear=True,
        bias=num_labels if bias else 0,
    )
    pooled = _for_pooling(shape, (*_without_head(shape), score))
    return replace(pooled, tie_word_embeddings=False)
