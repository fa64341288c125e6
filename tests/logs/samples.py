"""Startup logs written for these tests, in the engines' own forms; all figures are made up."""

VLLM_V1 = """\
(APIServer pid=71) INFO 03-02 09:15:01 [utils.py:299] vLLM server version 0.19.0, serving model acme/tiny-8b
(APIServer pid=71) INFO 03-02 09:15:01 [utils.py:233] non-default args: {'model_tag': 'acme/tiny-8b', 'api_key': '***', 'model': 'acme/tiny-8b', 'max_model_len': 16384, 'tensor_parallel_size': 2, 'gpu_memory_utilization': 0.85, 'max_num_seqs': 64, 'speculative_config': {'method': 'mtp', 'num_speculative_tokens': 2}}
(APIServer pid=71) INFO 03-02 09:15:09 [model.py:549] Resolved architecture: LlamaForCausalLM
(APIServer pid=71) INFO 03-02 09:15:09 [scheduler.py:239] Chunked prefill is enabled with max_num_batched_tokens=4096.
(EngineCore pid=80) INFO 03-02 09:15:20 [core.py:106] Initializing a V1 LLM engine (v0.19.0) with config: model='acme/tiny-8b', speculative_config=SpeculativeConfig(method='mtp', model='acme/tiny-8b', num_spec_tokens=2), tokenizer='acme/tiny-8b', revision=4f1a, dtype=torch.bfloat16, max_seq_len=16384, tensor_parallel_size=2, pipeline_parallel_size=1, data_parallel_size=1, quantization=None, enforce_eager=False, kv_cache_dtype=fp8_e4m3, device_config=cuda, seed=0, enable_prefix_caching=True, compilation_config={'mode': 3, 'cudagraph_capture_sizes': [1, 2, 4]}
(Worker_TP1 pid=92) INFO 03-02 09:15:40 [gpu_model_runner.py:4821] Model loading took 7.61 GiB memory and 21.201300 seconds
(Worker_TP0 pid=91) INFO 03-02 09:15:41 [gpu_model_runner.py:4821] Model loading took 7.6 GiB memory and 22.481200 seconds
(Worker_TP1 pid=92) INFO 03-02 09:16:01 [gpu_worker.py:436] Available KV cache memory: 57.02 GiB
(Worker_TP0 pid=91) INFO 03-02 09:16:01 [gpu_worker.py:436] Available KV cache memory: 57.31 GiB
(EngineCore pid=80) INFO 03-02 09:16:02 [kv_cache_utils.py:1319] GPU KV cache size: 1,868,432 tokens
(EngineCore pid=80) INFO 03-02 09:16:02 [kv_cache_utils.py:1324] Maximum concurrency for 16,384 tokens per request: 114.04x
(Worker_TP0 pid=91) INFO 03-02 09:16:20 [gpu_model_runner.py:6046] Graph capturing finished in 9 secs, took 0.41 GiB
(Worker_TP0 pid=91) INFO 03-02 09:16:20 [gpu_worker.py:597] CUDA graph pool memory: 0.41 GiB (actual), 0.38 GiB (estimated), difference: 0.03 GiB (7.3%).
(Worker_TP0 pid=91) INFO 03-02 09:16:21 [gpu_worker.py:755] Free memory on device (78.02/79.19 GiB) on startup. Desired GPU memory utilization is (0.85, 67.31 GiB). Actual usage is 7.6 GiB for weight, 1.12 GiB for peak activation, 1.28 GiB for non-torch memory, and 0.41 GiB for CUDAGraph memory. Replace gpu_memory_utilization config with `--kv-cache-memory=60000000000` (55.88 GiB) to fit into requested memory.
(APIServer pid=71) INFO:     Application startup complete.
"""

VLLM_V0 = """\
INFO 11-05 18:02:11 api_server.py:585] vLLM API server version 0.6.6
INFO 11-05 18:02:11 api_server.py:586] args: Namespace(subparser='serve', model_tag='acme/tiny-8b', host=None, model='acme/tiny-8b', task='auto', dtype='auto', max_model_len=8192, tensor_parallel_size=1, gpu_memory_utilization=0.9, quantization='awq', max_num_seqs=None, enforce_eager=True)
INFO 11-05 18:02:20 llm_engine.py:234] Initializing an LLM engine (v0.6.6) with config: model='acme/tiny-8b', speculative_config=None, tokenizer='acme/tiny-8b', skip_tokenizer_init=False, dtype=torch.float16, max_seq_len=8192, tensor_parallel_size=1, quantization=awq, enforce_eager=True, kv_cache_dtype=auto, use_cached_outputs=False,
INFO 11-05 18:02:31 model_runner.py:1099] Loading model weights took 5.3411 GB
INFO 11-05 18:02:40 worker.py:241] Memory profiling takes 2.10 seconds
INFO 11-05 18:02:40 worker.py:241] the current vLLM instance can use total_gpu_memory (23.58GiB) x gpu_memory_utilization (0.90) = 21.22GiB
INFO 11-05 18:02:40 worker.py:241] model weights take 5.34GiB; non_torch_memory takes 0.11GiB; PyTorch activation peak memory takes 1.21GiB; the rest of the memory reserved for KV Cache is 14.56GiB.
INFO 11-05 18:02:40 gpu_executor.py:76] # GPU blocks: 7454, # CPU blocks: 2048
INFO 11-05 18:02:40 gpu_executor.py:80] Maximum concurrency for 8192 tokens per request: 14.56x
"""

