"""TensorRT-LLM's startup lines: the C++ executor's and the PyTorch backend's. GiB are GiB."""

from app.logs.arguments import dtype_of, flag_of, share_of, text_of, whole_of
from app.logs.engine import Engine
from app.logs.found import Found
from app.logs.reading import Failure, Measured
from app.logs.templates import Size, templates

_READ = templates(
    "TensorRT-LLM version: {version:word}",
    "TensorRT LLM version: {version:word}",
    "Memory used after loading model weights (inside torch) in memory usage profiling: "
    "{weights:GiB} GiB",
    "Memory used after loading model weights (outside torch) in memory usage profiling: "
    "{outside_after_load:GiB} GiB",
    "Memory dynamically allocated during inference (inside torch) in memory usage profiling: "
    "{activation:GiB} GiB",
    "Memory used outside torch (e.g., NCCL and CUDA graphs) in memory usage profiling: "
    "{non_torch:GiB} GiB",
    "Peak memory during memory usage profiling (torch + non-torch): {peak:GiB} GiB, available KV "
    "cache memory when calculating max tokens: {available:GiB} GiB",
    "fraction is set {memory_fraction:float}, kv size is {kv_bytes_per_token:int}",
    "fraction is set {memory_fraction:float}, kv size per token is {kv_bytes_per_token:int}",
    "device total memory {total:GiB} GiB",
    "Loaded engine size: {engine_size:MiB} MiB",
    "Allocated {execution_context:MiB} MiB for execution context memory",
    "Allocated {execution_context:GiB} GiB for execution context memory",
    "Memory usage when calculating max tokens in paged kv cache: total: {total:GiB} GiB, "
    "available: {free_after_load:GiB} GiB",
    "Number of tokens per block: {block_size:int}",
    "Number of blocks in KV cache primary pool: {num_blocks:int}",
    "primary blocks={num_blocks:int}",
    "Allocated {allocated:GiB} GiB for max tokens in paged KV cache ({kv_tokens:int})",
    "Allocated {allocated:GiB} GiB for max tokens ({kv_tokens:int})",
    "Using {kv_tokens:int} tokens in paged KV cache",
    "max_seq_len={max_model_len:int}, max_num_requests={max_num_seqs:int}, "
    "max_num_tokens={max_num_batched_tokens:int}",
    "TRTGptModel maxBatchSize: {max_num_seqs:int}",
    "TRTGptModel maxNumTokens: {max_num_batched_tokens:int}",
    "TRTGptModel maxSequenceLen: {max_model_len:int}",
)

_FAILURES: tuple[tuple[Failure, str], ...] = (
    ("out_of_memory", "CUDA runtime error in ::cudaMalloc"),
    ("out_of_memory", "CUDA out of memory"),
    ("out_of_memory", "torch.OutOfMemoryError"),
    ("no_memory_for_kv_cache", "No available memory for KV cache"),
)

_NAMES = {
    "": ("model", text_of),
    "model": ("model", text_of),
    "model_path": ("model", text_of),
    "dtype": ("dtype", dtype_of),
    "kv_cache_dtype": ("kv_cache_dtype", text_of),
    "kv_cache_config.dtype": ("kv_cache_dtype", text_of),
    "tp_size": ("tensor_parallel_size", whole_of),
    "tensor_parallel_size": ("tensor_parallel_size", whole_of),
    "pp_size": ("pipeline_parallel_size", whole_of),
    "pipeline_parallel_size": ("pipeline_parallel_size", whole_of),
    "max_seq_len": ("max_model_len", whole_of),
    "max_batch_size": ("max_num_seqs", whole_of),
    "max_num_tokens": ("max_num_batched_tokens", whole_of),
    "kv_cache_free_gpu_memory_fraction": ("memory_fraction", share_of),
    "free_gpu_memory_fraction": ("memory_fraction", share_of),
    "kv_cache_config.free_gpu_memory_fraction": ("memory_fraction", share_of),
    "tokens_per_block": ("block_size", whole_of),
    "kv_cache_config.tokens_per_block": ("block_size", whole_of),
    "enable_block_reuse": ("enable_prefix_caching", flag_of),
    "kv_cache_config.enable_block_reuse": ("enable_prefix_caching", flag_of),
}


def _measured(found: Found) -> Measured:
    # A first, small cache is allocated to profile with: the last line is the one that stays.
    allocated = found.last("allocated", Size)
    available = allocated or found.last("available", Size)
    return Measured(
        total=found.first("total", Size),
        free_after_load=found.last("free_after_load", Size),
        weights=found.first("weights", Size) or found.first("engine_size", Size),
        activation=found.first("activation", Size) or found.first("execution_context", Size),
        non_torch=found.first("non_torch", Size),
        available_kv=available,
        available_kv_least=found.least("available") if allocated is None else allocated,
        kv_tokens=found.last("kv_tokens", int),
        num_blocks=found.last("num_blocks", int),
    )


TENSORRT_LLM = Engine(
    name="tensorrt-llm",
    signatures=("[TensorRT-LLM]", "[TRT-LLM]", "TensorRT-LLM", "tokens in paged KV cache"),
    read=_READ,
    failures=_FAILURES,
    ends=("GiB", "MiB", "paged KV cache", "max_num_tokens="),
    starts=("LLM Args:", "TensorRT-LLM version: "),
    reprs=("LLM Args:", "engine args: "),
    commands=("trtllm-serve serve ", "trtllm-serve "),
    names=_NAMES,
    measured=_measured,
    usual={
        "total": "device total memory ... GiB",
        "weights": "Memory used after loading model weights (inside torch) ...: ... GiB",
        "available_kv": "[MemUsageChange] Allocated ... GiB for max tokens in paged KV cache (...)",
        "kv_tokens": "[MemUsageChange] Allocated ... GiB for max tokens in paged KV cache (...)",
    },
)
