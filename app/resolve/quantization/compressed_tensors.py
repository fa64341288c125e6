"""compressed-tensors (llm-compressor, RedHatAI, Kimi): groups of targets, each with its format.

Read in vLLM's `compressed_tensors` and the package's `QuantizationArgs`. `ignore` and targets are
module names or patterns behind "re:"; a target may also be a class of modules. A target that names
a module goes before one that names a class.
"""

from app.core.formats import (
    Format,
    microscaled,
    packed_groups,
    per_block,
    per_channel,
    per_tensor,
    plain_elements,
)
from app.core.inventory import Part
from app.core.module_names import ModuleNames
from app.core.quantization import Rule, Scheme
from app.resolve.architectures.fields import MAX_WIDTH, Config
from app.resolve.quantization.reading import (
    TRANSFORMER,
    bits_of,
    group_of,
    left_alone,
    names_in,
    names_prediction,
    objects_in,
)

LINEAR_CLASSES = ("Linear", "ColumnParallelLinear", "RowParallelLinear", "RoutedExperts")
UNQUANTISED = ("dense", "sparse-bitmask")
PACKED_BITS = 8


def compressed_tensors(config: Config) -> Scheme:
    """A compressed-tensors description."""
    layout = config.text("format")
    if layout in ("marlin-24", "sparse-24-bitmask"):
        raise config.fail("format", f"'{layout}' (sparse weights) is not known")
    ignored = names_in(config, "ignore")
    named: list[Rule] = []
    by_class: list[Rule] = []
    for group in objects_in(config, "config_groups").values():
        if not group.has("weights"):
            continue
        form = _format(group.section("weights"), group, group.text("format", default=layout))
        targets = names_in(group, "targets") or ["Linear"]
        modules = [name for name in targets if "." in name or name.startswith(("re:", "lm_head"))]
        if modules:
            named.append(Rule(format=form, names=ModuleNames(modules)))
        if any(name in LINEAR_CLASSES for name in targets):
            by_class.append(Rule(format=form, parts=TRANSFORMER))
        if "Embedding" in targets:
            also = frozenset((Part.EMBEDDING,))
            by_class.append(Rule(format=form, parts=also, also=also))
    return Scheme(
        name="compressed-tensors",
        rules=(
            *left_alone(ignored, anywhere=False),
            *named,
            *by_class,
        ),
        stores_prediction=names_prediction(ignored),
    )


def _format(weights: Config, group: Config, layout: str) -> Format | None:
    if layout in UNQUANTISED:
        return None
    bits = bits_of(weights, "num_bits", default=8)
    size = group_of(weights, "group_size", default=0)
    static = _static_inputs(group)
    if weights.text("type", default="int") == "float":
        return _float(weights, bits, size, layout, static=static)
    name = f"int{bits}"
    symmetric = weights.boolean("symmetric", default=True)
    if layout == "pack-quantized" or bits < PACKED_BITS:
        return packed_groups(
            bits,
            size,
            zero_points=not symmetric,
            group_index=weights.get("actorder") in ("group", True),
        )
    if weights.text("strategy", default="tensor") == "tensor":
        return per_tensor(name, bits, static_input=static)
    return per_channel(name, bits, scale_bits=16, static_input=static)


def _float(weights: Config, bits: int, size: int, layout: str, *, static: bool) -> Format:
    if bits == 4:
        if layout.startswith("mxfp4") or size == 32:
            return microscaled("mxfp4", 4, size or 32)
        return microscaled("nvfp4", 4, size or 16, global_scales=2 if static else 1)
    if bits != 8:
        return plain_elements(f"float{bits}", bits)
    strategy = weights.text("strategy", default="tensor")
    if strategy == "tensor":
        return per_tensor("fp8", 8, static_input=static)
    if strategy == "block":
        block = weights.integers("block_structure", minimum=1, maximum=MAX_WIDTH) or [128, 128]
        if len(block) != 2:
            raise weights.fail("block_structure", "must be two numbers")
        return per_block("fp8", 8, *block)
    if strategy in ("group", "tensor_group"):
        return microscaled("mxfp8", 8, size or 32)
    return per_channel("fp8", 8, scale_bits=16, static_input=static)


def _static_inputs(group: Config) -> bool:
    """Whether a scale of the inputs is stored; NVFP4's inputs are "local": a global scale is."""
    if not group.has("input_activations"):
        return False
    return group.section("input_activations").get("dynamic") in (False, "local", None)
