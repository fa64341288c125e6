"""vLLM's startup lines, versions 0.2 to 0.33, of both engines (V0 and V1).

Every figure is of one GPU. `Loading model weights took ... GB` divides by 2^30 like the rest; only
versions up to 0.3 print MB, of 2^20 bytes. Templates name the versions whose source has them.
"""

from app.logs.arguments import dtype_of, flag_of, share_of, text_of, whole_of
from app.logs.engine import Engine
from app.logs.found import Found, difference
from app.logs.reading import Failure, Measured
from app.logs.templates import Size, templates

_READ = templates(
    # The engine and its settings
    "LLM engine (v{version:word}) with config",
    "vLLM API server version {version:word}",
    "vLLM server version {version:word}, serving model {model:word}",
    "Using max model len {max_model_len:int}",
    "Chunked prefill is enabled with max_num_batched_tokens={max_num_batched_tokens:int}",
    "Using {attention_backend:word} attention backend",
    "Using {attention_backend:word} backend out of potential backends",
    "Resolved `--kv-cache-dtype auto` to `{kv_cache_dtype:word}`",
    "device_name={gpu:word}.json",
    # The GPU and the share of it: 0.6 (one line), 0.6.4 to 0.10 (V0), V1 in debug logs, from 0.10.2
    "total_gpu_memory={total:GiB}GiB",
    "initial_memory_usage={used_at_start:GiB}GiB",
    "gpu_memory_utilization={gpu_memory_utilization:float} ",
    "can use total_gpu_memory ({total:GiB}GiB) x gpu_memory_utilization "
    "({gpu_memory_utilization:float}) = {requested:GiB}GiB",
    "worker init memory snapshot: {...}free_memory={free:GiB}GiB, total_memory={total:GiB}GiB",
    "worker requested memory: {requested:GiB}GiB",
    "Initial free memory: {free:GiB} GiB; Requested memory: {gpu_memory_utilization:float} (util), "
    "{requested:GiB} GiB",
    "Free memory on device{...}({free:GiB}/{total:GiB} GiB) on startup",
    "Desired GPU memory utilization is ({gpu_memory_utilization:float}, {requested:GiB} GiB)",
    "Desired utilization ({gpu_memory_utilization:float}, {requested:GiB} GiB)",
    "is less than desired GPU memory utilization ({gpu_memory_utilization:float}, "
    "{requested:GiB} GiB)",
    # Weights
    "Loading model weights took {weights:GB} GB",
    "Loading model weights took {weights:GiB} GiB",
    "Loading model weights took {weights:MB} MB",
    "Model loading took {weights:GiB} GiB",
    "Model loading took {weights:GB} GB",
    # What the profile run measured
    "peak_torch_memory={peak_torch:GiB}GiB",
    "non_torch_memory={non_torch:GiB}GiB kv_cache_size={available:GiB}GiB",
    "model weights take {weights_in_profile:GiB}GiB",
    "non_torch_memory takes {non_torch:GiB}GiB",
    "PyTorch activation peak memory takes {activation:GiB}GiB",
    "the rest of the memory reserved for KV Cache is {available:GiB}GiB",
    "torch peak memory increase: {activation:GiB}GiB",
    "non-torch forward increase memory: {non_torch:GiB}GiB",
    "total consumed (from mem_get_info): {consumed:GiB}GiB",
    "Actual usage is {weights_in_profile:GiB} GiB for weight, {activation:GiB} GiB for peak "
    "activation, {non_torch:GiB} GiB for non-torch memory",
    "Actual usage is {consumed:GiB} GiB for consumed memory (weights + non-torch), "
    "{peak_with_graphs:GiB} GiB for peak activation",
    "GiB for non-torch memory, and {graphs:GiB} GiB for CUDAGraph memory",
    "GiB for peak activation, and {graphs:GiB} GiB for CUDAGraph memory",
    "Available KV cache memory: {available:GiB} GiB",
    "reserved {available:GiB} GiB memory for KV Cache as specified by kv_cache_memory_bytes",
    "Current kv cache memory in use is {available_in_use:GiB} GiB",
    "KV_CACHE_MEMORY_BYTES={kv_cache_memory_bytes:int}",
    "Estimated CUDA graph memory: {graphs_estimated:GiB} GiB",
    "Graph capturing finished in {...} secs, took {graphs:GiB} GiB",
    "CUDA graph pool memory: {graphs:GiB} GiB (actual), {graphs_estimated:GiB} GiB (estimated)",
    # The pool
    "# GPU blocks: {num_blocks:int}",
    "# CUDA blocks: {num_blocks:int}",
    "# cuda blocks: {num_blocks:int}",
    "# rocm blocks: {num_blocks:int}",
    "num_gpu_blocks is: {num_blocks:int}",
    "Overriding num_gpu_blocks={...} with num_gpu_blocks_override={num_blocks:int}",
    "KV cache size: {kv_tokens:int} tokens",
    "Maximum concurrency for {concurrency_len:int} tokens per request: {max_concurrency:float}x",
    "Setting attention block size to {block_size:int} tokens",
    "Forcing kv cache block size to {block_size:int} for",
    "Padding mamba page size by {mamba_padding_percent:float}%",
    "Add {padding_layers:int} padding layers",
    # Refusals
    "max seq len ({asked_len:int}), ({needed:GiB} GiB KV cache is needed",
    "available KV cache memory ({available_refused:GiB} GiB)",
    "estimated maximum model length is {estimated_max_len:int}",
    "max seq len ({asked_len:int}) is larger than the maximum number of tokens",
    "maximum number of tokens that can be stored in KV cache ({kv_tokens:int})",
    "max_num_seqs ({max_num_seqs:int}) exceeds available Mamba cache blocks ({state_slots:int})",
)

