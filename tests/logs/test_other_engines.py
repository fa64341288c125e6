"""Logs of SGLang, TensorRT-LLM and llama.cpp, and figures that somebody quotes."""

import pytest

from app.logs.reader import read_log
from app.logs.reading import ReadLog
from app.logs.templates import Size
from tests.logs import samples


def read(text: str) -> ReadLog:
    log = read_log(text)
    assert log is not None
    return log


def gib(size: Size | None) -> float | None:
    return None if size is None else round(size.bytes / 2**30, 4)


def test_sglang() -> None:
    log = read(samples.SGLANG)
    settings, found = log.settings, log.measured
    assert log.engine == "sglang"
    assert (settings.model, settings.tensor_parallel_size) == ("acme/tiny-8b", 2)
    assert (settings.memory_fraction, settings.max_num_seqs) == (0.88, 2048)
    assert (settings.max_model_len, settings.max_num_batched_tokens) == (32_768, 8192)
    assert (gib(found.free_at_start), gib(found.free_after_load)) == (78.31, 70.75)
    assert gib(found.weights) == 7.56
    # keys and values of one rank: 30.67 + 30.67
    assert gib(found.available_kv) == 61.34
    assert (found.kv_tokens, gib(found.graphs)) == (2_010_112, 1.14)
    assert log.missing == ()


def test_sglang_windows_states_and_drafts_have_pools_of_their_own() -> None:
    log = read(
        "[10:00:00] Load weight end. type=A, avail mem=20.00 GB, mem usage=10.00 GB\n"
        "[10:00:01] Mamba Cache is allocated. max_mamba_cache_size: 38, conv_state size: 0.03GB, "
        "ssm_state size: 2.74GB \n"
        "[10:00:01] Use sliding window memory pool. full_layer_tokens=3000, swa_layer_tokens=2400\n"
        "[10:00:02] KV Cache is allocated. #tokens: 2400, K size: 1.81 GB, V size: 1.81 GB\n"
        "[10:00:02] KV Cache is allocated. #tokens: 3000, K size: 0.76 GB, V size: 0.76 GB\n"
    )
    found = log.measured
    assert [(pool.tokens, gib(pool.size)) for pool in found.pools] == [(2400, 3.62), (3000, 1.52)]
    assert (found.kv_tokens, found.state_slots, gib(found.state)) == (3000, 38, 2.77)
    assert found.available_kv is None


def test_sglang_latents_are_one_size() -> None:
    found = read("KV Cache is allocated. #tokens: 975424, KV size: 43.67 GB\n").measured
    assert (gib(found.available_kv), found.kv_tokens) == (43.67, 975_424)


def test_sglang_refusal() -> None:
    log = read("RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.")
    assert (log.engine, log.failures) == ("sglang", ("no_memory_for_kv_cache",))


def test_tensorrt_llm_keeps_the_last_allocation() -> None:
    log = read(samples.TENSORRT_LLM)
    found, settings = log.measured, log.settings
    assert (log.engine, log.version) == ("tensorrt-llm", "1.2.0")
    assert (gib(found.weights), gib(found.activation), gib(found.non_torch)) == (
        14.98, 1.85, 1.33,
    )  # fmt: skip
    assert (gib(found.available_kv), found.kv_tokens) == (54.88, 449_568)
    assert (settings.memory_fraction, settings.block_size) == (0.9, 32)
    assert (settings.max_model_len, settings.max_num_seqs) == (8192, 256)
    assert gib(found.total) == 79.11


def test_tensorrt_llm_engines_of_old() -> None:
    text = (
        "[TensorRT-LLM][INFO] TRTGptModel maxNumTokens: 8192\n"
        "[TensorRT-LLM][INFO] Loaded engine size: 6214 MiB\n"
        "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 928.77 MiB for execution context memory.\n"
        "[TensorRT-LLM][INFO] Memory usage when calculating max tokens in paged kv cache: total: "
        "22.18 GiB, available: 1.42 GiB\n"
        "[TensorRT-LLM][INFO] Number of blocks in KV cache primary pool: 82\n"
        "[TensorRT-LLM][INFO] Number of tokens per block: 64.\n"
        "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 1.28 GiB for max tokens in paged KV "
        "cache (5248).\n"
    )
    found = read(text).measured
    # 6,214 MiB / 1,024; 928.77 MiB / 1,024
    assert (gib(found.weights), gib(found.activation)) == (6.0684, 0.907)
    assert (found.num_blocks, found.kv_tokens, gib(found.free_after_load)) == (82, 5248, 1.42)


def test_llama_cpp() -> None:
    log = read(samples.LLAMA_CPP)
    settings, found = log.settings, log.measured
    assert (log.engine, log.version, log.gpu) == (
        "llama.cpp", "6321", "NVIDIA GeForce RTX 3090",
    )  # fmt: skip
    assert (settings.max_model_len, settings.sequences, settings.ubatch) == (32_768, 4, 512)
    assert settings.kv_cache_dtype == "q8_0"
    # 281.81 + 4,403.49 MiB; 258.50 MiB on the device; 23,882 MiB
    assert found.weights is not None
    assert found.weights.bytes == 4_912_893_133
    assert (gib(found.activation), gib(found.free_at_start)) == (0.2524, 23.3223)
    # 4 streams of 8,192 cells
    assert (gib(found.available_kv), found.kv_tokens) == (2.125, 32_768)
    assert [pool.layers for pool in found.pools] == [32]


def test_llama_cpp_of_2024() -> None:
    log = read(samples.LLAMA_CPP_2024)
    assert log.settings.kv_cache_dtype == "f16"
    assert (gib(log.measured.available_kv), gib(log.measured.activation)) == (1.0, 0.5469)


@pytest.mark.parametrize(
    ("note", "name", "value"),
    [
        ("weights 33.88, activation 4.84, CUDA graph -0.42, KV 32.0 GiB, TP 2", "graphs", -0.42),
        ("weight_memory_gib=14.83 kv_cache_memory_gib=56.45", "available_kv", 56.45),
        ("util 0.5: 35.45 GiB, 1114865 tokens", "kv_tokens", 1_114_865),
        ("GPU KV cache size 329,792 tokens", "kv_tokens", 329_792),
        ("Maximum concurrency @262144: 6.95x", "concurrency_len", 262_144),
        ("1.95x at 131,072", "max_concurrency", 1.95),
        ("20.43x max concurrency at 1M context", "concurrency_len", 2**20),
        ("worker KV -3.21 GiB", "available_kv", -3.21),
    ],
)
def test_what_somebody_quotes(note: str, name: str, value: float) -> None:
    found = getattr(read(note).measured, name)
    assert (gib(found) if isinstance(found, Size) else found) == value


@pytest.mark.parametrize("text", ["", "hello", "INFO nothing of interest", "[1, 2, 3]", "{}"])
def test_what_is_no_log(text: str) -> None:
    assert read_log(text) is None
