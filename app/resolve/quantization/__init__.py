"""From a checkpoint's own description of its quantisation to a scheme.

The description is what config.json has under `quantization_config` (or `compression_config`, or
MLX's `quantization`), or hf_quant_config.json. A method nobody described to us is refused by the
name of its field; it is never guessed.
"""

from collections.abc import Callable, Mapping
from typing import Any

from app.core.quantization import Scheme
from app.resolve.architectures.fields import Config
from app.resolve.quantization.compressed_tensors import compressed_tensors
from app.resolve.quantization.floats import fbgemm_fp8, fp8, mxfp4, ptpc_fp8
from app.resolve.quantization.integers import (
    aqlm,
    auto_round,
    awq,
    bitnet,
    bitsandbytes,
    eetq,
    gptq,
    hqq,
    torchao,
)
from app.resolve.quantization.mlx import mlx
from app.resolve.quantization.modelopt import modelopt
from app.resolve.quantization.quark import quark

Reader = Callable[[Config], Scheme]

METHODS: dict[str, Reader] = {
    "fp8": fp8,
    "deepseek_v4_fp8": fp8,
    "fbgemm_fp8": fbgemm_fp8,
    "ptpc_fp8": ptpc_fp8,
    "mxfp4": mxfp4,
    "gpt_oss_mxfp4": mxfp4,
    "compressed-tensors": compressed_tensors,
    "modelopt": modelopt,
    "modelopt_fp4": modelopt,
    "modelopt_mxfp8": modelopt,
    "modelopt_mixed": modelopt,
    "nvfp4": modelopt,
    "gptq": gptq,
    "gptq_marlin": gptq,
    "auto_gptq": gptq,
    "awq": awq,
    "awq_marlin": awq,
    "auto_awq": awq,
    "auto-round": auto_round,
    "intel/auto-round": auto_round,
    "inc": auto_round,
    "bitsandbytes": bitsandbytes,
    "quark": quark,
    "torchao": torchao,
    "hqq": hqq,
    "eetq": eetq,
    "aqlm": aqlm,
    "bitnet": bitnet,
    "mlx": mlx,
}
_SPELLINGS = {"compressed_tensors": "compressed-tensors", "auto_round": "auto-round"}


def scheme_of(quantization: Mapping[str, Any]) -> Scheme:
    """The scheme a description means.

    Raises:
        InputError: on the field that names an unknown method or format, or can't be.
    """
    config = _config(quantization)
    method = _method(config)
    reader = METHODS.get(method)
    if reader is None:
        known = ", ".join(sorted(METHODS))
        said = f"unknown method '{method[:40]}'" if method else "is missing"
        raise config.fail("quant_method", f"{said}; known: {known}")
    return reader(config)


def method_of(quantization: Mapping[str, Any]) -> str:
    """The method's name, "" where the description does not say."""
    return _method(_config(quantization))


def _config(quantization: Mapping[str, Any]) -> Config:
    return Config(quantization, path=("config", "quantization_config"))


def _method(config: Config) -> str:
    """`quant_method`, or what a description without one must be by the fields it has."""
    stated = config.text("quant_method").lower()
    if stated:
        return _SPELLINGS.get(stated, stated)
    inner = config.get("quantization")
    if config.has("quant_algo") or (isinstance(inner, Mapping) and "quant_algo" in inner):
        return "modelopt"
    if config.has("config_groups"):
        return "compressed-tensors"
    if config.has("load_in_4bit", "load_in_8bit", "_load_in_4bit", "_load_in_8bit"):
        return "bitsandbytes"
    if config.has("w_bit", "q_group_size", "zero_point"):
        return "awq"
    if config.has("desc_act", "damp_percent"):
        return "gptq"
    if config.has("bits", "group_size", "mode"):
        return "mlx"
    return ""
