"""A caller's `quantization`: what a model would weigh if it were stored so.

Engines leave embeddings, head, norms and routers in the model's precision. What they quantise
while loading (fp8, int8, bitsandbytes) takes every linear layer; what comes as a checkpoint of its
own (AWQ, GPTQ, NVFP4) takes those of the language model's layers.
"""

from app.core.formats import (
    Format,
    awq,
    bitsandbytes_4bit,
    bitsandbytes_int8,
    gptq,
    microscaled,
    packed_groups,
    per_block,
    per_channel,
    per_tensor,
)
from app.core.inventory import Part
from app.core.quantization import LANGUAGE, Rule, Scheme
from app.errors import InputError
from app.resolve.quantization.reading import HEAD, PREDICTION_LEFT_ALONE, TRANSFORMER

EXPERTS = frozenset((Part.ROUTED_EXPERTS,))
WHILE_LOADING: dict[str, Format] = {
    "fp8": per_tensor("fp8", 8),
    "fp8_per_tensor": per_tensor("fp8", 8),
    "fp8_per_channel": per_channel("fp8", 8),
    "ptpc_fp8": per_channel("fp8", 8),
    "fbgemm_fp8": per_channel("fp8", 8),
    "fp8_per_block": per_block("fp8", 8, 128, 128),
    "fp8_block": per_block("fp8", 8, 128, 128),
    "int8": per_channel("int8", 8),
    "w8a8": per_channel("int8", 8),
    "int8_per_channel_weight_only": per_channel("int8", 8),
    "mxfp8": microscaled("mxfp8", 8, 32),
    "bitsandbytes": bitsandbytes_4bit("nf4", nested=False),
    "nf4": bitsandbytes_4bit("nf4", nested=False),
    "fp4": bitsandbytes_4bit("fp4", nested=False),
    "bitsandbytes_int8": bitsandbytes_int8(),
    "llm_int8": bitsandbytes_int8(),
}
AS_A_CHECKPOINT: dict[str, Format] = {
    "awq": awq(4, 128),
    "gptq": gptq(4, 128),
    "gptq_int8": gptq(8, 128),
    "int4": packed_groups(4, 128),
    "w4a16": packed_groups(4, 128),
    "nvfp4": microscaled("nvfp4", 4, 16, global_scales=2),
    "modelopt_fp4": microscaled("nvfp4", 4, 16, global_scales=2),
    "mxfp4": microscaled("mxfp4", 4, 32),
}
OF_EXPERTS: dict[str, Format] = {"experts_int8": per_channel("int8", 8)}
_SPELLINGS = {
    "awq_marlin": "awq",
    "gptq_marlin": "gptq",
    "bnb": "bitsandbytes",
    "bitsandbytes_nf4": "nf4",
    "bitsandbytes_4bit": "bitsandbytes",
    "bitsandbytes_8bit": "bitsandbytes_int8",
    "float8": "fp8",
    "fp8_e4m3": "fp8",
}
NONE = "none"


def requested_name(quantization: str) -> str:
    """The request in one spelling."""
    name = quantization.strip().lower().replace("-", "_")
    return _SPELLINGS.get(name, name)


def requested_scheme(name: str, kept: str) -> Scheme:
    """The scheme of a request; `kept` names the precision of what stays as it is.

    Raises:
        InputError: on `quantization` for a name nobody described to us.
    """
    if name == NONE:
        return Scheme(name=NONE, rules=())
    if name in OF_EXPERTS:
        rule, what = Rule(format=OF_EXPERTS[name], parts=EXPERTS), "routed experts"
    elif name in WHILE_LOADING:
        rule = Rule(format=WHILE_LOADING[name], parts=TRANSFORMER)
        what = "all linear layers"
    elif name in AS_A_CHECKPOINT:
        rule = Rule(format=AS_A_CHECKPOINT[name], parts=LANGUAGE, in_layers=True)
        what = "the linear layers of the language model"
    else:
        known = ", ".join(sorted({*WHILE_LOADING, *AS_A_CHECKPOINT, *OF_EXPERTS, NONE}))
        raise InputError.of("quantization", f"unknown quantisation '{name[:40]}'; known: {known}")
    note = f"quantization={name}: {what} are counted in it; embeddings, head, norms and routers "
    return Scheme(
        name=name,
        rules=(Rule(format=None, parts=HEAD), PREDICTION_LEFT_ALONE, rule),
        assumptions=(f"{note}in {kept}",),
    )
