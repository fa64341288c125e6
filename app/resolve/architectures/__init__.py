"""The registry of model families: which file reads which config.

A family file defines builders and registers them by `model_type` and by architecture class name:

    @family("llama", architectures=("LlamaForCausalLM",))
    def llama(config: Config) -> ModelShape: ...

Every module of this package is imported on first use, so adding a family is adding a file;
`register` takes one from outside. A config is looked up by `model_type` first (as transformers
does), then by its `architectures` (as engines do).
"""

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from app.core.model import ModelShape
from app.errors import UnknownArchitecture
from app.resolve.architectures.fields import Config
from app.resolve.architectures.rotary_tables import with_rotary_tables
from app.resolve.architectures.task_heads import with_task_head

Builder = Callable[[Config], ModelShape]

_BY_MODEL_TYPE: dict[str, Builder] = {}
_BY_ARCHITECTURE: dict[str, Builder] = {}


def register(
    builder: Builder, *, model_types: tuple[str, ...] = (), architectures: tuple[str, ...] = ()
) -> None:
    """Make `builder` answer for these names; a name taken twice is a mistake of ours."""
    for table, names in ((_BY_MODEL_TYPE, model_types), (_BY_ARCHITECTURE, architectures)):
        for name in names:
            if table.get(name, builder) is not builder:
                raise ValueError(f"two families claim {name!r}")
            table[name] = builder


def family(*model_types: str, architectures: tuple[str, ...] = ()) -> Callable[[Builder], Builder]:
    """Decorator form of `register`."""

    def decorate(builder: Builder) -> Builder:
        register(builder, model_types=model_types, architectures=architectures)
        return builder

    return decorate


@cache
def _load_families() -> None:
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")


def known_model_types() -> frozenset[str]:
    """Every `model_type` a family answers for."""
    _load_families()
    return frozenset(_BY_MODEL_TYPE)


def known_architectures() -> frozenset[str]:
    """Every architecture class name a family answers for."""
    _load_families()
    return frozenset(_BY_ARCHITECTURE)


def build(config: Config) -> ModelShape:
    """The shape a config describes; also used by wrappers for the text model inside them.

    Raises `UnknownArchitecture` where no family answers for it, `InputError` where a field of it
    is missing or impossible.
    """
    _load_families()
    model_type = config.text("model_type", default="")
    builder = _BY_MODEL_TYPE.get(model_type)
    names = architecture_names(config)
    if builder is not None:
        return _finished(config, builder(config))
    builder = next((b for n in names if (b := _BY_ARCHITECTURE.get(n))), None)
    if builder is None:
        fields = [name for name in ("model_type", "architectures") if config.has(name)]
        raise UnknownArchitecture(model_type or ", ".join(names) or None, fields)
    shape = _finished(config, builder(config))
    if not model_type:
        return shape
    note = f"model_type {model_type[:64]!r} is not known here: read by its architecture"
    return replace(shape, assumptions=(*shape.assumptions, note))


def _finished(config: Config, shape: ModelShape) -> ModelShape:
    return with_rotary_tables(config, with_task_head(config, shape))


def architecture_names(config: Config) -> list[str]:
    """The class names in `architectures`, if any."""
    return config.texts("architectures") or []


def shape_from_config(data: Mapping[str, Any]) -> ModelShape:
    """`build` for a plain mapping as parsed from config.json."""
    return build(Config(data))
