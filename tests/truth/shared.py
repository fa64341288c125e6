"""The collection of truths beside the repository (`../shared/truth`), where there is one."""

import gzip
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from app.core.hardware import Gpu
from app.core.model import ModelShape
from app.errors import KvmathError
from app.resolve.architectures import shape_from_config

ROOT = Path(__file__).resolve().parents[2]
TRUTH = ROOT.parent / "shared" / "truth"

_H100, _A100, _B200 = "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB", "NVIDIA B200"
GPUS = {
    name: Gpu(
        id=name,
        name=name,
        driver_name=name,
        vendor="NVIDIA",
        memory_bytes=memory * 10**9,
        compute_capability=capability,
    )
    for name, memory, capability in (
        (_H100, 80, (9, 0)),
        (_A100, 80, (8, 0)),
        (_B200, 180, (10, 0)),
    )
}
"""What the engine's defaults ask of the devices that records were made for."""


def engine_records() -> Iterator[dict[str, Any]]:
    """Records of vLLM 0.33.0's own planning, one for each run."""
    with gzip.open(TRUTH / "vllm-0.33.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def parameter_records() -> Iterator[dict[str, Any]]:
    """Exact parameter counts, one a model."""
    with (TRUTH / "parameters.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


@cache
def config_data(name: str, stripped: tuple[str, ...] = ()) -> dict[str, Any]:
    """A published config, with ModelOpt's separate file where the config itself lacks one, and
    without the keys that the record was made without.
    """
    path = TRUTH / "configs" / name
    data = json.loads(path.read_text(encoding="utf-8"))
    quantization = path.with_suffix(".hf_quant_config.json")
    if "quantization_config" not in data and quantization.exists():
        data["quantization_config"] = json.loads(quantization.read_text(encoding="utf-8"))
    return {key: value for key, value in data.items() if key not in stripped}


@cache
def shape_of(name: str, stripped: tuple[str, ...] = ()) -> ModelShape | KvmathError:
    """The shape of a published config, or why there is none."""
    try:
        return shape_from_config(config_data(name, stripped))
    except KvmathError as error:
        return error
