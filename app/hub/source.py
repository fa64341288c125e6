"""What reading a model needs of wherever its files are: the hub, its local cache or a folder."""

from typing import Any, Protocol

from app.errors import KvmathError
from app.hub.facts import ModelInfo
from app.hub.strict_json import JsonRefused, parse_object


class FileSource(Protocol):
    """The files of one repository at one commit."""

    async def whole(self, name: str) -> bytes | None:
        """A JSON file's content; None where there is no such file.

        Raises:
            JsonTooLarge: it is larger than is read of a JSON file.
        """

    async def span(self, name: str, first: int, last: int) -> bytes | None:
        """Bytes `first` to `last`, both included, fewer at the end of the file.

        None where there is no such file.
        """

    async def info(self) -> ModelInfo | None:
        """What the hub says about the repository, where there is a hub to ask."""

    async def list_files(self) -> tuple[str, ...]:
        """The names of the repository's files."""

    def refuse(self, why: str) -> KvmathError:
        """The error for content that cannot be used; `why` is a whole clause."""


async def read_json(source: FileSource, name: str) -> dict[str, Any] | None:
    """The object in a JSON file, parsed within bounds; None where there is no such file."""
    try:
        content = await source.whole(name)
        return None if content is None else parse_object(content)
    except JsonRefused as refused:
        raise source.refuse(f"{name} {refused}") from None
