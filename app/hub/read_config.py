"""A model's configuration read through its source, whichever of its files carries it."""

import asyncio
from dataclasses import dataclass
from typing import Any

from app.hub.facts import GgufFile, ModelFiles, Source
from app.hub.mistral_params import config_from_params
from app.hub.source import FileSource, read_json

CONFIG = "config.json"
PARAMS = "params.json"
QUANTIZATION = "hf_quant_config.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Configuration:
    """A config under config.json's names, and what goes with it."""

    config: dict[str, Any]
    quantization: dict[str, Any] | None = None
    is_params_json: bool = False
    gguf: GgufFile | None = None

    def found(
        self,
        *,
        requested_id: str,
        resolved_id: str,
        revision: str,
        commit: str | None,
        source: Source,
        folder: str | None = None,
        stale: bool = False,
        fresh_until: float | None = None,
        notes: tuple[str, ...] = (),
    ) -> ModelFiles:
        """The configuration with where it was found."""
        return ModelFiles(
            requested_id=requested_id,
            resolved_id=resolved_id,
            revision=revision,
            commit=commit,
            source=source,
            config=self.config,
            quantization=self.quantization,
            is_params_json=self.is_params_json,
            gguf=self.gguf,
            folder=folder,
            stale=stale,
            fresh_until=fresh_until,
            notes=notes,
        )


async def read_config(source: FileSource) -> Configuration | None:
    """The configuration in config.json (with hf_quant_config.json) or params.json, else None.

    Both files of a quantised model are asked for at once: one round trip. As in the engines,
    hf_quant_config.json counts only where config.json has no quantization_config of its own.

    Raises:
        KvmathError: the source's own, its refusal of a malformed file, or UnknownArchitecture
            for a params.json that is not understood.
    """
    beside = asyncio.create_task(read_json(source, QUANTIZATION))
    try:
        config = await read_json(source, CONFIG)
        if config is not None:
            own = _states_quantization(config)
            return Configuration(config=config, quantization=None if own else await beside)
    finally:
        beside.cancel()
        await asyncio.gather(beside, return_exceptions=True)
    params = await read_json(source, PARAMS)
    if params is None:
        return None
    return Configuration(config=config_from_params(params), is_params_json=True)


def _states_quantization(config: dict[str, Any]) -> bool:
    text = config.get("text_config")
    nested = text.get("quantization_config") if isinstance(text, dict) else None
    return bool(config.get("quantization_config") or nested)
