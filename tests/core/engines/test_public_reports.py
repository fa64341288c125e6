"""Public reports about memory that a number settles, each with the thread it is from.

V = github.com/vllm-project/vllm, S = github.com/sgl-project/sglang.
"""

from typing import Any

import pytest

from app.answers.concurrency import concurrency_answer
from app.catalog.models import model_catalogue
from app.resolve.gpu import requested_gpu
from app.resolve.model import catalogue_model
from app.schemas.concurrency import ConcurrencyAnswer
from app.schemas.request import ConcurrencyBody

GIB = 2**30
LLAMA = "meta-llama/Llama-3.1-8B-Instruct"


def ask(model: str, gpu: str, engine: str = "vllm", **fields: Any) -> ConcurrencyAnswer:
    entry = model_catalogue().find(model)
    assert entry is not None
    request = ConcurrencyBody(model=model, gpu=gpu, engine=engine, **fields)
    return concurrency_answer(request, catalogue_model(entry), requested_gpu(request, None))


def test_each_rank_stores_its_share_of_the_heads() -> None:
    # V/issues/13061: a 14B model on two 4090s: 81,536 tokens x 98,304 bytes a GPU.
    found = ask(
        "Qwen/Qwen2.5-14B",
        "rtx-4090-24gb",
        engine_version="0.7.3",
        tensor_parallel_size=2,
        gpu_memory_utilization=0.98,
        context=81_536,
    )
    assert found.kv_bytes_per_sequence == 81_536 * 98_304
    assert found.kv_budget_bytes / GIB == pytest.approx(8.69, rel=0.02)


def test_a_longer_sequence_may_leave_more() -> None:
    # V/issues/10517: 20,000 starts, 29,000 does not, 35,000 and 45,000 do not fit one sequence but
    # are left more memory: V0 prefills in chunks beyond 32,768.
    budgets = {
        length: ask(LLAMA, "rtx-3090-24gb", engine_version="0.6.3", context=length)
        for length in (20_000, 29_000, 35_000)
    }
    assert budgets[20_000].fits
    assert not budgets[29_000].fits
    assert budgets[29_000].kv_cache_tokens == pytest.approx(23_648, rel=0.02)
    assert budgets[35_000].kv_budget_bytes > budgets[20_000].kv_budget_bytes
    assert budgets[35_000].fits


def test_tokens_are_concurrency_times_length() -> None:
    # V/issues/54662: int(max_concurrency x max_model_len), and not blocks x block size.
    found = ask("google/gemma-3-4b-it", "h100-sxm-80gb", context=131_072)
    assert found.max_concurrency_exact is not None
    assert found.kv_cache_tokens == int(found.max_concurrency_exact * 131_072)


def test_the_same_bytes_a_token_in_two_budgets() -> None:
    # V/issues/21348: Qwen3-235B FP8 on four H100s: 48,128 bytes a token a GPU in both; 0.93 of the
    # memory at SGLang (367,404 tokens in 16.46 GiB), 0.9 less a profile run at vLLM.
    at = {"tensor_parallel_size": 4, "context": 40_960}
    name, gpu = "Qwen/Qwen3-235B-A22B-FP8", "h100-sxm-80gb"
    vllm = ask(name, gpu, engine_version="0.9.2", **at)
    sglang = ask(name, gpu, "sglang", mem_fraction_static=0.93, **at)
    assert vllm.kv_bytes_per_sequence == sglang.kv_bytes_per_sequence == 48_128 * 40_960
    assert sglang.kv_budget_bytes / GIB == pytest.approx(16.46, rel=0.04)
    assert sglang.kv_cache_tokens == pytest.approx(367_404, rel=0.04)
    assert vllm.kv_budget_bytes < sglang.kv_budget_bytes


def test_a_tier_of_big_devices_doubles_the_batch() -> None:
    # V/issues/53961: an MI300X of 191.98 GiB in the tier from 160 GiB: 16,384 tokens a batch, and
    # DeepSeek-V4-Pro at 1,048,576 needs 23.32 GiB.
    fields = {"tensor_parallel_size": 8, "context": 2**20, "kv_cache_dtype": "fp8"}
    new = ask("deepseek-ai/DeepSeek-V4-Pro", "mi300x-192gb", engine_version="0.28", **fields)
    old = ask("deepseek-ai/DeepSeek-V4-Pro", "mi300x-192gb", engine_version="0.27", **fields)
    assert new.kv_bytes_per_sequence / GIB == pytest.approx(23.32, abs=0.01)
    assert new.memory is not None
    assert old.memory is not None
    assert new.memory.activation_bytes > old.memory.activation_bytes


