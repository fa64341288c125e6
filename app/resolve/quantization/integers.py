"""Integer weights: GPTQ, AWQ, AutoRound, bitsandbytes, and smaller methods of the ecosystem.

GPTQ, AWQ and AutoRound work through the language model's layers, so the head and the encoders of
other modalities stay as they are. These tools load models without their prediction modules.
"""

from collections.abc import Mapping

from app.core.formats import (
    Format,
    Tensor,
    bitsandbytes_4bit,
    bitsandbytes_int8,
    codebooks,
    microscaled,
    per_channel,
    per_tensor,
)
from app.core.formats import (
    awq as awq_format,
)
from app.core.formats import (
    gptq as gptq_format,
)
from app.core.module_names import ModuleNames
from app.core.quantization import LANGUAGE, Rule, Scheme
from app.resolve.architectures.fields import Config
from app.resolve.quantization.reading import (
    HEAD,
    MAX_GROUP,
    TRANSFORMER,
    bits_of,
    group_of,
    left_alone,
    names_in,
    names_prediction,
    nested,
    objects_in,
)

UNQUANTISED_BITS = 16


def gptq(config: Config) -> Scheme:
    """`quant_method: gptq`. `dynamic` (GPTQModel) overrides by pattern: "-:" leaves modules alone,
    "+:" or nothing gives them their own bits and group.
    """
    overrides: list[Rule] = []
    for pattern, value in config.section("dynamic").data.items():
        sign, colon, expression = str(pattern).partition(":")
        regex = expression if colon and sign in ("+", "-") else str(pattern)
        names = ModuleNames((f"re:{regex}",))
        if sign == "-" and colon:
            overrides.append(Rule(format=None, names=names))
        elif isinstance(value, Mapping):
            own = nested(config, {**config.data, **value}, "dynamic")
            overrides.append(Rule(format=_gptq_format(own), names=names))
    chosen: ModuleNames | None = None
    inside = config.sequence("modules_in_block_to_quantize")
    if inside:
        flat = [n for entry in inside for n in (entry if isinstance(entry, list) else [entry])]
        if not all(isinstance(name, str) for name in flat):
            raise config.fail("modules_in_block_to_quantize", "must hold names")
        chosen = ModuleNames(flat, anywhere=True)
    rules = [
        *overrides,
        Rule(format=_gptq_format(config), names=chosen, parts=LANGUAGE, in_layers=True),
    ]
    if config.get("lm_head") is True:
        rules.append(Rule(format=_gptq_format(config), parts=HEAD))
    return Scheme(name="gptq", rules=tuple(rules), stores_prediction=False)


def _gptq_format(config: Config) -> Format:
    return gptq_format(
        bits_of(config, "bits"), group_of(config, "group_size", default=128), group_index=True
    )


def awq(config: Config) -> Scheme:
    """`quant_method: awq`."""
    form = awq_format(
        bits_of(config, "bits", "w_bit"),
        group_of(config, "group_size", "q_group_size", default=128),
    )
    return Scheme(
        name="awq",
        rules=(
            *left_alone(names_in(config, "modules_to_not_convert")),
            Rule(format=form, parts=LANGUAGE, in_layers=True),
        ),
        stores_prediction=False,
    )


def auto_round(config: Config) -> Scheme:
    """`quant_method: auto-round`: the layers under `block_name_to_quantize`, with `extra_config`
    for modules of their own; 16 bits there mean that a module is left alone.
    """
    own = [
        Rule(
            format=_auto_round_format(nested(config, {**config.data, **entry.data}, name[:60])),
            names=ModuleNames((name,), anywhere=True),
        )
        for name, entry in objects_in(config, "extra_config").items()
    ]
    blocks = _block_names(config)
    names = ModuleNames([f"{block}*" for block in blocks]) if blocks else None
    everything = Rule(
        format=_auto_round_format(config),
        names=names,
        parts=TRANSFORMER if blocks else LANGUAGE,
        in_layers=True,
    )
    return Scheme(name="auto-round", rules=(*own, everything), stores_prediction=False)


def _block_names(config: Config) -> list[str]:
    stated = names_in(config, "block_name_to_quantize", "to_quant_block_names")
    return [part.strip() for name in stated for part in name.split(",") if part.strip()]


def _auto_round_format(config: Config) -> Format | None:
    bits = config.integer("bits", default=4, maximum=64)
    if bits >= UNQUANTISED_BITS:
        return None
    kind = config.text("data_type", default="int")
    group = group_of(config, "group_size", default=128)
    if kind.startswith("mx_fp"):
        return microscaled(f"mxfp{bits}", bits, group or 32)
    if kind.startswith("nv_fp"):
        return microscaled("nvfp4", bits, group or 16, global_scales=2)
    if kind.startswith("fp"):
        return per_tensor("fp8", bits) if group else per_channel("fp8", bits)
    if not kind.startswith("int"):
        raise config.fail("data_type", f"unknown type '{kind[:40]}'")
    packing = config.text("packing_format", default="auto_round:auto_gptq")
    return gptq_format(bits, group, group_index="awq" not in packing)


