"""Which fields of a config decide its shape: what the catalogue keeps and is checked by."""

from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

from app.hub.facts import ModelFiles, WeightFacts
from app.resolve.architectures import shape_from_config

LABELS = ("model_type", "architectures", "torch_dtype", "dtype", "quantization_config")


class _Recorded(Mapping[str, Any]):
    """A mapping that remembers which of its keys were read, nested ones too."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._data = data
        self._nested: dict[str, _Recorded] = {}
        self.read: dict[str, Any] = {}

    def __getitem__(self, key: str) -> Any:
        value = self._data[key]
        if isinstance(value, Mapping) and key != "quantization_config":
            value = self._nested.setdefault(key, _Recorded(value))
        self.read[key] = value
        return value

    def __iter__(self) -> Iterator[str]:
        for key in self._data:
            self[key]
            yield key

    def __len__(self) -> int:
        return len(self._data)

    def kept(self) -> dict[str, Any]:
        """The fields that were read, in the order of the file; nulls too: some switch defaults."""
        fields = {
            key: value.kept() if isinstance(value, _Recorded) else value
            for key in self._data
            if (value := self.read.get(key)) is not None or key in self.read
        }
        return {key: value for key, value in fields.items() if value != {}}


def decisive_fields(config: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a config.json from which the same shape follows.

    Raises:
        InputError: as building the shape does.
    """
    recorded = _Recorded(config)
    shape_from_config(recorded)
    for label in LABELS:
        recorded.get(label)
    return recorded.kept()


def catalogue_entry(files: ModelFiles, weights: WeightFacts, day: date) -> dict[str, Any]:
    """An entry of the catalogue from a model's published files, its aliases left to a person.

    Raises:
        InputError: as building the shape does.
    """
    name, commit = files.resolved_id, files.commit
    here = f"{name} on the Hugging Face Hub"
    facts = decisive_fields(files.config)
    if files.quantization is not None:
        facts["hf_quant_config"] = files.quantization
    count = shape_from_config(files.config).parameters
    sources = {"facts": f"config.json of {here}", "parameters": "counted by kvmath"}
    if sum((weights.elements_by_dtype or {}).values()) == count.total:
        sources["parameters"] = f"the element count that the Hub shows for {name}"
    if weights.total_bytes is not None:
        sources["checkpoint_bytes"] = f"{weights.source} of {here}"
    return {
        "id": name,
        "aliases": [],
        "revision": commit,
        "facts": facts,
        "parameters": {"total": count.total, "active": count.active},
        "checkpoint_bytes": weights.total_bytes,
        "sources": sources,
        "checked": day.isoformat(),
    }


def catalogue_differences(
    facts: Mapping[str, Any], published: Mapping[str, Any], path: str = ""
) -> list[str]:
    """How a published config.json differs from the facts kept of it, one line a field."""
    lines = []
    for key, kept in facts.items():
        name, now = f"{path}{key}", published.get(key)
        if isinstance(kept, Mapping) and isinstance(now, Mapping):
            lines += catalogue_differences(kept, now, f"{name}.")
        elif kept != now:
            lines.append(f"{name}: {kept!r} here, {now!r} on the hub")
    return lines
