"""Parameters as transformers counts them, of every family it has.

`transformers_counts.jsonl` (text models) and `multimodal_counts.jsonl` (towers, encoder-decoders)
hold configs and the parameters that transformers 5.24 makes of them (`AutoConfig.for_model(**config)`,
the class in `architectures` or the family's own built on the meta device, tied weights counted
once): class defaults, small sizes, each switch turned, each task's class.
"""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from app.errors import KvmathError
from app.resolve.architectures import shape_from_config

TEXT, MULTIMODAL = (
    Path(__file__).with_name(f"{name}_counts.jsonl") for name in ("transformers", "multimodal")
)
HOSTILE: tuple[Any, ...] = (None, -1, 0, 2**63, 1.5, "x", "12", True, [], [None], {}, float("nan"))


def _counted(*files: Path) -> dict[str, list[tuple[dict[str, Any], int]]]:
    by_type = defaultdict(list)
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            by_type[row["config"]["model_type"]].append((row["config"], row["parameters"]))
    return by_type


@pytest.mark.parametrize(("model_type", "rows"), sorted(_counted(TEXT, MULTIMODAL).items()))
def test_parameters_are_those_of_transformers(
    model_type: str, rows: list[tuple[dict[str, Any], int]]
) -> None:
    for config, expected in rows:
        assert shape_from_config(config).parameters.total == expected, (model_type, config)


@pytest.mark.parametrize("model_type", sorted(_counted(TEXT)))
def test_no_value_crashes_a_family(model_type: str) -> None:
    config = dict(_counted(TEXT)[model_type][-1][0])
    for name in config.keys() - {"model_type"}:
        for value in HOSTILE:
            try:
                shape_from_config({**config, name: value})
            except KvmathError:
                continue
