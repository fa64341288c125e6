"""SGLang's startup lines, 0.4 to 0.5.23. It prints GB and divides by 2^30."""

from app.logs.arguments import dtype_of, flag_of, share_of, text_of, whole_of
from app.logs.engine import Engine
from app.logs.found import Found, difference, total_of
from app.logs.reading import Failure, Measured, Pool
from app.logs.templates import Size, templates

_READ = templates(
    "Load weight begin. avail mem={free:GB} GB",
    "Load weight end. {...}avail mem={free_after_load:GB} GB, mem usage={weights:GB} GB",
    "Load weight end. {...}avail mem={free_after_load_alone:GB} GB",
    "Using KV cache dtype: torch.{kv_cache_dtype:word}",
    "KV Cache is allocated. {...}#tokens: {pool_tokens:int}, K size: {pool_k:GB} GB, "
    "V size: {pool_v:GB} GB",
    "KV Cache is allocated. {...}#tokens: {latent_tokens:int}, KV size: {latent_size:GB} GB",
    "KV Cache is allocated. K size: {old_k:GB} GB, V size: {old_v:GB} GB",
    "KV cache allocated. {...}#tokens: {latent_tokens:int}, KV size: {latent_size:GB} GB",
    "Use sliding window memory pool. full_layer_tokens={full_tokens:int}, "
    "swa_layer_tokens={window_tokens:int}",
    "Mamba Cache is allocated. max_mamba_cache_size: {state_slots:int}, "
    "conv_state size: {conv:GB} GB, ssm_state size: {ssm:GB} GB",
    "intermediate_ssm_state_cache size: {drafted_ssm:GB} GB intermediate_conv_window_cache size: "
    "{drafted_conv:GB} GB",
    "Memory pool end. avail mem={free_after_pool:GB} GB",
    "Memory profiling: available_gpu_memory={free_in_profile:GB} GB",
    "Capture cuda graph end. {...}mem usage={graphs:GB} GB",
    "Capture npu graph end. {...}mem usage={graphs:GB} GB",
    "Capture target decode CUDA graph end. {...}mem usage={graphs:GB} GB",
    "Capture target verify CUDA graph end. {...}mem usage={graphs:GB} GB",
    "max_total_num_tokens={kv_tokens:int}, chunked_prefill_size={max_num_batched_tokens:int}, "
    "{...}max_running_requests={max_num_seqs:int}, context_len={max_model_len:int}",
    "max_total_num_tokens={kv_tokens:int}",
    "device_name={gpu:word}.json",
    "sglang version {version:word}",
)

_FAILURES: tuple[tuple[Failure, str], ...] = (
    ("no_memory_for_kv_cache", "Not enough memory. Please try to increase --mem-fraction-static"),
    ("out_of_memory", "CUDA out of memory"),
    ("out_of_memory", "torch.OutOfMemoryError"),
)

_NAMES = {
    "model_path": ("model", text_of),
    "model": ("model", text_of),
    "revision": ("revision", text_of),
    "dtype": ("dtype", dtype_of),
    "quantization": ("quantization", text_of),
    "kv_cache_dtype": ("kv_cache_dtype", text_of),
    "tp_size": ("tensor_parallel_size", whole_of),
    "tp": ("tensor_parallel_size", whole_of),
    "tensor_parallel_size": ("tensor_parallel_size", whole_of),
    "pp_size": ("pipeline_parallel_size", whole_of),
    "pp": ("pipeline_parallel_size", whole_of),
    "dp_size": ("data_parallel_size", whole_of),
    "dp": ("data_parallel_size", whole_of),
    "context_length": ("max_model_len", whole_of),
    "max_running_requests": ("max_num_seqs", whole_of),
    "chunked_prefill_size": ("max_num_batched_tokens", whole_of),
    "mem_fraction_static": ("memory_fraction", share_of),
    "page_size": ("block_size", whole_of),
    "disable_cuda_graph": ("enforce_eager", flag_of),
    "speculative_algorithm": ("speculative_method", text_of),
    "speculative_draft_model_path": ("draft_model", text_of),
    "speculative_num_draft_tokens": ("num_speculative_tokens", whole_of),
    "attention_backend": ("attention_backend", text_of),
    "max_loras_per_batch": ("max_loras", whole_of),
    "max_lora_rank": ("max_lora_rank", whole_of),
}


def _measured(found: Found) -> Measured:
    after_load = found.first("free_after_load", Size) or found.first("free_after_load_alone", Size)
    free = found.first("free", Size)
    pools = _pools(found)
    old = found.every("old_k", Size) + found.every("old_v", Size)
    one = pools[0].size if len(pools) == 1 else total_of(old)
    states = ("conv", "ssm", "drafted_ssm", "drafted_conv")
    tokens = found.first("kv_tokens", int) or found.first("full_tokens", int)
    return Measured(
        free_at_start=free,
        free_after_load=after_load,
        weights=found.first("weights", Size) or difference(free, after_load),
        graphs=total_of(found.every("graphs", Size)),
        available_kv=one,
        available_kv_least=one,
        state=total_of(s for name in states if (s := found.first(name, Size)) is not None),
        kv_tokens=tokens or (pools[0].tokens if pools else None),
        state_slots=found.first("state_slots", int),
        pools=pools,
    )


def _pools(found: Found) -> tuple[Pool, ...]:
    """Caches of the first rank; a sliding-window model has two, a draft model its own."""
    halves = zip(found.every("pool_k", Size), found.every("pool_v", Size), strict=True)
    sizes = [total_of(pair) for pair in halves] + found.every("latent_size", Size)
    tokens = found.every("pool_tokens", int) + found.every("latent_tokens", int)
    return tuple(
        Pool(tokens=count, size=size) for count, size in zip(tokens, sizes, strict=True) if size
    )


SGLANG = Engine(
    name="sglang",
    signatures=(
        "ServerArgs(", "sglang", "Load weight end", "Memory pool end", "KV Cache is allocated",
        "max_total_num_tokens=", "mem_fraction_static", "--mem-fraction-static",
    ),
    read=_READ,
    failures=_FAILURES,
    ends=(" GB", "context_len="),
    starts=("server_args=", "Load weight begin"),
    reprs=("server_args=",),
    commands=("sglang.launch_server ", "sglang serve "),
    names=_NAMES,
    measured=_measured,
    usual={
        "free_at_start": "Load weight begin. avail mem=... GB",
        "weights": "Load weight end. ... mem usage=... GB",
        "available_kv": "KV Cache is allocated. #tokens: ..., K size: ... GB, V size: ... GB",
        "kv_tokens": "max_total_num_tokens=...",
    },
)  # fmt: skip
