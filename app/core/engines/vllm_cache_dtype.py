"""`--kv-cache-dtype` in vLLM 0.33: names, what `auto` becomes, and bytes of one token.

Read in `config/cache.py`, `utils/torch_utils.py` (`resolve_kv_cache_dtype_string`), the attention
layers and the backends' `customize_spec`.
"""

from collections.abc import Mapping
from math import ceil

from app.core.model import ModelShape
from app.errors import InputError

UNQUANTISED = ("auto", "float16", "bfloat16")
FP8 = ("fp8", "fp8_e4m3", "fp8_e5m2")
PER_TOKEN_HEAD = ("int4_per_token_head", "int8_per_token_head", "fp8_per_token_head")
NVFP4 = ("nvfp4", "nvfp4_4over6")
DS_MLA_TOKEN_BYTES = {"fp8_ds_mla": 656, "nvfp4_ds_mla": 352}
"""Packed latents: 512 fp8 + 16 scale + 128 rotary bytes; and the same idea in four bits."""
TURBOQUANT = {
    "turboquant_k8v4": (8, 4),
    "turboquant_4bit_nc": (4, 4),
    "turboquant_k3v4_nc": (3, 4),
    "turboquant_3bit_nc": (3, 3),
}
"""Bits of keys and values; keys of 8 bits are plain fp8."""
NAMES = (*UNQUANTISED, *FP8, *PER_TOKEN_HEAD, *NVFP4, *DS_MLA_TOKEN_BYTES, *TURBOQUANT)
_SPELLINGS = {
    "": "auto",
    "bf16": "bfloat16",
    "fp16": "float16",
    "half": "float16",
    "float8_e4m3fn": "fp8_e4m3",
    "float8_e5m2": "fp8_e5m2",
    "int8": "int8_per_token_head",
    "int4": "int4_per_token_head",
}
_MODELOPT = {"fp8": "fp8_e4m3", "nvfp4": "nvfp4"}


def requested_cache_dtype(name: str) -> str:
    """The engine's own name for what was asked, `InputError` where it offers no such cache."""
    key = name.strip().lower().removeprefix("torch.")
    key = _SPELLINGS.get(key, key)
    if key not in NAMES:
        raise InputError.of(
            "kv_cache_dtype",
            f"vLLM has no cache of type '{name[:40]}'; it has: {', '.join(NAMES)}",
        )
    return key


def checkpoint_cache_dtype(shape: ModelShape) -> str:
    """What `auto` becomes by the checkpoint's own description of its quantisation.

    ModelOpt checkpoints name an algorithm or a scheme; compressed-tensors ones a scheme, which
    ordinary attention layers follow and latent attention does not.
    """
    quantization = shape.quantization
    if not quantization:
        return "auto"
    method = _quant_method(quantization)
    if method.startswith("modelopt"):
        return _modelopt_cache_dtype(quantization)
    if method == "compressed-tensors" and quantization.get("kv_cache_scheme") is not None:
        _check_compressed_tensors(quantization["kv_cache_scheme"])
        return "fp8"
    return "auto"


def stores_cache_scales(shape: ModelShape) -> bool:
    """Whether the checkpoint brings fp8 scales for its cache, which rules out `fp8_e5m2`."""
    quantization = shape.quantization or {}
    method = _quant_method(quantization)
    return (
        method == "fp8"
        or method.startswith("modelopt")
        or (method == "compressed-tensors" and quantization.get("kv_cache_scheme") is not None)
    )


def is_quantised(cache_dtype: str) -> bool:
    """Whether the cache is kept in anything but 16 or 32-bit floats."""
    return cache_dtype not in UNQUANTISED


def head_token_bytes(cache_dtype: str, head_dim: int, v_head_dim: int, element_bytes: int) -> int:
    """Bytes that K and V of one token take in one head, inline scales included.

    `element_bytes` is the model's own precision, for unquantised caches. Per-token-head types add
    one fp32 scale a side; NVFP4 packs two elements a byte and one scale byte per 16; TurboQuant
    adds an fp16 norm to keys below 8 bits and an fp16 scale and offset to values, rounded to even.
    """
    if cache_dtype in UNQUANTISED:
        return (head_dim + v_head_dim) * element_bytes
    if cache_dtype in FP8 or cache_dtype == "fp8_ds_mla":
        return head_dim + v_head_dim
    if cache_dtype == "int4_per_token_head":
        return head_dim // 2 + v_head_dim // 2 + 8
    if cache_dtype in PER_TOKEN_HEAD:
        return head_dim + v_head_dim + 8
    if cache_dtype in NVFP4:
        if head_dim != v_head_dim:
            raise InputError.of(
                "kv_cache_dtype",
                f"vLLM's {cache_dtype} cache needs keys and values of one width; "
                f"here they are {head_dim} and {v_head_dim}",
            )
        return 2 * (head_dim // 2 + head_dim // 16)
    key_bits, value_bits = TURBOQUANT[cache_dtype]
    key = head_dim if key_bits == 8 else ceil(head_dim * key_bits / 8) + 2
    value = ceil(head_dim * value_bits / 8) + 4
    return key + value + (key + value) % 2


def _quant_method(quantization: Mapping[str, object]) -> str:
    """`quant_method`, with the names ModelOpt's own file format lacks (`producer`)."""
    producer = quantization.get("producer")
    inner = quantization.get("quantization")
    if isinstance(producer, Mapping) and producer.get("name") == "modelopt":
        algorithm = inner.get("quant_algo") if isinstance(inner, Mapping) else None
        if algorithm is not None:
            return "modelopt"
    method = quantization.get("quant_method")
    return method.lower().replace("_tensors", "-tensors") if isinstance(method, str) else ""


def _modelopt_cache_dtype(quantization: Mapping[str, object]) -> str:
    inner = quantization.get("quantization")
    places = [inner, quantization] if isinstance(inner, Mapping) else [quantization]
    stated: object = None
    for key in ("kv_cache_scheme", "kv_cache_quant_algo"):
        stated = stated or next((place[key] for place in places if place.get(key)), None)
    if isinstance(stated, Mapping):
        is_float = stated.get("type") == "float"
        if stated.get("dynamic") is False and stated.get("num_bits") == 8 and is_float:
            stated = "fp8"
        elif stated.get("num_bits") == 4 and is_float:
            stated = "nvfp4"
    return _MODELOPT.get(stated.lower(), "auto") if isinstance(stated, str) else "auto"


def _check_compressed_tensors(scheme: object) -> None:
    if (
        not isinstance(scheme, Mapping)
        or scheme.get("type") != "float"
        or scheme.get("num_bits") != 8
        or scheme.get("strategy") not in ("tensor", "attn_head")
        or not scheme.get("symmetric")
    ):
        raise InputError.of(
            "config.quantization_config.kv_cache_scheme",
            "vLLM serves only symmetric 8-bit float caches with one scale a tensor or a head",
        )
