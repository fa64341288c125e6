"""GPU names of real startup logs and of the engine's own plans (origin: ../shared/truth)."""

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.catalog.gpus import gpu_catalogue
from app.errors import UnknownGpu

TRUTH = Path(__file__).resolve().parents[3] / "shared" / "truth"

# Descriptions that name no single product: nothing may be guessed from them.
NO_PRODUCT = {
    "24 GB class (logged 23.65 GiB; type not stated)",
    "AMD (AITER; ~288 GB class)",
    "Apple Silicon (Metal; exact chip not stated)",
    "Ascend NPU (64 GB class die, type per repo)",
    "Ascend NPU 64GB",
    "RTX 5070 Ti 16GB + RTX 5090 D 32GB",
}


def logs() -> list[dict[str, Any]]:
    lines = (TRUTH / "startup-logs.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def spellings(log: dict[str, Any]) -> Iterator[str]:
    """The label and the class, as they stand and without a collector's remark."""
    for label in filter(None, (log["gpu"], log["gpu_class"])):
        yield label
        yield re.sub(r"\(.*\)", "", label.partition("/")[0])


def found(log: dict[str, Any]) -> str | None:
    for name in spellings(log):
        try:
            return gpu_catalogue().find(name).gpu.id
        except UnknownGpu:
            continue
    return None


def test_every_log_that_names_a_product_resolves() -> None:
    unresolved = {log["gpu"] for log in logs() if log["gpu"] and found(log) is None}
    assert unresolved == NO_PRODUCT


def test_totals_that_engines_logged_are_the_catalogues() -> None:
    """Within 1.5 %: totals differ by driver, and an A40's log has the driver's, not CUDA's."""
    checked = 0
    for log in logs():
        logged = log["gpu_memory_gib"]
        if not isinstance(logged, float) or (id_ := found(log)) is None:
            continue
        visible = gpu_catalogue().find(id_).gpu.visible_memory_bytes / 2**30
        assert visible == pytest.approx(logged, rel=0.015), log["id"]
        checked += 1
    assert checked > 45


def test_device_names_of_the_engines_own_plans_resolve() -> None:
    with gzip.open(TRUTH / "vllm-0.33.jsonl.gz", "rt", encoding="utf-8") as lines:
        names = {json.loads(line)["gpu"] for line in lines}
    assert {name: gpu_catalogue().find(name).gpu.id for name in names} == {
        "NVIDIA H100 80GB HBM3": "h100-sxm-80gb",
        "NVIDIA A100-SXM4-80GB": "a100-sxm-80gb",
        "NVIDIA B200": "b200-sxm-180gb",
    }
    for name in names:
        assert gpu_catalogue().find(name).gpu.driver_name == name
