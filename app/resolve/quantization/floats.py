"""Floats of eight and four bits as model makers publish them: fp8, FBGEMM's fp8, MXFP4."""

from app.core.formats import (
    Format,
    fp8_rows_fbgemm,
    microscaled,
    per_block,
    per_channel,
    per_tensor,
)
from app.core.inventory import Part
from app.core.quantization import Rule, Scheme
from app.resolve.architectures.fields import MAX_WIDTH, Config
from app.resolve.quantization.modelopt import algorithm_format, layer_rules
from app.resolve.quantization.reading import HEAD, PREDICTION_LEFT_ALONE, left_alone, names_in

NOT_CONVERTED = ("modules_to_not_convert", "ignored_layers")


def fp8(config: Config) -> Scheme:
    """`quant_method: fp8`: every linear layer but those listed; engines never take the head.

    With blocks (DeepSeek-V3, Qwen3, MiniMax) there is an fp32 scale a block; without, one a
    matrix, and one for its input where activations are static. A checkpoint that ModelOpt changed
    further says so with `quantized_layers` or `moe_quant_algo` (DeepSeek-V4 in NVFP4).
    """
    changed = layer_rules(config)
    if config.has("moe_quant_algo"):
        experts = algorithm_format(config, "moe_quant_algo")
        changed = (*changed, Rule(format=experts, parts=frozenset((Part.ROUTED_EXPERTS,))))
    return Scheme(
        name="fp8",
        rules=(
            *changed,
            *left_alone(names_in(config, *NOT_CONVERTED)),
            Rule(format=None, parts=HEAD),
            PREDICTION_LEFT_ALONE,
            Rule(format=_fp8_format(config)),
        ),
    )


def _fp8_format(config: Config) -> Format:
    static = config.text("activation_scheme", default="dynamic") == "static"
    block = config.integers("weight_block_size", minimum=1, maximum=MAX_WIDTH)
    if block is None:
        return per_tensor("fp8", 8, static_input=static)
    match block:
        case [rows, columns]:
            if rows == 1 and config.text("scale_fmt") == "ue8m0":
                return microscaled("mxfp8", 8, columns)
            return per_block("fp8", 8, rows, columns)
        case _:
            raise config.fail("weight_block_size", "must be two numbers")


def fbgemm_fp8(config: Config) -> Scheme:
    """`quant_method: fbgemm_fp8` (Llama 3.1 405B): a scale a row."""
    return Scheme(
        name="fbgemm_fp8",
        rules=(
            *left_alone(names_in(config, "modules_to_not_convert")),
            Rule(format=None, parts=HEAD),
            Rule(format=fp8_rows_fbgemm()),
        ),
    )


def ptpc_fp8(_: Config) -> Scheme:
    """`quant_method: ptpc_fp8`: a scale a row, activations a scale a token."""
    return Scheme(
        name="ptpc_fp8",
        rules=(Rule(format=None, parts=HEAD), Rule(format=per_channel("fp8", 8))),
    )


def mxfp4(config: Config) -> Scheme:
    """`quant_method: mxfp4` (gpt-oss): the routed experts alone, an 8-bit scale per 32 elements."""
    return Scheme(
        name="mxfp4",
        rules=(
            *left_alone(names_in(config, "modules_to_not_convert")),
            Rule(
                format=microscaled("mxfp4", 4, 32),
                parts=frozenset((Part.ROUTED_EXPERTS,)),
            ),
        ),
    )
