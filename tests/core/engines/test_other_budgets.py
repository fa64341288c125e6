"""SGLang, TensorRT-LLM and llama.cpp: figures by hand, and those of public startup logs."""

from fractions import Fraction

import pytest

from app.catalog.gpus import gpu_catalogue
from app.catalog.models import model_catalogue
from app.core.cache import CacheLayout
from app.core.engines.llama_cpp import UBATCH, LlamaCppArguments, LlamaCppPools, compute_buffer
from app.core.engines.sglang import (
    SglangArguments,
    SglangPools,
    automatic_fraction,
    chunked_prefill_and_graphs,
    prefill_graphs,
    sglang_budget,
    tower_share,
)
from app.core.engines.tensorrt_llm import (
    TensorRtLlmArguments,
    TensorRtLlmPools,
    tensorrt_llm_budget,
)
from app.core.hardware import Gpu
from app.core.kv import KvProfile, Term, profile_of
from app.core.model import ModelShape
from app.core.precision import FLOAT16, Precision
from app.resolve.model import catalogue_model
from tests.core.engines.startup_facts import LLAMA_CPP_STARTS, LlamaCppFact

GIB, MIB = 2**30, 2**20
H100 = gpu_catalogue().find("h100-sxm-80gb").gpu
CACHE_TYPES = {
    "f16": FLOAT16,
    "q8_0": Precision("q8_0", Fraction(17, 2)),
    "q4_0": Precision("q4_0", Fraction(9, 2)),
}


def shape_of(name: str) -> ModelShape:
    entry = model_catalogue().find(name)
    assert entry is not None
    return catalogue_model(entry).shape


def tokens_of(per_token: int, *, window: int | None = None, state: int = 0) -> KvProfile:
    terms = [Term(limit=None, stride=1, bytes_per_entry=per_token)]
    if window is not None:
        terms.append(Term(limit=window, stride=1, bytes_per_entry=per_token))
    return KvProfile(terms=tuple(terms), fixed_bytes=state, state_bytes=state)


# --- SGLang -------------------------------------------------------------------------------------


def test_the_automatic_share_of_an_h100() -> None:
    # 81,559 MiB: 512 + 1.5 x 8,192 + 128 + 2 x 256 + 8 x 58 prefill sizes = 13,904 reserved.
    assert chunked_prefill_and_graphs(81_559, 1) == (8192, 256)
    assert prefill_graphs(8192) == 8 + 14 + 8 + 8 + 12 + 8
    assert automatic_fraction(81_559, SglangArguments(), latent=False) == Fraction(830, 1000)


def test_latent_attention_and_ranks_reserve_more() -> None:
    # TP 8: graphs to 512. 512 + 12,288 + 8 x 128 + 1,024 + 1,536 = 16,384 of 81,559: 0.799.
    arguments = SglangArguments(tensor_parallel_size=8)
    assert automatic_fraction(81_559, arguments, latent=True) == Fraction(799, 1000)


def test_a_big_device_reserves_ten_gib_at_least() -> None:
    arguments = SglangArguments(chunked_prefill_size=2048, disable_cuda_graph=True)
    share = automatic_fraction(81_559, arguments, latent=False)
    assert share == Fraction(round((81_559 - 10_240) / 81_559 * 1000), 1000)


def test_a_tower_takes_a_twentieth_and_more_the_larger_it_is() -> None:
    assert tower_share(0, 0) == 1
    assert tower_share(24, 1024) == Fraction(95, 100)
    assert tower_share(48, 1024) == Fraction(95, 100) * Fraction(9, 10)
    assert tower_share(480, 4096) == Fraction(95, 100) * Fraction(4, 5)


def test_the_pool_is_what_is_free_less_the_slack_of_what_was_free() -> None:
    # A device of 100 GiB of which the process holds 0.6: 0.9 x 99.4 less 20 GiB of weights.
    gpu = Gpu(id="t", name="t", memory_bytes=100 * GIB, memory_bytes_cuda=100 * GIB)
    arguments = SglangArguments(mem_fraction_static=Fraction(9, 10))
    found = sglang_budget(20 * GIB, gpu, arguments, latent=False)
    free = 100 * GIB - round(0.6 * GIB)
    assert found.kv_budget_bytes == free * 9 // 10 - 20 * GIB
    assert found.parts.kv_budget_bytes == found.kv_budget_bytes


