"""What vLLM prints about its memory, against public startup logs and figures worked out by hand."""

from dataclasses import replace
from fractions import Fraction

import pytest

from app.catalog.gpus import gpu_catalogue
from app.catalog.models import model_catalogue
from app.core.engines.budgets import Calibration, EngineBudget
from app.core.engines.vllm import VllmArguments, VllmPlan, plan_cache
from app.core.engines.vllm_activation import activation_peak, encoder_peak
from app.core.engines.vllm_budget import BudgetArguments, vllm_budgets
from app.core.engines.vllm_rules import RULES, rules_for
from app.core.engines.vllm_weights import Adapters, allocated, vllm_weight_bytes
from app.core.model import ModelShape
from app.core.weights import Sharding
from app.errors import InputError
from app.resolve.model import catalogue_model
from app.resolve.quantization.loading import weight_storage
from tests.core.engines.startup_facts import H100_STARTS, LLAMA, StartupFact

GIB = 2**30
H100 = gpu_catalogue().find("h100-sxm-80gb").gpu


def shape_of(name: str) -> ModelShape:
    entry = model_catalogue().find(name)
    assert entry is not None
    return catalogue_model(entry).shape


def start(
    name: str = LLAMA,
    *,
    quantization: str | None = None,
    utilization: float | None = None,
    budget: BudgetArguments | None = None,
    **arguments: object,
) -> tuple[VllmPlan, EngineBudget]:
    shape = shape_of(name)
    plan = plan_cache(shape, VllmArguments(**arguments), H100)  # type: ignore[arg-type]
    stored, _ = weight_storage(shape, quantization=quantization)
    share = None if utilization is None else Fraction(str(utilization))
    sharding = Sharding(
        tensor_parallel_size=plan.settings.tensor_parallel_size,
        pipeline_parallel_size=plan.settings.pipeline_parallel_size,
    )
    asked = replace(budget or BudgetArguments(), gpu_memory_utilization=share)
    found = vllm_budgets(shape, stored, sharding, plan.settings, gpu=H100, arguments=asked)
    return plan, found[0]


def of_fact(fact: StartupFact) -> tuple[VllmPlan, EngineBudget]:
    return start(
        fact.model,
        quantization=fact.quantization,
        utilization=fact.utilization,
        version=fact.version,
        tensor_parallel_size=fact.tensor_parallel_size,
        max_model_len=fact.max_model_len,
        max_num_seqs=fact.max_num_seqs,
        enable_prefix_caching=False,
    )


STARTS = pytest.mark.parametrize("fact", H100_STARTS, ids=[fact.id for fact in H100_STARTS])


@STARTS
def test_weights_are_what_the_engine_loads(fact: StartupFact) -> None:
    _, budget = of_fact(fact)
    assert budget.parts.weight_bytes / GIB == pytest.approx(fact.weights, rel=0.004, abs=0.005)


@STARTS
def test_the_activation_peak_is_the_profile_runs(fact: StartupFact) -> None:
    _, budget = of_fact(fact)
    if fact.activation is not None:
        peak = budget.parts.activation_bytes / GIB
        assert peak == pytest.approx(fact.activation, rel=0.01, abs=0.07)


@STARTS
def test_kv_memory_is_within_a_percent_and_in_its_band(fact: StartupFact) -> None:
    _, budget = of_fact(fact)
    assert budget.kv_budget_bytes / GIB == pytest.approx(fact.kv, rel=0.01)
    assert budget.band.low <= (fact.kv + 0.005) * GIB
    assert budget.band.high >= (fact.kv - 0.005) * GIB


@STARTS
def test_tokens_and_concurrency_follow_from_the_memory_printed(fact: StartupFact) -> None:
    plan, _ = of_fact(fact)
    if fact.tokens is None or fact.concurrency is None:
        return
    low = plan.capacity(int((fact.kv - 0.005) * GIB))
    high = plan.capacity(int((fact.kv + 0.005) * GIB))
    assert low.kv_cache_tokens <= fact.tokens <= high.kv_cache_tokens
    assert low.max_concurrency - 0.01 <= fact.concurrency <= high.max_concurrency + 0.01


def test_llama_8b_loads_its_parameters_and_one_table() -> None:
    # 8,030,261,248 parameters of 2 bytes, all in whole MiB; 131,072 positions x 128 x 2 bytes.
    _, budget = start(version="0.19.0")
    assert budget.parts.weight_bytes == 8_030_261_248 * 2 + 131_072 * 128 * 2