def test_gpt_oss_120b_does_not_hold_its_length_on_one_h100() -> None:
    # V/issues/27508: 1.71 GiB left at 0.95 with 1,024 batched tokens.
    found = ask(
        "openai/gpt-oss-120b",
        "h100-sxm-80gb",
        engine_version="0.11.0",
        gpu_memory_utilization=0.95,
        max_num_batched_tokens=1024,
        context=131_072,
    )
    assert not found.fits
    assert found.kv_budget_band_bytes is not None
    assert found.kv_budget_band_bytes.low <= 1.71 * GIB <= found.kv_budget_band_bytes.high


def test_activations_decide_whether_70b_starts_on_one_h100() -> None:
    # llm-d-benchmark/issues/621: weights of 67.72 GiB and an activation peak of 4.8 leave -1.44 at
    # 0.9: no cache at all.
    found = ask(
        "meta-llama/Llama-3.1-70B-Instruct",
        "h100-sxm-80gb",
        quantization="ptpc_fp8",
        engine_version="0.11.0",
        gpu_memory_utilization=0.9,
        context=16_000,
    )
    assert not found.fits
    assert found.limited_by == "weights"
    assert found.memory is not None
    assert found.memory.weight_bytes / GIB == pytest.approx(67.72, abs=0.02)
    assert found.memory.shortfall_bytes / GIB == pytest.approx(1.44, abs=0.05)


def test_activations_of_newer_versions_are_a_third_and_ranks_take_two_gib() -> None:
    # llm-d-planner/issues/194: constants fitted up to 0.16 are 50 to 630 % too high for 0.19; with
    # tensor parallelism about 2.1 GiB are outside torch, not 0.6.
    old = ask(LLAMA, "h100-sxm-80gb", engine_version="0.16", context=8192).memory
    new = ask(
        LLAMA, "h100-sxm-80gb", engine_version="0.19", context=8192, tensor_parallel_size=2
    ).memory
    assert old is not None
    assert new is not None
    assert 1.5 < old.activation_bytes / new.activation_bytes < 7.3
    assert new.overhead_bytes / GIB == pytest.approx(2.1, abs=0.1)


def test_a_latent_is_replicated_and_replicas_are_not() -> None:
    # vllm-project/recipes/issues/762: DeepSeek-V4-Flash on eight B200s: 20.43 sequences of a
    # million tokens with TP 8, 156.9 with eight replicas.
    fields: dict[str, Any] = {
        "engine_version": "0.25.0",
        "gpu_memory_utilization": 0.95,
        "enable_expert_parallel": True,
        "context": 2**20,
    }
    name, gpu = "deepseek-ai/DeepSeek-V4-Flash", "b200-sxm-180gb"
    ranks = ask(name, gpu, tensor_parallel_size=8, **fields)
    replicas = ask(name, gpu, data_parallel_size=8, max_num_seqs=256, **fields)
    assert ranks.max_concurrency_exact == pytest.approx(20.43, rel=0.02)
    assert replicas.max_concurrency_exact is not None
    assert 8 * replicas.max_concurrency_exact == pytest.approx(156.9, rel=0.05)


def test_each_rank_of_two_holds_its_own_heads() -> None:
    # V/issues/5248: 4 GiB of swap are 1,024 blocks: 262,144 bytes a token a GPU for a 6.7B model
    # of 32 layers and 32 heads of 128 with TP 2; 507 blocks are 8,112 tokens.
    found = ask(
        "meta-llama/Llama-2-7b-hf",
        "t4-16gb",
        engine_version="0.6",
        tensor_parallel_size=2,
        context=2048,
        kv_cache_memory_bytes=507 * 16 * 262_144,
    )
    assert (found.num_blocks, found.kv_cache_tokens) == (507, 8112)


def test_another_process_is_counted_as_ones_own() -> None:
    # V/issues/10533: 68.01 GiB in use on one A100, a second server with a share of 0.2.
    found = ask(
        "Qwen/Qwen2.5-14B",
        "a100-sxm-80gb",
        quantization="gptq",
        engine_version="0.6.4",
        gpu_memory_utilization=0.2,
        gpu_memory_used_bytes=round(68.01 * GIB),
        enforce_eager=True,
        context=16_384,
    )
    assert not found.fits


