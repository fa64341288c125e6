"""The longest sequence a config declares, as engines derive it.

The smallest of the lengths the config states (`model_max_length` wins over them all), times the
factor of a rotary scaling that extends it (linear, dynamic; yarn and its kin already state the
extended length). LongRoPE models are served at their original length unless told otherwise.
Engines look at the outermost object's scaling only, and not at Gemma 3's.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from app.resolve.architectures.fields import MAX_COUNT, Config

LENGTHS = (
    "max_seq_len",
    "seq_length",
    "max_target_positions",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
)
ALREADY_EXTENDED = frozenset(
    {"su", "longrope", "llama3", "yarn", "deepseek_yarn", "deepseek_llama_scaling"}
)
ORIGINAL = "original_max_position_embeddings"


def native_length(
    config: Config, positions: int | None, *, original: int | None = None
) -> int | None:
    """The derived length; `positions` is what the config's own position count (or its class's
    default) says, `original` the class's default of `original_max_position_embeddings`.
    """
    stated = [
        size
        for name in LENGTHS
        if name in config.data
        and (size := config.optional_integer(name, maximum=MAX_COUNT)) is not None
    ]
    if positions is not None:
        stated.append(positions)
    length = config.optional_integer("model_max_length", maximum=MAX_COUNT)
    if length is None:
        if not stated:
            return None
        length = min(stated)
    inner = len(config.path) > 1
    if inner or "gemma3" in config.text("model_type"):
        return length
    kinds = set()
    factor = 1.0
    for kind, value in _rope_scalings(config):
        kinds.add(kind)
        if kind not in ALREADY_EXTENDED:
            factor = value or factor
    if kinds & {"longrope", "su"}:
        return config.optional_integer(ORIGINAL, maximum=MAX_COUNT) or original or length
    return int(length * factor)


def _rope_scalings(config: Config) -> Iterator[tuple[str, float | None]]:
    scaling = config.get("rope_parameters", "rope_scaling")
    if not isinstance(scaling, Mapping):
        return
    flat = not scaling or any(not isinstance(value, Mapping) for value in scaling.values())
    for entry in [scaling] if flat else scaling.values():
        yield _kind(entry), _factor(config, entry)


def _kind(entry: Mapping[str, Any]) -> str:
    kind = entry.get("rope_type", entry.get("type"))
    return kind if isinstance(kind, str) else "default"


def _factor(config: Config, entry: Mapping[str, Any]) -> float | None:
    factor = entry.get("factor")
    if factor is None:
        return None
    rope = Config(entry, path=(*config.path, "rope_scaling"))
    return rope.number("factor", default=1.0, minimum=1e-6, maximum=1e6)