VLLM_0_33 = """\
(APIServer pid=9) INFO 11-20 07:00:00 [startup.py:36]  █     █     █▄   ▄█  version 0.33.0
(EngineCore pid=31) INFO 11-20 07:00:10 [core.py:140] Initializing a V1 LLM engine (v0.33.0) with config: model='/data/hub/models--acme--tiny-8b/snapshots/0123456789abcdef0123456789abcdef01234567', speculative_config=None, dtype=torch.bfloat16, max_seq_len=32768, tensor_parallel_size=1, quantization=None, enforce_eager=False, kv_cache_dtype=auto, enable_prefix_caching=True
(EngineCore pid=31) INFO 11-20 07:00:31 [gpu_model_runner.py:5089] Model loading took 14.99 GiB memory and 8.113000 seconds
(EngineCore pid=31) INFO 11-20 07:00:50 [gpu_worker.py:773] Available KV cache memory: 54.33 GiB
(EngineCore pid=31) INFO 11-20 07:00:51 [kv_cache_utils.py:1147] GPU KV cache size: 445,056 tokens, Maximum concurrency for 32,768 tokens per request: 13.58x
(EngineCore pid=31) INFO 11-20 07:01:02 [gpu_worker.py:1001] CUDA graph pool memory: 0.55 GiB (actual), 0.62 GiB (estimated), difference: 0.07 GiB (12.7%).
(EngineCore pid=31) INFO 11-20 07:01:03 [gpu_worker.py:1066] Free memory on device (78.60/79.19 GiB) on startup. Desired GPU memory utilization is (0.92, 72.86 GiB). Actual usage is 15.61 GiB for consumed memory (weights + non-torch), 2.92 GiB for peak activation, and 0.55 GiB for CUDAGraph memory. Replace gpu_memory_utilization config with `--kv-cache-memory=58000000000` (54.02 GiB) to fit into requested memory. Current kv cache memory in use is 54.33 GiB.
"""

VLLM_TOO_SMALL = """\
INFO 01-09 12:00:00 [core.py:96] Initializing a V1 LLM engine (v0.15.1) with config: model='acme/tiny-8b', dtype=torch.bfloat16, max_seq_len=131072, tensor_parallel_size=1, kv_cache_dtype=auto
INFO 01-09 12:00:20 [gpu_model_runner.py:4131] Model loading took 14.99 GiB memory and 9.000000 seconds
INFO 01-09 12:00:40 [gpu_worker.py:357] Available KV cache memory: 5.2 GiB
ERROR 01-09 12:00:41 [core.py:800] ValueError: To serve at least one request with the model's max seq len (131072), (16.0 GiB KV cache is needed, which is larger than the available KV cache memory (5.2 GiB). Based on the available memory, the estimated maximum model length is 42592. Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.
"""