_FAILURES: tuple[tuple[Failure, str], ...] = (
    ("kv_cache_too_small", "To serve at least one request with the model"),
    ("kv_cache_too_small", "is larger than the maximum number of tokens that can be stored in KV"),
    ("no_memory_for_kv_cache", "No available memory for the cache blocks"),
    ("memory_taken_by_others", "on startup is less than desired GPU memory utilization"),
    ("state_slots", "exceeds available Mamba cache blocks"),
    ("out_of_memory", "CUDA out of memory"),
    ("out_of_memory", "torch.OutOfMemoryError"),
)

_SPECULATION = {
    "method": ("speculative_method", text_of),
    "num_speculative_tokens": ("num_speculative_tokens", whole_of),
    "num_spec_tokens": ("num_speculative_tokens", whole_of),
    "model": ("draft_model", text_of),
    # V0's own name for it
    "draft_model": ("draft_model", text_of),
}
_NAMES = {
    "model": ("model", text_of),
    "model_tag": ("model", text_of),
    "revision": ("revision", text_of),
    "dtype": ("dtype", dtype_of),
    "quantization": ("quantization", text_of),
    "kv_cache_dtype": ("kv_cache_dtype", text_of),
    "tensor_parallel_size": ("tensor_parallel_size", whole_of),
    "tp": ("tensor_parallel_size", whole_of),
    "pipeline_parallel_size": ("pipeline_parallel_size", whole_of),
    "pp": ("pipeline_parallel_size", whole_of),
    "data_parallel_size": ("data_parallel_size", whole_of),
    "dp": ("data_parallel_size", whole_of),
    "decode_context_parallel_size": ("decode_context_parallel_size", whole_of),
    "dcp": ("decode_context_parallel_size", whole_of),
    "enable_expert_parallel": ("enable_expert_parallel", flag_of),
    "max_seq_len": ("max_model_len", whole_of),
    "max_model_len": ("max_model_len", whole_of),
    "max_num_seqs": ("max_num_seqs", whole_of),
    "max_num_batched_tokens": ("max_num_batched_tokens", whole_of),
    "gpu_memory_utilization": ("gpu_memory_utilization", share_of),
    "kv_cache_memory_bytes": ("kv_cache_memory_bytes", whole_of),
    "kv_cache_memory": ("kv_cache_memory_bytes", whole_of),
    "block_size": ("block_size", whole_of),
    "enforce_eager": ("enforce_eager", flag_of),
    "enable_prefix_caching": ("enable_prefix_caching", flag_of),
    **{f"speculative_config.{name}": known for name, known in _SPECULATION.items()},
    **{f"sc.{name}": known for name, known in _SPECULATION.items()},
    "spec_method": ("speculative_method", text_of),
    "spec_tokens": ("num_speculative_tokens", whole_of),
    "spec_model": ("draft_model", text_of),
    "speculative_model": ("draft_model", text_of),
    "num_speculative_tokens": ("num_speculative_tokens", whole_of),
    "max_loras": ("max_loras", whole_of),
    "max_lora_rank": ("max_lora_rank", whole_of),
}