def test_windows_have_a_pool_of_four_fifths_of_the_tokens() -> None:
    # 1,000 bytes a token in full layers and as many in windowed ones: 1,800 a token of the pool.
    pools = SglangPools(profile=tokens_of(1000, window=512), arguments=SglangArguments())
    found = pools.fit(1_800_000, 1000)
    assert found.tokens == 1000
    # 800 tokens of windows hold 1.56 windows of 512, the full pool one sequence of 1,000.
    assert found.sequences == 1


def test_states_take_nine_nineteenths_and_three_slots_a_request() -> None:
    pools = SglangPools(profile=tokens_of(100, state=1000), arguments=SglangArguments())
    found = pools.fit(190_000, 100)
    assert (found.ceiling, found.ceiling_is) == (90_000 // 1000 // 3, "state_slots")
    assert found.tokens == 1000


# --- TensorRT-LLM -------------------------------------------------------------------------------


def test_a_fraction_of_what_is_free_after_loading() -> None:
    gpu = Gpu(id="t", name="t", memory_bytes=100 * GIB, memory_bytes_cuda=100 * GIB)
    arguments = TensorRtLlmArguments(free_gpu_memory_fraction=Fraction(1, 2))
    found = tensorrt_llm_budget(30 * GIB, 9 * GIB, gpu, arguments)
    free = 100 * GIB - round(0.8 * GIB) - 39 * GIB
    assert found.kv_budget_bytes == free // 2
    pools = TensorRtLlmPools(profile=tokens_of(1000), arguments=arguments)
    # 33 tokens take two blocks of 32.
    assert pools.fit(640_000, 33).sequences == 10
    assert pools.fit(640_000, 33).tokens == 640


# --- llama.cpp ----------------------------------------------------------------------------------


@pytest.mark.parametrize("fact", LLAMA_CPP_STARTS, ids=[fact.id for fact in LLAMA_CPP_STARTS])
def test_buffers_are_those_of_the_log(fact: LlamaCppFact) -> None:
    shape = shape_of(fact.model)
    pools = LlamaCppPools.of(shape, CACHE_TYPES[fact.cache_type], LlamaCppArguments())
    whole = pools.bytes_per_slot(fact.context) * fact.slots / MIB
    assert whole == pytest.approx(fact.kv + fact.states, abs=0.02)
    buffer = compute_buffer(shape, fact.context, UBATCH) / MIB
    assert buffer == pytest.approx(fact.compute, rel=0.16)


def test_windows_keep_f16_and_a_batch_more() -> None:
    # Gemma-3-4B at 131,072: 5 full layers of 4,096 bytes a token are 2,560 MiB; 29 windowed ones
    # hold 1,024 + 512 cells: 174 MiB (github.com/ollama/ollama/pull/17037).
    shape = shape_of("google/gemma-3-4b-it")
    pools = LlamaCppPools.of(shape, FLOAT16, LlamaCppArguments())
    assert pools.bytes_per_slot(131_072) == (2560 + 174) * MIB
    eighth = LlamaCppPools.of(shape, CACHE_TYPES["q8_0"], LlamaCppArguments())
    assert eighth.bytes_per_slot(131_072) == (2560 * 17 // 32 + 174) * MIB


def test_a_profile_of_one_layer_is_its_pool() -> None:
    shape = shape_of("meta-llama/Llama-3.1-8B-Instruct")
    profile = profile_of(shape.groups, CacheLayout())
    pools = SglangPools(profile=profile, arguments=SglangArguments(max_running_requests=7))
    # 131,072 bytes a token: 32 layers x 8 heads x 128 x 2 x 2.
    found = pools.fit(131_072 * 1000, 100)
    assert (found.tokens, found.sequences, found.ceiling) == (1000, 10, 7)