SGLANG = """\
[2026-01-14 10:20:30] server_args=ServerArgs(model_path='acme/tiny-8b', tokenizer_path='acme/tiny-8b', dtype='auto', quantization=None, kv_cache_dtype='fp8_e4m3', mem_fraction_static=0.88, max_running_requests=None, chunked_prefill_size=8192, page_size=1, tp_size=2, pp_size=1, context_length=32768, disable_cuda_graph=False, speculative_algorithm=None, attention_backend='fa3')
[2026-01-14 10:20:41 TP1] Load weight begin. avail mem=78.10 GB
[2026-01-14 10:20:41 TP0] Load weight begin. avail mem=78.31 GB
[2026-01-14 10:20:55 TP0] Load weight end. elapsed=13.60 s, type=LlamaForCausalLM, dtype=torch.bfloat16, avail mem=70.75 GB, mem usage=7.56 GB.
[2026-01-14 10:20:55 TP1] Load weight end. elapsed=13.70 s, type=LlamaForCausalLM, dtype=torch.bfloat16, avail mem=70.54 GB, mem usage=7.56 GB.
[2026-01-14 10:20:56 TP0] KV Cache is allocated. dtype: torch.float8_e4m3fn, #tokens: 2010112, K size: 30.67 GB, V size: 30.67 GB
[2026-01-14 10:20:56 TP1] KV Cache is allocated. dtype: torch.float8_e4m3fn, #tokens: 2010112, K size: 30.67 GB, V size: 30.67 GB
[2026-01-14 10:20:56 TP0] Memory pool end. avail mem=9.01 GB
[2026-01-14 10:21:20 TP0] Capture cuda graph end. Time elapsed: 20.11 s. mem usage=1.14 GB. avail mem=7.80 GB.
[2026-01-14 10:21:21 TP0] max_total_num_tokens=2010112, chunked_prefill_size=8192, max_prefill_tokens=16384, max_running_requests=2048, context_len=32768, available_gpu_mem=7.80 GB
"""

TENSORRT_LLM = """\
[TensorRT-LLM] TensorRT LLM version: 1.2.0
[01/20/2026-06:20:15] [TRT-LLM] [I] Memory used after loading model weights (inside torch) in memory usage profiling: 14.98 GiB
[01/20/2026-06:20:15] [TRT-LLM] [I] Memory used after loading model weights (outside torch) in memory usage profiling: 1.02 GiB
[TensorRT-LLM][INFO] Number of tokens per block: 32.
[TensorRT-LLM][INFO] [MemUsageChange] Allocated 0.51 GiB for max tokens in paged KV cache (4160).
[01/20/2026-06:20:21] [TRT-LLM] [I] Memory dynamically allocated during inference (inside torch) in memory usage profiling: 1.85 GiB
[01/20/2026-06:20:21] [TRT-LLM] [I] Memory used outside torch (e.g., NCCL and CUDA graphs) in memory usage profiling: 1.33 GiB
[01/20/2026-06:20:21] [TRT-LLM] [I] Peak memory during memory usage profiling (torch + non-torch): 18.67 GiB, available KV cache memory when calculating max tokens: 54.88 GiB, fraction is set 0.9, kv size is 131072. device total memory 79.11 GiB, , tmp kv_mem 0.51 GiB
[TensorRT-LLM][INFO] [MemUsageChange] Allocated 54.88 GiB for max tokens in paged KV cache (449568).
[01/20/2026-06:20:22] [TRT-LLM] [I] max_seq_len=8192, max_num_requests=256, max_num_tokens=8192, max_batch_size=256
"""

LLAMA_CPP = """\
ggml_cuda_init: found 1 CUDA devices:
  Device 0: NVIDIA GeForce RTX 3090, compute capability 8.6, VMM: yes
build: 6321 (0a1b2c3d) with cc (Ubuntu 11.4.0) for x86_64-linux-gnu
llama_model_load_from_file_impl: using device CUDA0 (NVIDIA GeForce RTX 3090) (0000:01:00.0) - 23882 MiB free
load_tensors: offloaded 33/33 layers to GPU
load_tensors:   CPU_Mapped model buffer size =   281.81 MiB
load_tensors:        CUDA0 model buffer size =  4403.49 MiB
llama_context: n_seq_max     = 4
llama_context: n_ctx         = 32768
llama_context: n_batch       = 2048
llama_context: n_ubatch      = 512
llama_context:  CUDA_Host  output buffer size =     1.96 MiB
llama_kv_cache:      CUDA0 KV buffer size =  2176.00 MiB
llama_kv_cache: size = 2176.00 MiB (  8192 cells,  32 layers,  4/4 seqs), K (q8_0): 1088.00 MiB, V (q8_0): 1088.00 MiB
sched_reserve:      CUDA0 compute buffer size =   258.50 MiB
sched_reserve:  CUDA_Host compute buffer size =    24.01 MiB
"""

LLAMA_CPP_2024 = """\
llm_load_tensors: offloaded 33/33 layers to GPU
llm_load_tensors:        CPU buffer size =   281.81 MiB
llm_load_tensors:      CUDA0 buffer size =  4403.49 MiB
llama_new_context_with_model: n_ctx      = 8192
llama_new_context_with_model: n_batch    = 512
llama_new_context_with_model: n_ubatch   = 512
llama_kv_cache_init:      CUDA0 KV buffer size =  1024.00 MiB
llama_new_context_with_model: KV self size  = 1024.00 MiB, K (f16):  512.00 MiB, V (f16):  512.00 MiB
llama_new_context_with_model:      CUDA0 compute buffer size =   560.00 MiB
"""
