"""MLX: every linear layer, embedding and router, with overrides by module.

The config's `quantization` has `bits`, `group_size` and `mode`, and under a module's name either
an object with its own or false for one that is left alone.
"""

from collections.abc import Mapping

from app.core.formats import Format, affine_groups, microscaled
from app.core.inventory import Part
from app.core.module_names import ModuleNames
from app.core.quantization import Rule, Scheme
from app.resolve.architectures.fields import Config
from app.resolve.quantization.reading import (
    MAX_NAMES,
    TRANSFORMER,
    bits_of,
    group_of,
    names_prediction,
    nested,
)

ALSO = frozenset((Part.EMBEDDING, Part.ROUTER))
SETTINGS = frozenset(("bits", "group_size", "mode", "quant_method"))
WITHOUT_ENCODERS = TRANSFORMER - {Part.VISION, Part.AUDIO, Part.PROJECTOR}


def mlx(config: Config) -> Scheme:
    """An MLX description. Encoders of other modalities are left alone unless they are named."""
    own: dict[Format | None, list[str]] = {}
    if len(config.data) > MAX_NAMES:
        raise config.fail("quantization", f"has more than {MAX_NAMES} entries")
    for name, value in config.data.items():
        if name in SETTINGS or value is None or value is True:
            continue
        if value is False:
            own.setdefault(None, []).append(name)
        elif isinstance(value, Mapping):
            form = _format(nested(config, {**_defaults(config), **value}, str(name)[:60]))
            own.setdefault(form, []).append(name)
    rules = [Rule(format=form, names=ModuleNames(names), also=ALSO) for form, names in own.items()]
    everything = Rule(format=_format(config), parts=WITHOUT_ENCODERS, also=ALSO)
    return Scheme(
        name="mlx", rules=(*rules, everything), stores_prediction=names_prediction(config.data)
    )


def _defaults(config: Config) -> dict[str, object]:
    return {key: config.data[key] for key in ("bits", "group_size", "mode") if key in config.data}


def _format(config: Config) -> Format:
    mode = config.text("mode", default="affine")
    if mode == "affine":
        group = group_of(config, "group_size", default=64)
        return affine_groups(bits_of(config, "bits"), group)
    sizes = {"mxfp4": (4, 32), "nvfp4": (4, 16), "mxfp8": (8, 32)}
    if mode not in sizes:
        raise config.fail("mode", f"unknown mode '{mode[:40]}'")
    bits, default = sizes[mode]
    return microscaled(mode, bits, group_of(config, "group_size", default=default) or default)
