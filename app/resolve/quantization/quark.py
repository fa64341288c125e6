"""AMD Quark: one config for all layers, others by name, and modules that are left out.

Read in vLLM's `quark.py`: names are shell patterns or, behind "re:", regular expressions.
"""

from app.core.formats import (
    Format,
    microscaled,
    packed_groups,
    per_block,
    per_channel,
    per_tensor,
)
from app.core.module_names import ModuleNames
from app.core.quantization import Rule, Scheme
from app.resolve.architectures.fields import Config
from app.resolve.quantization.reading import TRANSFORMER, group_of, left_alone, names_in, objects_in

SIZES = {"fp8_e4m3": 8, "fp8_e5m2": 8, "int8": 8, "uint8": 8, "int4": 4, "uint4": 4, "fp4": 4}
MX_BITS = {"fp4": 4, "fp6_e2m3": 6, "fp6_e3m2": 6}


def quark(config: Config) -> Scheme:
    """A Quark description."""
    own = [
        Rule(format=_format(entry), names=ModuleNames((name,), anywhere=True))
        for name, entry in objects_in(config, "layer_quant_config").items()
    ]
    whole = config.section("global_quant_config")
    rules: list[Rule] = [*left_alone(names_in(config, "exclude")), *own]
    if whole.has("weight"):
        rules.append(Rule(format=_format(whole), parts=TRANSFORMER))
    if not whole.data and not own:
        raise config.fail("global_quant_config", "is missing: what weights are stored as")
    return Scheme(name="quark", rules=tuple(rules))


def _format(config: Config) -> Format | None:
    if not config.has("weight"):
        return None
    stated = config.get("weight")
    weight = config
    if isinstance(stated, list):  # Two steps (fp8 activations over int4): the last is stored.
        entries = [entry for entry in stated if isinstance(entry, dict)]
        if not entries:
            raise config.fail("weight", "must be an object")
        weight = Config(entries[-1], path=(*config.path, "weight"))
    else:
        weight = config.section("weight")
    kind, scheme = weight.text("dtype"), weight.text("qscheme", default="per_tensor")
    group = group_of(weight, "group_size", default=32)
    if kind in MX_BITS:
        if group == 16:
            return microscaled("nvfp4", 4, group, global_scales=1)
        return microscaled(f"mxfp{MX_BITS[kind]}", MX_BITS[kind], group or 32)
    if kind not in SIZES:
        known = ", ".join(sorted({*SIZES, *MX_BITS}))
        raise weight.fail("dtype", f"unknown type '{kind[:40]}'; known: {known}")
    bits = SIZES[kind]
    name = "fp8" if kind.startswith("fp") else f"int{bits}"
    if scheme == "per_tensor":
        return per_tensor(name, bits)
    if scheme == "per_channel":
        return per_channel(name, bits)
    if scheme == "per_block":
        return per_block(name, bits, 128, 128)
    return packed_groups(bits, group, zero_points=kind.startswith("u"), shape_bits=0)