def _measured(found: Found) -> Measured:
    weights = found.first("weights", Size) or found.first("weights_in_profile", Size)
    estimated = found.first("graphs_estimated", Size)
    total = found.first("total", Size)
    pool = ("available", "available_in_use", "available_refused")
    sizes = (found.first(name, Size) for name in pool)
    stated = found.first("kv_cache_memory_bytes", int)
    return Measured(
        total=total,
        free_at_start=found.first("free", Size)
        or difference(total, found.first("used_at_start", Size)),
        requested=found.first("requested", Size),
        weights=weights,
        # From 0.26 the printed peak includes the estimate of the graphs.
        activation=found.first("activation", Size)
        or difference(found.first("peak_torch", Size), weights)
        or difference(found.first("peak_with_graphs", Size), estimated)
        or found.first("peak_with_graphs", Size),
        non_torch=found.first("non_torch", Size),
        consumed=found.first("consumed", Size),
        graphs=found.first("graphs", Size),
        graphs_estimated=estimated,
        available_kv=next((size for size in sizes if size is not None), None)
        or (Size(stated) if stated is not None else None),
        available_kv_least=found.least(*pool),
        kv_tokens=found.first("kv_tokens", int),
        num_blocks=found.last("num_blocks", int),
        max_concurrency=found.first("max_concurrency", float),
        concurrency_len=found.first("concurrency_len", int) or found.first("asked_len", int),
        needed_kv=found.first("needed", Size),
        estimated_max_len=found.first("estimated_max_len", int),
        padding_layers=found.first("padding_layers", int),
        state_slots=found.first("state_slots", int),
    )


VLLM = Engine(
    name="vllm",
    signatures=(
        "vLLM", "vllm", "GPU KV cache size", "# GPU blocks", "Available KV cache memory",
        "Model loading took", "Loading model weights took", "KV Cache is",
    ),
    read=_READ,
    failures=_FAILURES,
    ends=("GiB", " GB", "KV cache size: ", "tokens per request", "blocks: "),
    starts=("non-default args: ", "vLLM API server version ", "Initializing a", "args: Namespace("),
    reprs=("with config: ", "non-default args: ", "args: Namespace("),
    commands=("vllm serve ", "vllm.entrypoints.openai.api_server ", "vllm bench "),
    names=_NAMES,
    measured=_measured,
    usual={
        "weights": "Model loading took ... GiB",
        "available_kv": "Available KV cache memory: ... GiB",
        "kv_tokens|num_blocks": "GPU KV cache size: ... tokens",
        "max_concurrency": "Maximum concurrency for ... tokens per request: ...x",
        "activation": "Actual usage is ... GiB for peak activation (vLLM 0.10.2 and newer, at INFO)",
        "total": "Free memory on device (.../... GiB) on startup (vLLM 0.10.2 and newer, at INFO)",
    },
)  # fmt: skip
