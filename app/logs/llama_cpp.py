"""llama.cpp's startup lines, of 2024 (`llm_load_tensors`, `llama_new_context_with_model`) and since.

It prints MiB. Buffers are counted by the device they lie on: what the CPU holds is no memory of
the GPU.
"""

from app.logs.arguments import text_of, whole_of
from app.logs.engine import Engine
from app.logs.found import Found, Line, total_of
from app.logs.reading import Failure, Measured, Pool
from app.logs.templates import Size, templates

_LOADERS = ("load_tensors:", "llm_load_tensors:")
_CONTEXTS = (
    "llama_context:", "llama_new_context_with_model:", "sched_reserve:", "llama_init_from_model:",
)  # fmt: skip
_CACHES = ("llama_kv_cache:", "llama_kv_cache_unified:", "llama_kv_cache_init:", "init:")
_READ = templates(
    "build: {version:word} (",
    "system_info: {...}build: {version:word}",
    "Device 0: {gpu:text}, compute capability",
    "using device {device:word} ({gpu:text}) {...}- {free:MiB} MiB free",
    *(f"{at} {{device:word}} model buffer size = {{model_buffer:MiB}} MiB" for at in _LOADERS),
    *(f"{at} {{device:word}} buffer size = {{model_buffer:MiB}} MiB" for at in _LOADERS),
    *(f"{at} {{device:word}} compute buffer size = {{compute:MiB}} MiB" for at in _CONTEXTS),
    *(f"{at} {{device:word}} output buffer size = {{output:MiB}} MiB" for at in _CONTEXTS),
    *(f"{at} {{device:word}} KV buffer size = {{kv_buffer:MiB}} MiB" for at in _CACHES),
    *(
        f"{at} size = {{pool:MiB}} MiB ( {{cells:int}} cells, {{layers:int}} layers, "
        f"{seqs} seqs), K ({{kv_cache_dtype:word}}):"
        for at in _CACHES
        for seqs in ("{pool_seqs:int}/{streams:int}", "{pool_seqs:int}")
    ),
    "KV self size = {old_pool:MiB} MiB, K ({kv_cache_dtype:word}):",
    "llama_memory_recurrent: size = {state:MiB} MiB",
    *(f"{at} n_ctx = {{max_model_len:int}}" for at in _CONTEXTS),
    *(f"{at} n_seq_max = {{sequences:int}}" for at in _CONTEXTS),
    *(f"{at} n_batch = {{max_num_batched_tokens:int}}" for at in _CONTEXTS),
    *(f"{at} n_ubatch = {{ubatch:int}}" for at in _CONTEXTS),
)

_FAILURES: tuple[tuple[Failure, str], ...] = (
    ("out_of_memory", "cudaMalloc failed: out of memory"),
    ("out_of_memory", "failed to allocate buffer for kv cache"),
    ("out_of_memory", "failed to allocate compute buffers"),
    ("out_of_memory", "unable to allocate"),
)

_NAMES = {
    "hf": ("model", text_of),
    "hf_repo": ("model", text_of),
    "m": ("model", text_of),
    "model": ("model", text_of),
    "md": ("draft_model", text_of),
    "model_draft": ("draft_model", text_of),
    "hfd": ("draft_model", text_of),
    "hf_repo_draft": ("draft_model", text_of),
    "c": ("max_model_len", whole_of),
    "ctx_size": ("max_model_len", whole_of),
    "np": ("sequences", whole_of),
    "parallel": ("sequences", whole_of),
    "b": ("max_num_batched_tokens", whole_of),
    "batch_size": ("max_num_batched_tokens", whole_of),
    "ub": ("ubatch", whole_of),
    "ubatch_size": ("ubatch", whole_of),
    "ctk": ("kv_cache_dtype", text_of),
    "cache_type_k": ("kv_cache_dtype", text_of),
}
_HOSTS = ("CPU", "CUDA_Host", "Vulkan_Host", "ROCm_Host", "SYCL_Host", "AMX", "BLAS")


def _measured(found: Found) -> Measured:
    pools = _pools(found)
    cache = (
        total_of(pool.size for pool in pools)
        or found.first("old_pool", Size)
        or total_of(found.every("kv_buffer", Size))
    )
    return Measured(
        free_at_start=found.first("free", Size),
        weights=total_of(found.every("model_buffer", Size)),
        activation=total_of(found.every("compute", Size, but_on=_HOSTS)),
        available_kv=cache,
        available_kv_least=cache,
        state=total_of(found.every("state", Size)),
        kv_tokens=max((pool.tokens for pool in pools), default=None),
        pools=pools,
    )


def _pools(found: Found) -> tuple[Pool, ...]:
    """Caches: a sliding-window model has two. Each stream has its own cells."""
    return tuple(
        Pool(
            tokens=_whole(line, "cells") * max(_whole(line, "streams", 1), 1),
            size=size,
            layers=_whole(line, "layers"),
            streams=max(_whole(line, "streams", 1), 1),
        )
        for line in found.lines.get("pool", [])
        if isinstance(size := line.values["pool"], Size)
    )


def _whole(line: Line, name: str, default: int = 0) -> int:
    value = line.values.get(name, default)
    return value if isinstance(value, int) else default


LLAMA_CPP = Engine(
    name="llama.cpp",
    signatures=(
        "llama_kv_cache", "llama_context:", "llama_model_loader:", "llama_new_context_with_model:",
        "load_tensors:", "llama_memory_recurrent:", "sched_reserve:", "llama-server",
    ),
    read=_READ,
    failures=_FAILURES,
    ends=("MiB", "n_ubatch"),
    starts=("llama_model_loader: loaded meta data", "build: ", "load_tensors: loading model"),
    reprs=(),
    commands=("llama-server ", "llama-cli "),
    names=_NAMES,
    measured=_measured,
    usual={
        "weights": "load_tensors: ... model buffer size = ... MiB",
        "available_kv": "llama_kv_cache: size = ... MiB",
        "activation": "sched_reserve: ... compute buffer size = ... MiB",
    },
)  # fmt: skip
