"""Reading a config.json: many spellings, nulls, and nothing believed.

`Config` is one object of the file. Every getter takes the spellings to try in order (a spelling
present as null counts as absent), a default that is the family's own class default, and bounds;
what it refuses names the field as the caller would find it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from app.errors import InputError

MAX_LAYERS = 4_096
MAX_WIDTH = 2**24
MAX_COUNT = 2**31
MAX_TEXT = 256
"""Characters of a name, which answers repeat; the longest of published configs has 45."""

T = TypeVar("T")


class _Overlaid(Mapping[str, Any]):
    """One mapping over another, without a copy: what is not asked for is not read."""

    __slots__ = ("below", "over")

    def __init__(self, below: Mapping[str, Any], over: Mapping[str, Any]) -> None:
        self.below = below
        self.over = over

    def get(self, key: str, default: Any = None) -> Any:
        return self.over[key] if key in self.over else self.below.get(key, default)

    def __getitem__(self, key: str) -> Any:
        return self.over[key] if key in self.over else self.below[key]

    def __iter__(self) -> Iterator[str]:
        yield from self.over
        yield from (key for key in self.below if key not in self.over)

    def __len__(self) -> int:
        return len({*self.below, *self.over})


_REQUIRED: Any = object()


class Config:
    """One object of a config.json.

    `path` is where it sits in the file (for messages); `prefix` is what the checkpoint's module
    names begin with for the modules this object describes ("language_model.").
    """

    __slots__ = ("data", "path", "prefix")

    def __init__(
        self, data: Mapping[str, Any], *, path: tuple[str, ...] = ("config",), prefix: str = ""
    ) -> None:
        if not isinstance(data, Mapping):
            raise InputError.of(".".join(path), "must be a JSON object", type="dict_type")
        self.data = data
        self.path = path
        self.prefix = prefix

    def fail(self, name: str, rule: str) -> InputError:
        """An error on the field `name` of this object, to be raised."""
        return InputError.of(".".join((*self.path, name)), rule)

    def has(self, *names: str) -> bool:
        """Whether any of the spellings is present and not null."""
        return any(self.data.get(name) is not None for name in names)

    def get(self, *names: str) -> Any:
        """The first spelling that is present and not null, as it stands, else None."""
        for name in names:
            value = self.data.get(name)
            if value is not None:
                return value
        return None

    def integer(
        self,
        *names: str,
        default: int | None = _REQUIRED,
        minimum: int = 1,
        maximum: int = MAX_WIDTH,
    ) -> int:
        """A whole number within bounds; 3.0 is one, digits in a string are none."""
        value = self.optional_integer(*names, minimum=minimum, maximum=maximum)
        if value is not None:
            return value
        if default is _REQUIRED or default is None:
            raise self._missing(names)
        return default

    def optional_integer(
        self, *names: str, minimum: int = 1, maximum: int = MAX_WIDTH
    ) -> int | None:
        """As `integer`, None where it is absent."""
        for name in names:
            value = self.data.get(name)
            if value is not None:
                return self._whole(name, value, minimum, maximum)
        return None

    def number(
        self,
        *names: str,
        default: float,
        minimum: float = 0.0,
        maximum: float = float(MAX_COUNT),
    ) -> float:
        """A finite number within bounds."""
        for name in names:
            value = self.data.get(name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise self.fail(name, "must be a number")
            if not minimum <= value <= maximum:
                raise self.fail(name, f"must be from {minimum:g} to {maximum:g}")
            return float(value)
        return default

    def boolean(self, *names: str, default: bool) -> bool:
        """True or false; 0 and 1 count."""
        for name in names:
            value = self.data.get(name)
            if value is None:
                continue
            if value in (True, False, 0, 1):
                return bool(value)
            raise self.fail(name, "must be true or false")
        return default

    def text(self, *names: str, default: str = "", longest: int = MAX_TEXT) -> str:
        """A string of at most `longest` characters."""
        for name in names:
            value = self.data.get(name)
            if value is None:
                continue
            if not isinstance(value, str):
                raise self.fail(name, "must be a string")
            if len(value) > longest:
                raise self.fail(name, f"is longer than {longest} characters")
            return value
        return default

    def sequence(self, *names: str) -> list[Any] | None:
        """A list, or None where it is absent."""
        for name in names:
            value = self.data.get(name)
            if value is None:
                continue
            if not isinstance(value, Sequence) or isinstance(value, str):
                raise self.fail(name, "must be a list")
            if len(value) > MAX_LAYERS:
                raise self.fail(name, f"has more than {MAX_LAYERS} entries")
            return list(value)
        return None

    def integers(self, *names: str, minimum: int = 0, maximum: int = MAX_WIDTH) -> list[int] | None:
        """A list of whole numbers, or None where it is absent."""
        for name in names:
            values = self.sequence(name)
            if values is not None:
                if (
                    set(map(type, values)) == {int}
                    and minimum <= min(values) <= max(values) <= maximum
                ):
                    return values
                return [self._whole(name, value, minimum, maximum) for value in values]
        return None

    def texts(self, *names: str) -> list[str] | None:
        """A list of strings of at most `MAX_TEXT` characters, or None where it is absent."""
        for name in names:
            values = self.sequence(name)
            if values is not None:
                if not set(map(type, values)) <= {str}:
                    raise self.fail(name, "must be a list of strings")
                if any(len(value) > MAX_TEXT for value in values):
                    raise self.fail(name, f"has an entry of more than {MAX_TEXT} characters")
                return values
        return None

    def per_layer(self, values: list[T], name: str, layers: int) -> list[T]:
        """`values` checked to have one entry a layer; surplus entries (MTP layers) are dropped."""
        if len(values) < layers:
            raise self.fail(name, f"has {len(values)} entries for {layers} layers")
        return values[:layers]

    def section(self, *names: str, prefix: str | None = None) -> "Config":
        """A nested object; an absent one reads as empty, so that class defaults apply."""
        prefix = self.prefix if prefix is None else prefix
        for name in names:
            value = self.data.get(name)
            if value is None:
                continue
            if not isinstance(value, Mapping):
                raise self.fail(name, "must be an object")
            return Config(value, path=(*self.path, name), prefix=prefix)
        return Config({}, path=(*self.path, names[0]), prefix=prefix)

    def overlay(self, **values: Any) -> "Config":
        """The same object with some keys replaced (values a wrapper states for its inner part)."""
        return Config(_Overlaid(self.data, values), path=self.path, prefix=self.prefix)

    def _whole(self, name: str, value: Any, minimum: int, maximum: int) -> int:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.fail(name, "must be a whole number")
        if not minimum <= value <= maximum:
            raise self.fail(name, f"must be from {minimum} to {maximum}")
        return value

    def _missing(self, names: tuple[str, ...]) -> InputError:
        rest = f" (or {', '.join(names[1:])})" if names[1:] else ""
        return self.fail(names[0], f"is missing{rest} and its model type has no default for it")
