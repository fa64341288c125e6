"""NVIDIA ModelOpt: in config.json, or in hf_quant_config.json with or without its outer object.

Read in vLLM's `modelopt.py`. `exclude_modules` (or `ignore`) are names and wildcards, and a name
also stands for modules that have it further down in their own; mixed precision names a format for
each module, or for one that contains it ("layers.3.ffn.experts").
"""

from collections.abc import Mapping

from app.core.formats import (
    Format,
    awq,
    microscaled,
    per_block,
    per_channel,
    per_tensor,
)
from app.core.module_names import ModuleNames
from app.core.quantization import LANGUAGE, Rule, Scheme
from app.resolve.architectures.fields import Config
from app.resolve.quantization.reading import (
    HEAD,
    group_of,
    left_alone,
    names_in,
    nested,
)

MIXED = "MIXED_PRECISION"
FORMATS = (
    "FP8",
    "FP8_PER_CHANNEL_PER_TOKEN",
    "FP8_PB_WO",
    "FP8_BLOCK_SCALES",
    "NVFP4",
    "NVFP4_AWQ",
    "W4A16_NVFP4",
    "W4A8_NVFP4_FP8",
    "MXFP8",
    "MXFP4",
    "W4A16_MXFP4",
    "W4A8_MXFP4_FP8",
    "INT4_AWQ",
    "W4A16_AWQ",
    "W4A8_AWQ",
    "W8A8_SQ_PER_CHANNEL",
    "INT8",
)


def modelopt(config: Config) -> Scheme:
    """A ModelOpt description. The vision tower and prediction modules are left as they are."""
    inner = config.get("quantization")
    if isinstance(inner, Mapping):
        config = nested(config, inner, "quantization")
    algorithm = config.text("quant_algo").upper()
    if not algorithm:
        return Scheme(name="modelopt", rules=())
    excluded = names_in(config, "exclude_modules", "ignore")
    if algorithm == MIXED:
        rules = layer_rules(config)
        if not rules:
            raise config.fail("quantized_layers", "is missing: what each layer is stored as")
        return Scheme(name="modelopt_mixed", rules=(*left_alone(excluded), *rules))
    notes: tuple[str, ...] = ()
    if not excluded:
        notes = (
            "the quantisation config names no modules that are left alone: "
            "all linear layers but the head are counted as quantised",
        )
    head = () if excluded else (Rule(format=None, parts=HEAD),)
    return Scheme(
        name="modelopt",
        rules=(
            *left_alone(excluded),
            *head,
            Rule(format=algorithm_format(config), parts=LANGUAGE),
        ),
        assumptions=notes,
    )


def layer_rules(config: Config) -> tuple[Rule, ...]:
    """One rule a format of `quantized_layers`."""
    section = config.section("quantized_layers")
    formats: list[Format] = []
    members: dict[tuple[str, str], list[str]] = {}
    for name, described in section.data.items():
        if not isinstance(described, Mapping):
            raise section.fail(name[:60], "must be an object")
        key = (str(described.get("quant_algo")), str(described.get("group_size")))
        known = members.get(key)
        if known is None:
            known = members[key] = []
            formats.append(algorithm_format(nested(section, described, name[:60])))
        known.append(name)
    pairs = zip(formats, members.values(), strict=True)
    return tuple(Rule(format=form, names=ModuleNames(names)) for form, names in pairs)


def algorithm_format(config: Config, key: str = "quant_algo") -> Format:
    """The layout an algorithm's name stands for."""
    name = config.text(key).upper()
    if name not in FORMATS:
        known = ", ".join(FORMATS)
        raise config.fail(key, f"unknown algorithm '{name[:40]}'; known: {known}")
    if "NVFP4" in name:
        weights_only = name.startswith("W4A16")
        group = group_of(config, "group_size", default=16)
        return microscaled("nvfp4", 4, group, global_scales=1 if weights_only else 2)
    if "MXFP4" in name:
        return microscaled("mxfp4", 4, 32)
    if name == "MXFP8":
        return microscaled("mxfp8", 8, 32)
    if name in ("FP8_PB_WO", "FP8_BLOCK_SCALES"):
        block = group_of(config, "group_size", default=128) or 128
        return per_block("fp8", 8, block, block)
    if name == "FP8_PER_CHANNEL_PER_TOKEN":
        return per_channel("fp8", 8)
    if name == "FP8":
        return per_tensor("fp8", 8, static_input=True)
    if "AWQ" in name:
        return awq(4, group_of(config, "group_size", default=128))
    return per_channel("int8", 8)