@pytest.mark.parametrize(
    ("size", "counted"),
    [
        (1, 512),
        (513, 1024),
        (10 * 2**20 - 512, 10 * 2**20 - 512),
        # 15 MiB in a segment of 16: 1 MiB is left, which stays with the block.
        (15 * 2**20, 16 * 2**20),
        # 14.5 MiB in a segment of 16: 1.5 MiB are left, and given back.
        (29 * 2**19, 29 * 2**19),
        (270 * 2**20, 270 * 2**20),
    ],
)
def test_torch_counts_blocks_not_requests(size: int, counted: int) -> None:
    assert allocated(size) == counted


def test_the_budget_is_a_share_of_what_a_process_sees() -> None:
    # 0.9 x 85,027,979,264 (79.19 GiB), rounded up: the rest is left alone.
    _, budget = start(version="0.11.0")
    total = 85_027_979_264
    requested = -(-total * 9 // 10)
    assert budget.parts.gpu_memory_bytes == total
    assert budget.parts.unrequested_bytes == total - requested
    assert budget.parts.kv_budget_bytes == budget.kv_budget_bytes


def test_the_sampler_is_the_peak_of_a_thousand_sequences() -> None:
    # 0.19: 14 bytes a logit, a row for each of 132 multiprocessors, one hidden state, 51 MiB.
    plan, budget = start(version="0.19.0")
    assert plan.settings.max_num_seqs == 1024
    logits = 14 * 1024 * 128_256 + 4 * 132 * 128_256
    assert budget.parts.activation_bytes == logits + 2 * 8192 * 4096 + 51 * 2**20


def test_few_sequences_leave_the_mlp_as_the_peak() -> None:
    # 8,192 tokens x 2 bytes x (3 x 14,336 + 4 x 4,096), and 16 MiB.
    _, budget = start(version="0.19.0", max_num_seqs=8)
    assert budget.parts.activation_bytes == 8192 * 2 * (3 * 14_336 + 4 * 4096) + 16 * 2**20


def test_v0_profiles_a_whole_sequence_until_it_is_chunked() -> None:
    # github.com/vllm-project/vllm/issues/10517: peaks of 17.06, 17.98 and 15.05 GiB at lengths of
    # 20,000, 29,000 and 35,000, weights 14.99: long sequences are prefilled in chunks.
    peaks = [
        start(version="0.6.3", max_model_len=length)[1].parts.activation_bytes / GIB
        for length in (20_000, 29_000, 35_000)
    ]
    assert peaks[0] == pytest.approx(17.06 - 14.99, abs=0.02)
    assert peaks[1] == pytest.approx(17.98 - 14.99, abs=0.02)
    assert peaks[2] < 0.3


def test_graphs_count_from_0_20_on_and_not_when_eager() -> None:
    assert start(version="0.19.0")[1].parts.cuda_graph_bytes == 0
    assert start(version="0.20.0")[1].parts.cuda_graph_bytes > 0
    eager = BudgetArguments(enforce_eager=True)
    assert start(version="0.20.0", budget=eager)[1].parts.cuda_graph_bytes == 0


def test_the_share_is_0_92_from_0_20_on() -> None:
    assert rules_for("0.19.9").utilization == 0.9
    assert rules_for("0.20").utilization == 0.92
    assert rules_for(None) is RULES[-1]


@pytest.mark.parametrize("version", ["0.5.4", "0.34", "1.0", "newest", ""])
def test_versions_nobody_read_are_refused(version: str) -> None:
    with pytest.raises(InputError) as caught:
        rules_for(version or "x")
    assert caught.value.errors[0].loc == ("engine_version",)


@pytest.mark.parametrize(
    ("version", "since"),
    [
        ("0.6.3.post1", (0, 6)),
        ("0.6.6", (0, 6, 6)),
        ("v0.19.2rc1.dev134+gfe9c3d6c5", (0, 19)),
        ("0.13.0+faa43dbf.nv26.01", (0, 13)),
        ("0.33.0", (0, 29)),
    ],
)
def test_a_version_follows_the_last_change_before_it(version: str, since: tuple[int, ...]) -> None:
    assert rules_for(version).since == since


def test_adapters_take_their_slots() -> None:
    # A layer of Llama-3.1-8B has, for q, k, v, o, gate, up and down: inputs 4,096 x 6 + 14,336 and
    # outputs 4,096 + 1,024 x 2 + 4,096 + 14,336 x 2 + 4,096; 32 layers; the head 4,096 + 128,256.
    shape = shape_of(LLAMA)
    stored, _ = weight_storage(shape)
    plain = vllm_weight_bytes(shape, stored, Sharding(), rules=rules_for(None), gpu=H100)
    slots = Adapters(max_loras=4, rank=16)
    more = vllm_weight_bytes(
        shape, stored, Sharding(), rules=rules_for(None), gpu=H100, adapters=slots
    )
    inputs = 4096 * 6 + 14_336
    outputs = 4096 + 2 * 1024 + 4096 + 2 * 14_336 + 4096
    assert more - plain == ((inputs + outputs) * 32 + 4096 + 128_256) * 4 * 16 * 2


def test_given_cache_memory_is_the_budget() -> None:
    given = BudgetArguments(kv_cache_memory_bytes=10 * GIB)
    _, budget = start(budget=given)
    assert budget.kv_budget_bytes == budget.band.low == budget.band.high == 10 * GIB


def test_measured_parts_stand_in_place_of_predicted_ones() -> None:
    measured = Calibration(
        gpu_memory_bytes=80 * GIB,
        weight_bytes=15 * GIB,
        activation_bytes=2 * GIB,
        non_torch_bytes=GIB,
        cuda_graph_bytes=GIB,
    )
    _, budget = start(utilization=0.9, budget=BudgetArguments(measured=measured))
    # 72 - 15 - 2 - 1 - 1, and nothing left to doubt.
    assert budget.kv_budget_bytes == budget.band.low == budget.band.high == 53 * GIB


def test_what_others_hold_stops_a_start_or_counts_as_ones_own() -> None:
    # github.com/vllm-project/vllm/issues/10533: 68.01 GiB in use, a share of 0.2 of one device.
    used = BudgetArguments(used_bytes=round(68.01 * GIB))
    _, old = start(version="0.6.4", utilization=0.2, budget=used)
    assert old.kv_budget_bytes < 0
    _, new = start(version="0.19.0", utilization=0.2, budget=used)
    assert new.refusal is not None
    assert "does not start" in new.refusal


@pytest.mark.parametrize("tp", [1, 2, 4, 8])
def test_more_ranks_never_load_more(tp: int) -> None:
    shape = shape_of(LLAMA)
    stored, _ = weight_storage(shape)
    sizes = [
        vllm_weight_bytes(
            shape, stored, Sharding(tensor_parallel_size=size), rules=rules_for(None), gpu=H100
        )
        for size in (tp, 2 * tp)
    ]
    assert sizes[1] < sizes[0]


@pytest.mark.parametrize("name", ["Qwen/Qwen3-30B-A3B", "deepseek-ai/DeepSeek-V2-Lite", LLAMA])
@pytest.mark.parametrize("version", ["0.11.0", "0.19.0", "0.33.0"])
def test_larger_batches_never_take_less(name: str, version: str) -> None:
    shape = shape_of(name)
    peaks = []
    for tokens in (2048, 8192, 16_384):
        arguments = VllmArguments(version=version, max_num_batched_tokens=tokens, max_num_seqs=64)
        peaks.append(activation_peak(shape, plan_cache(shape, arguments, H100).settings))
    assert peaks == sorted(peaks)


def test_a_longer_sequence_is_profiled_with_a_longer_video() -> None:
    # Qwen2.5-VL at 32,768: two pairs of frames of 16,384 tokens, four patches each, 2 bytes x
    # (3 x 3,420 + 4 x 1,280); their outputs of 3,584 stay.
    shape = shape_of("Qwen/Qwen2.5-VL-7B-Instruct")

    def peak(length: int) -> int:
        arguments = VllmArguments(max_model_len=length, max_num_seqs=8)
        return encoder_peak(shape, plan_cache(shape, arguments, H100).settings)

    tokens = 2 * 16_384
    assert peak(32_768) == tokens * 4 * 2 * (3 * 3420 + 4 * 1280) + tokens * 2 * 3584
    assert peak(8192) == peak(32_768) // 2
    assert peak(114_688) == peak(128_000) == peak(32_768) * 7 // 2
