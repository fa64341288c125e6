"""A checkpoint's index: read whole, or its beginning where it is larger than is read of a JSON file."""

from typing import Any, NamedTuple

from app.hub.source import FileSource
from app.hub.strict_json import JsonRefused, JsonTooLarge, parse_beginning, parse_object

_BEGINNING_BYTES = 64_000


class Index(NamedTuple):
    """What an index says, {} where there is none; `notes` tell that it was not read whole."""

    content: dict[str, Any]
    notes: tuple[str, ...] = ()


async def read_index(source: FileSource, name: str) -> Index:
    """The index in file `name`; of one that is too large, only `metadata`, if it stands first.

    Raises:
        KvmathError: the source's own, or its refusal of a malformed file.
    """
    try:
        try:
            content = await source.whole(name)
            return Index({} if content is None else parse_object(content))
        except JsonTooLarge as too_large:
            notes = (f"{name} {too_large}: only its beginning is read",)
        # A model of 90,000 tensors has an index of 9 MB, which opens with what they take together.
        start = await source.span(name, 0, _BEGINNING_BYTES - 1)
        return Index({"metadata": parse_beginning(start or b"").get("metadata")}, notes)
    except JsonRefused as refused:
        raise source.refuse(f"{name} {refused}") from None
