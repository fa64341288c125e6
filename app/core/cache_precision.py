"""In which precision keys and values are cached: engines' own names for it, and what `auto` is."""

from fractions import Fraction

from app.core.cache import MlaLatent
from app.core.engines.vllm_cache_dtype import checkpoint_cache_dtype
from app.core.model import ModelShape
from app.core.precision import FP8_E4M3, INT4, INT8, NVFP4, Precision, precision

_PACKED = {
    "int8_per_token_head": INT8,
    "int4_per_token_head": INT4,
    "fp8_per_token_head": FP8_E4M3,
    "nvfp4_4over6": NVFP4,
    "fp8_ds_mla": FP8_E4M3,
    "nvfp4_ds_mla": NVFP4,
    "turboquant_k8v4": Precision("turboquant_k8v4", Fraction(6)),
    "turboquant_4bit_nc": Precision("turboquant_4bit_nc", Fraction(4)),
    "turboquant_k3v4_nc": Precision("turboquant_k3v4_nc", Fraction(7, 2)),
    "turboquant_3bit_nc": Precision("turboquant_3bit_nc", Fraction(3)),
    "q8_0": Precision("q8_0", Fraction(17, 2)),
    "q5_1": Precision("q5_1", Fraction(6)),
    "q5_0": Precision("q5_0", Fraction(11, 2)),
    "q4_1": Precision("q4_1", Fraction(5)),
    "q4_0": Precision("q4_0", Fraction(9, 2)),
    "iq4_nl": Precision("iq4_nl", Fraction(9, 2)),
}
"""vLLM's packed caches by the mean bits of an element, without their scales; what the engine
reserves for them is worked out in `app.core.engines`, scales included. llama.cpp's by the bits of
an element in blocks of 32, scales included."""


def cache_precision(name: str, shape: ModelShape, computed: Precision) -> Precision:
    """The precision of cached keys and values; `auto` is the checkpoint's own cache scheme, else
    the precision the model computes in.

    Raises:
        InputError: on `kv_cache_dtype` for a precision without a known size.
    """
    if name == "auto":
        own = checkpoint_cache_dtype(shape)
        scheme_for_attention_only = own == "fp8" and _has_latents(shape)
        return computed if own == "auto" or scheme_for_attention_only else precision(own)
    return _PACKED.get(name) or precision(name, field="kv_cache_dtype")


def _has_latents(shape: ModelShape) -> bool:
    return any(isinstance(part, MlaLatent) for group in shape.groups for part in group.parts)
