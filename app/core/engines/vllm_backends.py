"""Which attention backend vLLM 0.33 takes on a CUDA device, and the block sizes it works in.

Read in `platforms/cuda.py` (priorities), `v1/attention/backends/*` (what each declares it
supports) and `fa_utils.py` (FlashAttention versions). Only what decides a block size or a refusal
is kept; kernels are assumed to be installed, and trtllm-gen kernels to be at hand on Blackwell.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from app.core.engines.vllm_cache_dtype import FP8, NVFP4, PER_TOKEN_HEAD, TURBOQUANT, is_quantised
from app.errors import InputError

Role = Literal["decoder", "encoder_only", "cross"]
Capability = tuple[int, int]

FP8_E4M3 = ("fp8", "fp8_e4m3")
FLASHINFER_HEADS = (64, 128, 256, 512)
MLA_HEADS = (320, 512, 576)


@dataclass(frozen=True, slots=True)
class Backend:
    """A backend and its kernels' block sizes; with `any_multiple` every multiple of them too."""

    name: str
    block_sizes: tuple[int, ...] = (16,)
    any_multiple: bool = True

    def accepts(self, block_size: int) -> bool:
        """Whether blocks of this size can be made of whole kernel blocks."""
        return any(block_size % size == 0 for size in self.block_sizes)

    def largest_within(self, block_size: int) -> int:
        """The largest kernel block that fits into `block_size` tokens, else the smallest."""
        if self.any_multiple:
            return max(size * max(1, block_size // size) for size in self.block_sizes)
        fitting = [size for size in self.block_sizes if size <= block_size]
        return max(fitting) if fitting else min(self.block_sizes)


@dataclass(frozen=True, kw_only=True, slots=True)
class Query:
    """What the choice depends on, for one kind of layer."""

    capability: Capability
    cache_dtype: str
    head_dim: int
    v_head_dim: int
    model_head_dim: int
    block_size: int | None = None
    role: Role = "decoder"
    alibi: bool = False
    sinks: bool = False
    prefix_lm: bool = False
    windowed: bool = False
    non_causal: bool = False
    mixed_head_dims: bool = False
    decode_context_parallel: bool = False


@lru_cache(maxsize=4096)
def attention_backend(query: Query) -> Backend:
    """The backend of ordinary attention, the first of the device's priorities that fits.

    Raises `InputError` where none does, or where the one chosen then refuses the cache type.
    """
    if query.v_head_dim != query.head_dim:
        return _diff_kv(query)
    if query.mixed_head_dims and not _flash_attention_4(query.capability):
        return _accepted(_TRITON, query)
    for backend in _candidates(query):
        if _why_not(backend, query) is None:
            return _accepted(backend, query)
    raise _no_backend(query.cache_dtype, query.capability, f"head size {query.head_dim}")


@dataclass(frozen=True, kw_only=True, slots=True)
class LatentQuery:
    """What the choice depends on, for latent attention (MLA)."""

    capability: Capability
    cache_dtype: str
    head_size: int
    qk_nope_head_dim: int
    heads_per_rank: int
    block_size: int | None = None
    sinks: bool = False
    decode_context_parallel: bool = False


@lru_cache(maxsize=1024)
def latent_backend(query: LatentQuery) -> Backend:
    """The backend of dense latent attention."""
    quantised = is_quantised(query.cache_dtype)
    if quantised and query.cache_dtype not in FP8_E4M3:
        raise _no_backend(query.cache_dtype, query.capability, "latent attention (MLA)")
    candidates: list[Backend] = []
    major = query.capability[0]
    if query.head_size in MLA_HEADS:
        if major == 10 and query.qk_nope_head_dim in (64, 128, 192):
            candidates.append(Backend("FLASHINFER_MLA", (32, 64), any_multiple=False))
        if major == 10:
            candidates.append(Backend("CUTLASS_MLA", (128,), any_multiple=False))
        if major == 9 and not quantised:
            candidates.append(Backend("FLASH_ATTN_MLA"))
        if major == 9:
            candidates.append(Backend("FLASHMLA", (64,), any_multiple=False))
    candidates.append(Backend("TRITON_MLA"))
    for backend in candidates:
        if query.block_size is None or backend.accepts(query.block_size):
            if backend.name == "TRITON_MLA" and quantised and query.capability < (8, 9):
                raise _no_fp8("Triton MLA", query.capability)
            return backend
    raise _bad_block_size(query.block_size)


_FLASHMLA_SPARSE = Backend("FLASHMLA_SPARSE", (64,))


@lru_cache(maxsize=1024)
def sparse_latent_backend(query: LatentQuery) -> tuple[Backend, str]:
    """The backend of sparse latent attention (DSA) and the cache type it makes of the one asked:
    FlashMLA serves fp8 in its own packed layout, as SM120 serves everything. Sinks (Hunyuan 4) are
    FlashMLA's alone.
    """
    dtype, major = query.cache_dtype, query.capability[0]
    found = None
    if query.sinks and major in (9, 10) and dtype in ("auto", "fp8", "fp8_ds_mla"):
        return _FLASHMLA_SPARSE, "auto" if dtype == "auto" else "fp8_ds_mla"
    if dtype in ("auto", *FP8_E4M3, "fp8_ds_mla", "nvfp4_ds_mla"):
        if major == 9 and dtype != "nvfp4_ds_mla":
            found = _sparse_on_hopper(query)
        elif major == 10:
            found = _sparse_on_blackwell(query)
        elif major == 12 and dtype != "nvfp4_ds_mla":
            found = Backend("FLASHINFER_MLA_SPARSE_SM120", (64,)), "fp8_ds_mla"
    if found is None:
        raise _no_backend(dtype, query.capability, "sparse latent attention (DSA)")
    return found


def _sparse_on_hopper(query: LatentQuery) -> tuple[Backend, str]:
    dtype = query.cache_dtype
    if dtype == "auto" and not query.decode_context_parallel:
        return Backend("FLASH_ATTN_MLA_SPARSE", (64,)), dtype
    if dtype == "fp8_e4m3" or (dtype == "fp8" and query.head_size == 512):
        return Backend("FLASHINFER_MLA_SPARSE_SM90", (64,)), dtype
    return _FLASHMLA_SPARSE, "auto" if dtype == "auto" else "fp8_ds_mla"


def _sparse_on_blackwell(query: LatentQuery) -> tuple[Backend, str] | None:
    dtype = query.cache_dtype
    rotary = query.head_size == 576
    flashinfer = query.qk_nope_head_dim in ((128, 192) if rotary else (256,))
    many_heads = dtype == "auto" and query.heads_per_rank > 16
    if "ds_mla" not in dtype and flashinfer and not (many_heads and rotary):
        return Backend("FLASHINFER_MLA_SPARSE", (32,)), dtype
    if not rotary or dtype == "fp8_e4m3":
        return None
    return _FLASHMLA_SPARSE, "fp8_ds_mla" if dtype == "fp8" else dtype


_FLASH = "FLASH_ATTN"
_FLASHINFER = Backend("FLASHINFER", (16, 32, 64), any_multiple=False)
_TRITON = Backend("TRITON_ATTN")
_FLEX = Backend("FLEX_ATTENTION")
_TURBOQUANT = Backend("TURBOQUANT", (16, 32, 64, 128), any_multiple=False)
_MIXED_BLACKWELL = Backend("TRITON_FLASHINFER", (64,), any_multiple=False)


def _candidates(query: Query) -> tuple[Backend, ...]:
    flash = Backend(_FLASH, (_flash_block_size(query),))
    if query.capability[0] == 10 and not query.non_causal:
        mixed = (_MIXED_BLACKWELL,) if query.prefix_lm else ()
        return (*mixed, _FLASHINFER, flash, _TRITON, _FLEX, _TURBOQUANT)
    mixed = ()
    if query.capability[0] == 9 and query.prefix_lm:
        mixed = (Backend("TRITON_FLASH_ATTN", flash.block_sizes),)
    return (*mixed, flash, _FLASHINFER, _TRITON, _FLEX, _TURBOQUANT)


def _flash_block_size(query: Query) -> int:
    """FlashAttention 4 reads fp8 caches of 512-wide heads in pages of 64 on Hopper, and has a
    256-wide kernel with pages of 128 on Blackwell.
    """
    if query.capability[0] == 9 and query.cache_dtype in FP8_E4M3 and query.model_head_dim == 512:
        return 64
    if (
        query.capability[0] in (10, 11)
        and query.model_head_dim == 256
        and not (query.sinks or query.prefix_lm or query.decode_context_parallel)
        and not is_quantised(query.cache_dtype)
    ):
        return 128
    return 16


def _why_not(backend: Backend, query: Query) -> str | None:
    if query.block_size is not None and not backend.accepts(query.block_size):
        return "block size"
    if query.decode_context_parallel and backend.name not in (_FLASH, "FLASHINFER"):
        return "decode context parallelism"
    return _RULES[backend.name](query)


def _flash_attention(query: Query) -> str | None:
    version = _flash_version(query)
    limit = 512 if _flash_attention_4(query.capability) else 256
    if query.capability < (8, 0) or query.head_dim % 8 or query.head_dim > limit:
        return "device or head size"
    if query.sinks and _flash_default(query.capability) not in (3, 4):
        return "attention sinks"
    if query.prefix_lm and (
        version != 4 or (is_quantised(query.cache_dtype) and query.capability[0] == 9)
    ):
        return "bidirectional image tokens"
    if is_quantised(query.cache_dtype):
        return None if _flash_reads_fp8(query, version) else "cache type"
    return None


def _flash_reads_fp8(query: Query, version: int) -> bool:
    if query.cache_dtype not in FP8_E4M3:
        return False
    if query.capability[0] == 9:
        return version == 3 or query.head_dim == 512
    return query.capability[0] == 10 and version == 4


def _flashinfer(query: Query) -> str | None:
    if query.role != "decoder" or query.prefix_lm:
        return "attention type"
    if query.head_dim not in FLASHINFER_HEADS or not (8, 0) <= query.capability <= (12, 1):
        return "device or head size"
    if query.sinks and query.capability[0] not in (9, 10, 12):
        return "attention sinks"
    if query.cache_dtype in NVFP4:
        return _flashinfer_nvfp4(query)
    if is_quantised(query.cache_dtype) and query.cache_dtype not in FP8:
        return "cache type"
    return None


def _flashinfer_nvfp4(query: Query) -> str | None:
    if query.capability[0] == 10:
        return None
    if query.capability[0] == 11 or query.cache_dtype != "nvfp4":
        return "cache type"
    return "head size or sinks" if query.head_dim == 64 or query.sinks else None


def _triton(query: Query) -> str | None:
    if query.head_dim < 32:
        return "head size"
    readable = not is_quantised(query.cache_dtype) or query.cache_dtype in (*FP8, *PER_TOKEN_HEAD)
    return None if readable else "cache type"


def _flex(query: Query) -> str | None:
    if query.role == "cross" or query.sinks or is_quantised(query.cache_dtype):
        return "attention type or cache type"
    return None


def _turboquant(query: Query) -> str | None:
    if query.cache_dtype not in TURBOQUANT or query.role != "decoder":
        return "cache type"
    return "windows, sinks or images" if query.windowed or query.sinks or query.prefix_lm else None


def _mixed_hopper(query: Query) -> str | None:
    if query.head_dim not in (256, 512) or query.role != "decoder":
        return "head size"
    if is_quantised(query.cache_dtype):
        version = _flash_version(query)
        return None if _flash_reads_fp8(query, version) else "cache type"
    return None


def _mixed_blackwell(query: Query) -> str | None:
    if query.head_dim not in (256, 512) or query.role != "decoder":
        return "head size"
    if is_quantised(query.cache_dtype) and query.cache_dtype not in FP8:
        return "cache type"
    return None


_RULES = {
    _FLASH: _flash_attention,
    "FLASHINFER": _flashinfer,
    "TRITON_ATTN": _triton,
    "FLEX_ATTENTION": _flex,
    "TURBOQUANT": _turboquant,
    "TRITON_FLASH_ATTN": _mixed_hopper,
    "TRITON_FLASHINFER": _mixed_blackwell,
}


def _flash_attention_4(capability: Capability) -> bool:
    return capability[0] in (9, 10, 11)


def _flash_default(capability: Capability) -> int:
    return {9: 3, 10: 4}.get(capability[0], 2)


def _flash_version(query: Query) -> int:
    """FlashAttention's version for one head size, after its fallbacks."""
    version = _flash_default(query.capability)
    if query.mixed_head_dims and not (
        query.capability[0] == 9 and query.cache_dtype.startswith("fp8")
    ):
        version = 4
    if version == 3 and query.head_dim > 256:
        version = 4
    if version == 4 and query.capability[0] >= 10:
        wide = query.head_dim == 256 and _flash_block_size(query) == 128
        if query.head_dim > 128 and not wide:
            version = 2
    return version


def _diff_kv(query: Query) -> Backend:
    """Keys and values of different widths (MiMo-V2): FlashAttention 3 or 4, else Triton."""
    major, narrow = query.capability[0], query.head_dim <= 128
    widths = (query.head_dim, query.v_head_dim)
    if major != 9 and not (major == 10 and (narrow or widths == (192, 128))):
        return _accepted(Backend("TRITON_ATTN_DIFFKV"), query)
    reads_fp8 = query.cache_dtype in FP8_E4M3 and (major == 9 or narrow)
    if is_quantised(query.cache_dtype) and not reads_fp8:
        raise _no_backend(
            query.cache_dtype, query.capability, "keys and values of different widths"
        )
    return Backend("FLASH_ATTN_DIFFKV")


def _accepted(backend: Backend, query: Query) -> Backend:
    """`backend` unless its own construction refuses the cache type."""
    dtype = query.cache_dtype
    triton = backend.name.startswith("TRITON_ATTN")
    if triton and dtype.startswith("fp8") and query.capability < (8, 9):
        raise _no_fp8("Triton", query.capability)
    if backend.name == "TRITON_ATTN_DIFFKV" and is_quantised(dtype) and dtype not in FP8_E4M3:
        raise _no_backend(dtype, query.capability, "keys and values of different widths")
    if backend.name == _FLASH and query.alibi and is_quantised(dtype):
        raise _no_backend(dtype, query.capability, "ALiBi (it falls back to FlashAttention 2)")
    return backend


def _device(capability: Capability) -> str:
    return f"compute capability {capability[0]}.{capability[1]}"


def _no_fp8(backend: str, capability: Capability) -> InputError:
    return InputError.of(
        "kv_cache_dtype",
        f"vLLM's {backend} attention reads fp8 caches only from compute capability 8.9 on; "
        f"this device has {capability[0]}.{capability[1]}: use bfloat16",
        type="engine_refuses",
    )


def _no_backend(cache_dtype: str, capability: Capability, what: str) -> InputError:
    return InputError.of(
        "kv_cache_dtype",
        f"vLLM has no attention backend for a {cache_dtype} cache with {what} on "
        f"{_device(capability)}",
        type="engine_refuses",
    )


def _bad_block_size(block_size: int | None) -> InputError:
    return InputError.of(
        "block_size",
        f"no attention backend works in blocks of {block_size} tokens",
        type="engine_refuses",
    )
