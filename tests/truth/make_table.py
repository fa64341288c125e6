"""Writes `data/figures.json` from the collection: `python -m tests.truth.make_table`.

Every config gives one run; every model type its widest fp8 run and a run for each device, each
engine argument and each refusal it has in the collection. A config is cut down to the keys without
which something we answer would change.
"""

import copy
import json
from typing import Any

from app.core.engines.vllm_cache_dtype import checkpoint_cache_dtype, stores_cache_scales
from app.core.model import ModelShape
from app.errors import KvmathError
from app.resolve.architectures import shape_from_config
from tests.truth.engine_cache import hold
from tests.truth.outcomes import GOOD
from tests.truth.parameter_counts import our_counts
from tests.truth.shared import config_data, engine_records, parameter_records, shape_of
from tests.truth.table import DATA

ORIGIN = {
    "runs": "vLLM 0.33.0's planning code, run on the published config with a given pool",
    "parameters": "transformers 5.24, models built without weights",
    "configs": "the keys our readers ask for, out of the config published under that name",
}
RUN_KEYS = (
    "gpu",
    "tp",
    "kv_cache_dtype",
    "max_model_len",
    "extra_args",
    "status",
    "request_bytes",
    "request_bytes_by_context",
)
POOL_KEYS = ("num_blocks", "tokens", "concurrency", "auto_fit_max_len")


def answers(data: dict[str, Any]) -> tuple[object, ...] | None:
    """All that we make of a config, None where we refuse it."""
    try:
        shape = shape_from_config(data)
    except KvmathError:
        return None
    return (
        shape.model_type,
        shape.architecture,
        shape.num_hidden_layers,
        shape.hidden_size,
        shape.num_attention_heads,
        shape.groups,
        shape.draft_groups,
        shape.dtype,
        shape.traits,
        shape.tower_widths,
        our_counts(shape),
        checkpoint_cache_dtype(shape),
        stores_cache_scales(shape),
    )


def minimal(data: dict[str, Any]) -> dict[str, Any]:
    """`data` without every key that changes nothing of what we answer."""
    kept = copy.deepcopy(data)
    wanted = answers(kept)
    _cut(kept, kept, wanted)
    return kept


def _cut(root: dict[str, Any], inside: dict[str, Any], wanted: object) -> None:
    for key in list(inside):
        value = inside.pop(key)
        if answers(root) == wanted:
            continue
        inside[key] = value
        if isinstance(value, dict):
            _cut(root, value, wanted)


def run_of(record: dict[str, Any]) -> dict[str, Any]:
    """A record without what follows from its figures."""
    run = {key: record[key] for key in RUN_KEYS if record.get(key) is not None}
    if record["status"] == "error":
        run["error"] = record["error"].split(":")[0]
        return run
    run["budgets"] = {
        budget: {key: pool[key] for key in (*POOL_KEYS, "error") if key in pool}
        for budget, pool in record["budgets"].items()
    }
    for pool in run["budgets"].values():
        if "error" in pool:
            pool["error"] = "does not fit"
    return run


def chosen() -> list[dict[str, Any]]:
    """The records of the table, of those that we answer rightly."""
    kept: dict[tuple[object, ...], dict[str, Any]] = {}
    for record in engine_records():
        if record.get("stripped") or record.get("edited"):
            continue
        shape = shape_of(record["config"])
        if not isinstance(shape, ModelShape) or hold(shape, record)[0] not in GOOD:
            continue
        family = record["model_type"]
        extra = json.dumps(record.get("extra_args"))
        if record["status"] == "error":
            keys = [("refused", family, record["error"][:40], record["gpu"])]
        elif record.get("extra_args"):
            keys = [("argument", family, extra)]
        else:
            keys = [("config", record["config"])]
            if record["kv_cache_dtype"] == "fp8":
                keys = [("fp8", family), ("device", family, record["gpu"])]
        for key in keys:
            before = kept.get(key)
            if before is None or _wider(record) > _wider(before):
                kept[key] = record
    unique = {id(record): record for record in kept.values()}
    return list(unique.values())


def _wider(record: dict[str, Any]) -> tuple[int, int]:
    """For fp8 runs the widest; for a config's own run the longest on one GPU."""
    if record["kv_cache_dtype"] == "fp8":
        return record["tp"], record["max_model_len"]
    return -record["tp"], record["max_model_len"]


def main() -> None:
    """Write the table."""
    configs: dict[str, dict[str, Any]] = {}
    for record in chosen():
        name = record["config"].removesuffix(".json").replace("__", "/")
        entry = configs.setdefault(name, {"file": record["config"], "runs": []})
        entry["runs"].append(run_of(record))
    for record in parameter_records():
        shape = shape_of(record["config"])
        exact = isinstance(shape, ModelShape) and our_counts(shape)["total"] == record["total"]
        if exact:
            name = record["config"].removesuffix(".json").replace("__", "/")
            entry = configs.setdefault(name, {"file": record["config"], "runs": []})
            entry["parameters"] = {"total": record["total"], "active": record["active"]}
    for entry in configs.values():
        entry["config"] = minimal(config_data(entry.pop("file")))
    lines = ",\n".join(
        f"{json.dumps(name)}: {json.dumps(configs[name], sort_keys=True, separators=(',', ':'))}"
        for name in sorted(configs)
    )
    DATA.parent.mkdir(exist_ok=True)
    DATA.write_text(
        f'{{"origin": {json.dumps(ORIGIN)},\n"configs": {{\n{lines}\n}}}}\n', encoding="utf-8"
    )


if __name__ == "__main__":
    main()
