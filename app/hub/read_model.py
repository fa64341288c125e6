"""A model's configuration, whichever kind of repository it is in."""

from app.errors import NoModelFiles
from app.hub.gguf_config import config_from_gguf
from app.hub.read_config import Configuration, read_config
from app.hub.read_gguf import GgufLimits, gguf_models, read_gguf
from app.hub.source import FileSource

MAX_NAMED_FILES = 20


async def read_model(
    source: FileSource, repo_id: str, *, gguf_file: str | None, limits: GgufLimits
) -> Configuration:
    """The configuration from config.json, params.json, or a GGUF header.

    A GGUF file is read where it is named, or where it is the only one and there is nothing else:
    of several, none is chosen for the caller.

    Raises:
        NoModelFiles: with the GGUF files to choose from.
        KvmathError: what the source and the formats raise.
    """
    if gguf_file is None:
        configuration = await read_config(source)
        if configuration is not None:
            return configuration
        found = gguf_models(await source.list_files())
        if len(found) != 1:
            raise NoModelFiles(repo_id, found[:MAX_NAMED_FILES])
        gguf_file = found[0]
    gguf = await read_gguf(source, gguf_file, limits)
    if gguf is None:
        found = gguf_models(await source.list_files())
        raise NoModelFiles(repo_id, found[:MAX_NAMED_FILES], missing=gguf_file)
    return Configuration(config=config_from_gguf(gguf.header), gguf=gguf)
