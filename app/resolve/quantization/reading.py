"""What readers of quantisation configs share: lists of modules, and numbers within bounds."""

from collections.abc import Iterable, Mapping
from typing import Any

from app.core.inventory import Part
from app.core.module_names import ModuleNames
from app.core.quantization import Rule
from app.resolve.architectures.fields import Config

MAX_NAMES = 200_000
MAX_BITS = 16
MAX_GROUP = 2**20
HEAD = frozenset((Part.HEAD,))
TRANSFORMER = frozenset(Part) - {Part.MTP}
"""What a tool sees that loads the model without its multi-token prediction."""
PREDICTION_LEFT_ALONE = Rule(
    format=None, names=ModuleNames(("eh_proj", "shared_head.head"), anywhere=True)
)
"""Model code makes these plain linear layers, whatever the method."""


def names_in(config: Config, *keys: str) -> list[str]:
    """The first of the lists of names that is stated; one name alone counts as a list."""
    for key in keys:
        value = config.data.get(key)
        if value is None:
            continue
        names = [value] if isinstance(value, str) else value
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise config.fail(key, "must be a list of strings")
        if len(names) > MAX_NAMES:
            raise config.fail(key, f"has more than {MAX_NAMES} entries")
        return names
    return []


def left_alone(names: list[str], *, anywhere: bool = True) -> tuple[Rule, ...]:
    """The rule for modules that a config leaves as they are; none where it names none."""
    if not names:
        return ()
    return (Rule(format=None, names=ModuleNames(names, anywhere=anywhere)),)


def names_prediction(names: Iterable[str]) -> bool:
    """Whether a list mentions multi-token-prediction modules, so that the tool kept them."""
    return any("mtp" in name.lower() for name in names)


def bits_of(config: Config, *keys: str, default: int = 4) -> int:
    """Bits of an element."""
    return config.integer(*keys, default=default, maximum=MAX_BITS)


def group_of(config: Config, *keys: str, default: int) -> int:
    """Columns a group; -1 and 0 mean a whole row, and come back as 0."""
    size = config.optional_integer(*keys, minimum=-1, maximum=MAX_GROUP)
    return max(default if size is None else size, 0)


def objects_in(config: Config, key: str) -> dict[str, Config]:
    """The named objects of a nested object; entries that are null are left out."""
    section = config.section(key)
    found: dict[str, Config] = {}
    for name, value in section.data.items():
        if value is None:
            continue
        if not isinstance(value, Mapping):
            raise section.fail(str(name)[:60], "must be an object")
        found[str(name)] = Config(value, path=(*section.path, str(name)[:60]))
    if len(found) > MAX_NAMES:
        raise config.fail(key, f"has more than {MAX_NAMES} entries")
    return found


def nested(config: Config, data: Mapping[str, Any], *path: str) -> Config:
    """An object found inside `config`."""
    return Config(data, path=(*config.path, *path))