def test_two_small_servers_share_a_gpu_in_v1_only_later() -> None:
    # V/issues/14376: the second of two with 0.2 each fails, the version counting whole-device use.
    fields = {"gpu_memory_utilization": 0.2, "instances_per_gpu": 2, "context": 4096}
    name, gpu = "meta-llama/Llama-3.2-1B-Instruct", "l40s-48gb"
    assert not ask(name, gpu, engine_version="0.8.2", **fields).fits
    assert ask(name, gpu, engine_version="0.11.0", **fields).fits


def test_two_70b_models_do_not_share_eight_small_gpus() -> None:
    # ovg-project/kvcached/issues/210: each engine checks its own share.
    found = ask(
        "meta-llama/Llama-3.1-70B-Instruct",
        "a100-pcie-40gb",
        engine_version="0.11.0",
        tensor_parallel_size=8,
        instances_per_gpu=2,
        context=32_768,
    )
    assert not found.fits


def test_an_engine_takes_its_share_whatever_the_model_needs() -> None:
    # V/issues/20256 and huggingface/text-generation-inference/issues/1863: 71 GB for 1B.
    found = ask("meta-llama/Llama-3.2-1B-Instruct", "a100-sxm-80gb", context=4096).memory
    assert found is not None
    used = found.gpu_memory_bytes - found.unrequested_bytes
    assert used == pytest.approx(0.92 * 79.25 * GIB, rel=0.001)
    assert found.kv_budget_bytes > 0.85 * used


def test_more_sequences_than_state_blocks_are_refused() -> None:
    # kaito-project/kaito/issues/2319 and NVIDIA-AI-Blueprints/retail-shopping-assistant/pull/95: a
    # Nemotron of 120B on two H100s has 524 blocks for states, and 1,024 sequences by default.
    name, gpu = "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8", "h100-sxm-80gb"
    fields = {"engine_version": "0.25.1", "tensor_parallel_size": 2, "context": 262_144}
    found = ask(name, gpu, max_num_seqs=1024, **fields)
    assert not found.fits
    assert found.limited_by == "state_slots"
    assert found.num_blocks is not None
    assert 400 < found.num_blocks < 600
    lowered = ask(name, gpu, max_num_seqs=found.num_blocks, **fields)
    assert lowered.fits
    by_default = ask(name, gpu, **fields)
    assert by_default.fits
    assert any("max_num_seqs" in line for line in by_default.assumptions)


def test_adapters_are_allocated_before_they_are_used() -> None:
    # V/issues/14450: number and rank of adapters change the pool.
    fields = {"context": 8192, "gpu": "h100-sxm-80gb"}
    budgets = [
        ask(LLAMA, lora_rank=rank, max_loras=slots, **fields).kv_budget_bytes
        for rank, slots in ((16, 1), (64, 1), (64, 8))
    ]
    assert budgets == sorted(budgets, reverse=True)
    assert len(set(budgets)) == 3


def test_capacity_is_not_a_rate_for_models_with_a_fixed_part() -> None:
    # V/issues/51041 and ai-dynamo/aiconfigurator/pull/1201: memory over tokens is no constant.
    fields = {"engine_version": "0.25.0", "tensor_parallel_size": 8}
    rates = []
    for context in (8192, 131_072):
        found = ask("deepseek-ai/DeepSeek-V4-Flash", "b200-sxm-180gb", context=context, **fields)
        assert found.kv_cache_tokens
        rates.append(found.kv_budget_bytes / found.kv_cache_tokens)
    assert rates[0] > 3 * rates[1]


def test_a_memory_that_the_driver_does_not_report_counts_as_none() -> None:
    # V/pull/57378: NVML refuses to say what a GB10 has, so its batches are those of small devices,
    # 2,048 tokens and 256 sequences. A gpt-oss-20b build with a share of 0.25 there: 12.94 GiB.
    found = ask(
        "openai/gpt-oss-20b",
        "gb10",
        engine_version="0.13.0+faa43dbf.nv26.01",
        gpu_memory_utilization=0.25,
        context=8192,
    )
    # What unified memory counts besides is known to 1.5 GiB at best; the band has to hold it.
    assert found.kv_budget_bytes / GIB == pytest.approx(12.94, abs=1.5)
    band = found.kv_budget_band_bytes
    assert band is not None
    assert band.low <= 12.94 * GIB <= band.high
    assert any("unified memory" in line for line in found.assumptions)
