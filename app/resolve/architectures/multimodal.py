"""How a wrapper is put together: a text model that caches, and towers that only weigh.

Images, video and sound become tokens of the text model, so the cache is the text model's own;
wrappers say where its config is, whose defaults fill it, and what the towers weigh.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from app.core.inventory import Part, Weight
from app.core.model import ModelShape
from app.resolve.architectures import architecture_names, build
from app.resolve.architectures.common_shape import (
    checkpoint_dtype,
    serving_dtype,
    stated_quantization,
)
from app.resolve.architectures.fields import Config

MULTIMODAL = "multimodal"
PREFIX_LM = "prefix_lm"
TIED = "tie_word_embeddings"
TOWER_HEADS = ("num_attention_heads", "num_heads", "vt_num_attention_heads")
DEFAULT_TOWER_HEADS = {"siglip_vision_model": 12, "clip_vision_model": 12}
"""Class defaults of towers that several wrappers share."""


def inner(
    config: Config,
    *names: str,
    model_type: str,
    defaults: Mapping[str, Any] | None = None,
    absent: Mapping[str, Any] | None = None,
    force: bool = False,
) -> Config:
    """The nested object `names`. `defaults` fill what it leaves out; `absent` are what its wrapper
    puts where there is no such object at all. `model_type` is used where it states none, or in any
    case under `force`.
    """
    section = config.section(*names)
    if not config.has(*names):
        defaults = {**(defaults or {}), **(absent or {})}
    return filled(section, model_type=model_type, defaults=defaults, force=force)


def filled(
    section: Config,
    *,
    model_type: str,
    defaults: Mapping[str, Any] | None = None,
    force: bool = False,
) -> Config:
    """`section` with `defaults` where it says nothing (null is something), and never with a task
    head of its own.
    """
    data = {**(defaults or {}), **section.data}
    data["model_type"] = data.get("model_type") or model_type
    data.pop("architectures", None)
    if force:
        data["model_type"] = model_type
    return Config(data, path=section.path, prefix=section.prefix)


def text_model(
    config: Config,
    *names: str,
    prefix: str = "",
    model_type: str = "llama",
    defaults: Mapping[str, Any] | None = None,
    absent: Mapping[str, Any] | None = None,
    force: bool = False,
    tied: bool | None = None,
    hoisted: bool = False,
) -> ModelShape:
    """The text model inside a wrapper; see `inner` for the keywords about its config.

    `prefix` stands before its module names ("language_model."). One that ends within a name
    ("model.language_", for "model.language_model.layers") renames the text model without its head:
    that is the wrapper's own, `lm_head`. The wrapper's own `tie_word_embeddings` wins; where
    it is absent, `tied` is the wrapper class's default (None: the text model's own is used).
    Under `hoisted` the wrapper's counts only where it is true, else the text model's own does.
    """
    section = inner(
        config,
        *(names or ("text_config",)),
        model_type=model_type,
        defaults=defaults,
        absent=absent,
        force=force,
    )
    outer = config.get(TIED)
    if outer is None:
        outer = tied
    if outer is not None and (outer or not hoisted):
        section = section.overlay(**{TIED: outer})
    shape = build(Config(section.data, path=section.path, prefix=prefix))
    return with_head_named(shape, "lm_head") if prefix.endswith("_") else shape


def with_head_named(shape: ModelShape, name: str) -> ModelShape:
    """`shape` with its output matrix under another name."""
    return replace(
        shape,
        weights=tuple(replace(w, name=name) if w.part is Part.HEAD else w for w in shape.weights),
    )


def multimodal(
    config: Config,
    text: ModelShape,
    weights: Iterable[Weight] = (),
    *,
    traits: Iterable[str] = (MULTIMODAL,),
    tower_heads: int | None = None,
    tower_widths: tuple[int, ...] = (),
    assumptions: tuple[str, ...] = (),
) -> ModelShape:
    """The wrapper's shape: the text model's cache, all weights, the outer labels. `tower_heads` is
    the class default of the vision tower's attention heads; `tower_widths` are further numbers
    that tensor parallelism divides in the towers.

    Precision and quantisation are the wrapper's where it states them, else the text model's.
    """
    stored = checkpoint_dtype(config) or text.checkpoint_dtype
    return replace(
        text,
        model_type=config.text("model_type", default=text.model_type),
        architecture=(architecture_names(config) or [""])[0],
        weights=(*text.weights, *weights),
        dtype=serving_dtype(stored),
        checkpoint_dtype=stored,
        quantization=stated_quantization(config) or text.quantization,
        traits=text.traits | frozenset(traits),
        tower_widths=(*text.tower_widths, *_vision_heads(config, tower_heads), *tower_widths),
        assumptions=(*text.assumptions, *assumptions),
    )


def _vision_heads(config: Config, default: int | None) -> tuple[int, ...]:
    """Attention heads of the tower in `vision_config`, where they are stated or known."""
    vision = config.section("vision_config")
    if isinstance(vision.get(*TOWER_HEADS), list):
        return ()
    heads = vision.optional_integer(*TOWER_HEADS)
    if heads is None:
        heads = default or DEFAULT_TOWER_HEADS.get(vision.text("model_type"))
    return () if heads is None else (heads,)
