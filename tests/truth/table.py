"""The committed table: some hundred true figures that tests hold without the collection.

`data/figures.json` holds, for each config, only the keys that our readers ask of it (in our own
small objects, not the published files), its exact parameter counts, and a choice of runs with what
vLLM 0.33.0's own planning code gives for them. `make_table` writes it anew from the collection.
"""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).with_name("data") / "figures.json"


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the engine: a record as `engine_cache` takes it."""

    id: str
    config: str
    record: dict[str, Any]


@cache
def committed() -> dict[str, Any]:
    """The file."""
    return json.loads(DATA.read_text(encoding="utf-8"))


def runs() -> list[Run]:
    """Its runs."""
    found = []
    for config, entry in committed()["configs"].items():
        for record in entry["runs"]:
            extra = "".join(f" {k}={v}" for k, v in (record.get("extra_args") or {}).items())
            name = (
                f"{config} {record['gpu'].split()[1][:4]} tp{record['tp']} "
                f"{record['kv_cache_dtype']} {record['max_model_len']}{extra}"
            )
            found.append(Run(name, config, record))
    return found


def counts() -> list[tuple[str, dict[str, int]]]:
    """Its parameter counts by config."""
    configs = committed()["configs"].items()
    return [(name, entry["parameters"]) for name, entry in configs if "parameters" in entry]


def config_of(name: str) -> dict[str, Any]:
    """A config of the table."""
    return committed()["configs"][name]["config"]