def bitsandbytes(config: Config) -> Scheme:
    """`quant_method: bitsandbytes`: every linear layer but `llm_int8_skip_modules`, by default but
    the head.
    """
    if _flag(config, "load_in_4bit", "_load_in_4bit"):
        kind = config.text("bnb_4bit_quant_type", default="fp4")
        if kind not in ("fp4", "nf4"):
            raise config.fail("bnb_4bit_quant_type", "must be fp4 or nf4")
        double = config.boolean("bnb_4bit_use_double_quant", default=False)
        form = bitsandbytes_4bit(kind, nested=double)
    elif _flag(config, "load_in_8bit", "_load_in_8bit"):
        form = bitsandbytes_int8()
    else:
        raise config.fail("load_in_4bit", "neither 4 nor 8 bits are asked for")
    skipped = names_in(config, "llm_int8_skip_modules")
    return Scheme(
        name="bitsandbytes",
        rules=(
            *(left_alone(skipped) or (Rule(format=None, parts=HEAD),)),
            Rule(format=form, parts=TRANSFORMER),
        ),
        stores_prediction=names_prediction(skipped),
    )


def _flag(config: Config, *names: str) -> bool:
    return any(config.boolean(name, default=False) for name in names)


def eetq(config: Config) -> Scheme:
    """`quant_method: eetq`: int8 with a 16-bit scale a row."""
    return _all_but(config, "eetq", per_channel("int8", 8, scale_bits=16), "modules_to_not_convert")


def hqq(config: Config) -> Scheme:
    """`quant_method: hqq`: packed elements, a 16-bit scale and a 16-bit zero a group."""
    inner = config.section("quant_config").section("weight_quant_params")
    described = inner if inner.data else config
    bits = bits_of(described, "nbits")
    group = group_of(described, "group_size", default=64)
    pair = Tensor(bits=2 * 16, columns=group or None)
    form = Format(name=f"int{bits}", tensors=(Tensor(bits=bits), pair))
    return _all_but(config, "hqq", form, "skip_modules")


def aqlm(config: Config) -> Scheme:
    """`quant_method: aqlm`: indices into codebooks."""
    form = codebooks(
        bits_of(config, "nbits_per_codebook", default=16),
        config.integer("num_codebooks", default=1, maximum=64),
        config.integer("in_group_size", default=8, maximum=1024),
        config.integer("out_group_size", default=1, maximum=1024),
    )
    names = [
        name.removesuffix(".weight") for name in names_in(config, "linear_weights_not_to_quantize")
    ]
    return Scheme(
        name="aqlm",
        rules=(*left_alone(names), Rule(format=form, parts=LANGUAGE, in_layers=True)),
        stores_prediction=False,
    )


def bitnet(config: Config) -> Scheme:
    """`quant_method: bitnet`: two bits an element and one scale a matrix."""
    return _all_but(config, "bitnet", per_tensor("int2", 2), "modules_to_not_convert")


TORCHAO = {
    "Int4WeightOnlyConfig": ("int4", 4),
    "Int8WeightOnlyConfig": ("int8", 8),
    "Int8DynamicActivationInt8WeightConfig": ("int8", 8),
    "Int8DynamicActivationInt4WeightConfig": ("int4", 4),
    "Float8WeightOnlyConfig": ("fp8", 8),
    "Float8DynamicActivationFloat8WeightConfig": ("fp8", 8),
    "int4_weight_only": ("int4", 4),
    "int8_weight_only": ("int8", 8),
    "int8_dynamic_activation_int8_weight": ("int8", 8),
    "float8_weight_only": ("fp8", 8),
    "float8_dynamic_activation_float8_weight": ("fp8", 8),
}


def torchao(config: Config) -> Scheme:
    """`quant_method: torchao`: the type by its class or its older short name. Four-bit types have
    a 16-bit scale and a 16-bit zero a group, eight-bit ones a scale a row.
    """
    stated = config.get("quant_type")
    settings = config.section("quant_type_kwargs")
    if isinstance(stated, Mapping):
        kind = config.section("quant_type").section("default")
        stated, settings = kind.text("_type"), kind.section("_data")
    if not isinstance(stated, str) or stated not in TORCHAO:
        raise config.fail("quant_type", f"unknown type; known: {', '.join(sorted(TORCHAO))}")
    name, bits = TORCHAO[stated]
    form = per_channel(name, bits)
    if bits == 4:
        group = settings.integer("group_size", default=128, maximum=MAX_GROUP)
        form = Format(name=name, tensors=(Tensor(bits=4), Tensor(bits=2 * 16, columns=group)))
    return _all_but(config, "torchao", form, "modules_to_not_convert")


def _all_but(config: Config, name: str, form: Format, key: str) -> Scheme:
    """Every linear layer but those listed, by default but the head."""
    return Scheme(
        name=name,
        rules=(
            *(left_alone(names_in(config, key)) or (Rule(format=None, parts=HEAD),)),
            Rule(format=form, parts=TRANSFORMER),
        ),
        stores_prediction=False,
    )
