"""The tables of rotary positions that engines hold, read off a config.

vLLM keeps one table of cosines and sines for each distinct rotary embedding of a model
(`model_executor/layers/rotary_embedding/`): a row a position up to `max_position_embeddings`, as
many columns as the head's rotated width. Linear scaling multiplies the rows, multi-axis positions
(M-RoPE) have four times as many, DeepSeek's YaRN keeps fp32. What is no number here is ignored: a
table is at most a few hundred MiB, and the config's own family has judged its fields already.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from app.core.cache import CachePart, FullAttention, MlaLatent, SlidingWindow
from app.core.model import ModelShape, RotaryTable
from app.resolve.architectures.fields import MAX_COUNT, Config

WITHOUT = frozenset(
    {
        "bart",
        "bloom",
        "gpt2",
        "gpt_bigcode",
        "jamba",
        "kimi_k3",
        "kimi_linear",
        "mpt",
        "nemotron_h",
        "nemotron_h_puzzle",
        "opt",
        "t5",
        "whisper",
    }
)
"""Model types with learned, relative or no positions."""
PARTIAL = {
    "chatglm": 0.5,
    "glm": 0.5,
    "glm4": 0.5,
    "glm4_moe": 0.5,
    "glm4v": 0.5,
    "gpt_neox": 0.25,
    "minimax_m2": 0.5,
    "nemotron": 0.5,
    "persimmon": 0.5,
    "phi": 0.5,
    "qwen3_next": 0.25,
    "stablelm": 0.25,
}
"""Share of a head that is rotated where the config's class says so and the config does not."""
QUARTER_ROTATED = "qwen3_5"
MULTI_AXIS = ("qwen2_vl", "qwen2_5_vl", "qwen2_5_omni", "qwen3_vl", "qwen3_5", "glm4v", "glm_ocr")
MULTI_AXIS_FACTOR = 4
LONGROPE = ("longrope", "su")


def with_rotary_tables(config: Config, shape: ModelShape) -> ModelShape:
    """`shape` with its tables, where it does not have them from the text model inside."""
    if shape.rotary_tables or shape.model_type in WITHOUT or "alibi" in shape.traits:
        return shape
    tables = tuple(dict.fromkeys(_tables(config, shape)))
    return replace(shape, rotary_tables=tables) if tables else shape


def _tables(config: Config, shape: ModelShape) -> Iterator[RotaryTable]:
    positions = shape.max_position_embeddings
    if positions is None:
        return
    scaling = config.get("rope_parameters", "rope_scaling")
    entries = scaling if isinstance(scaling, Mapping) else {}
    nested = any(isinstance(value, Mapping) for value in entries.values())
    for part in dict.fromkeys(part for group in shape.groups for part in group.parts):
        width = _width(part)
        if width is None:
            continue
        own = entries
        if nested:
            inner = entries.get(_layer_type(part))
            own = inner if isinstance(inner, Mapping) else {}
        elif isinstance(part, SlidingWindow) and shape.model_type.startswith("gemma3"):
            own = {}
        yield _table(config, shape, part, own, rows=positions, width=width)


def _layer_type(part: CachePart) -> str:
    return "sliding_attention" if isinstance(part, SlidingWindow) else "full_attention"


def _width(part: CachePart) -> int | None:
    if isinstance(part, MlaLatent):
        return part.qk_rope_head_dim
    return part.head_dim if isinstance(part, FullAttention) else None


def _table(
    config: Config,
    shape: ModelShape,
    part: CachePart,
    scaling: Mapping[str, Any],
    *,
    rows: int,
    width: int,
) -> RotaryTable:
    kind = scaling.get("rope_type", scaling.get("type"))
    factor = _number(scaling.get("factor"), 1.0)
    original = _number(scaling.get("original_max_position_embeddings"), 0.0)
    model_type = shape.model_type
    latent = isinstance(part, MlaLatent)
    if kind == "yarn" and original:
        rows = int(original * factor)
    elif kind == "linear":
        # The length served is already multiplied by the factor where the config states it outside.
        inner = len(config.path) > 1 or model_type.startswith("gemma3")
        rows = int(rows * factor) if inner else rows
    elif kind in LONGROPE:
        long = config.get("max_position_embeddings")
        rows = int(original) + int(_number(long, rows))
    if "mrope_section" in scaling or kind == "mrope" or model_type.startswith(MULTI_AXIS):
        rows *= MULTI_AXIS_FACTOR
    if not latent and kind != "proportional":
        width = int(width * _rotated(config, model_type, scaling))
    return RotaryTable(
        rows=min(max(rows, 0), MAX_COUNT),
        width=max(width, 0),
        fp32=latent and kind in ("yarn", "deepseek_yarn"),
    )


def _rotated(config: Config, model_type: str, scaling: Mapping[str, Any]) -> float:
    """Share of a head's width that is rotated."""
    default = 0.25 if model_type.startswith(QUARTER_ROTATED) else PARTIAL.get(model_type, 1.0)
    stated = scaling.get("partial_rotary_factor")
    if stated is None:
        stated = config.get("partial_rotary_factor", "rotary_pct", "rotary_percent")
    share = _number(stated, default)
    return share if 0 < share <= 1 else default


def _number(value: Any, default: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return default
    return float(value) if 0 < value <= MAX_COUNT else default
