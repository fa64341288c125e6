"""Laws of the arithmetic: what must hold whatever the model, the context or the machine."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.cache import CacheLayout, FullAttention, MlaLatent, SlidingWindow
from app.core.concurrency import max_concurrency
from app.core.crossover import crossover_batch, crossover_context, crossover_token_slots
from app.core.decode import inter_token_seconds, step_bytes_within, step_seconds
from app.core.kv import KvProfile, profile_of
from app.core.model import LayerGroup
from app.core.parallel import kv_heads_per_rank, pipeline_stages
from app.core.plan import layout_on_nodes, with_headroom
from app.core.precision import FP8_E4M3, NVFP4
from app.core.weights import StepWeights, expected_experts_touched
from app.errors import InputError

heads = st.sampled_from([1, 2, 4, 8, 16])
layers = st.integers(1, 80)
contexts = st.integers(1, 2**20)
windows = st.integers(1, 2**16)


def profile(
    full: int, windowed: int = 0, window: int = 1, kv_heads: int = 8, shards: int = 1
) -> KvProfile:
    sizes = {"num_key_value_heads": kv_heads, "head_dim": 128, "v_head_dim": 128}
    groups = (
        LayerGroup(layers=tuple(range(full)), parts=(FullAttention(**sizes),)),
        LayerGroup(
            layers=tuple(range(full, full + windowed)),
            parts=(SlidingWindow(**sizes, window=window),),
        ),
    )
    return profile_of(groups, CacheLayout(), context_shards=shards)


@given(layers, layers, windows, contexts, heads)
def test_more_of_anything_never_takes_less(
    full: int, windowed: int, window: int, context: int, kv_heads: int
) -> None:
    here = profile(full, windowed, window, kv_heads).bytes_per_sequence(context)
    assert profile(full + 1, windowed, window, kv_heads).bytes_per_sequence(context) > here
    assert profile(full, windowed, window, kv_heads).bytes_per_sequence(context + 1) > here
    assert profile(full, windowed, window + 1, kv_heads).bytes_per_sequence(context) >= here
    assert profile(full, windowed, window, 2 * kv_heads).bytes_per_sequence(context) == 2 * here


@given(layers, layers, windows, contexts)
def test_the_segments_are_the_cache(full: int, windowed: int, window: int, context: int) -> None:
    here = profile(full, windowed, window)
    segment = [s for s in here.segments if s.from_context <= context][-1]
    line = segment.fixed_bytes + segment.bytes_per_token * context
    assert line == here.bytes_per_sequence(context)


@given(layers, layers, windows, contexts)
def test_a_window_keeps_no_more_than_all(
    full: int, windowed: int, window: int, context: int
) -> None:
    windowed_bytes = profile(full, windowed, window).bytes_per_sequence(context)
    everything = profile(full + windowed).bytes_per_sequence(context)
    assert windowed_bytes <= everything
    assert (windowed_bytes == everything) == (context <= window)


@given(heads, st.sampled_from([1, 2, 4, 8, 16, 32]))
def test_ranks_hold_at_least_one_head_and_together_all(kv_heads: int, ranks: int) -> None:
    share = kv_heads_per_rank(kv_heads, ranks)
    assert share >= 1
    assert share * ranks >= kv_heads
    assert share * ranks == kv_heads or share == 1


@pytest.mark.parametrize(("kv_heads", "ranks"), [(8, 3), (3, 8), (6, 4)])
def test_heads_that_do_not_divide_are_refused(kv_heads: int, ranks: int) -> None:
    with pytest.raises(InputError):
        kv_heads_per_rank(kv_heads, ranks)


def test_bytes_by_hand() -> None:
    # K 192 and V 128 wide, 4 heads, 2 bytes; and halved by fp8
    part = FullAttention(num_key_value_heads=4, head_dim=192, v_head_dim=128)
    assert part.bytes_per_token(CacheLayout()) == 4 * 320 * 2
    assert part.bytes_per_token(CacheLayout(attention_dtype=FP8_E4M3)) == 4 * 320
    # 4 bits and an 8-bit scale per 16 elements: 9/16 of a byte
    assert part.bytes_per_token(CacheLayout(attention_dtype=NVFP4)) == 4 * 320 * 9 // 16
    latent = MlaLatent(kv_lora_rank=512, qk_rope_head_dim=64)
    assert latent.bytes_per_token(CacheLayout(tensor_parallel_size=8)) == 1152


@given(layers, contexts, st.sampled_from([2, 4, 8]))
def test_context_shards_hold_the_tokens_between_them(full: int, context: int, shards: int) -> None:
    whole = profile(full).bytes_per_sequence(context)
    share = profile(full, shards=shards).bytes_per_sequence(context)
    assert whole <= share * shards < whole + shards * profile(full).bytes_per_sequence(1)


@given(st.integers(0, 2**60), st.integers(1, 2**40))
def test_concurrency_is_the_whole_number_that_fits(budget: int, per_sequence: int) -> None:
    count = max_concurrency(budget, per_sequence)
    assert count * per_sequence <= budget < (count + 1) * per_sequence


@given(st.integers(1, 2**45), layers, layers, windows, st.integers(1, 4096))
def test_below_the_crossover_weights_dominate_and_beyond_it_the_cache(
    weight_bytes: int, full: int, windowed: int, window: int, batch: int
) -> None:
    here = profile(full, windowed, window)
    context = crossover_context(StepWeights(always_bytes=weight_bytes), here, batch)
    assert context is not None
    assert here.bytes_per_sequence(context) * batch <= weight_bytes or context == 0
    assert here.bytes_per_sequence(context + 1) * batch > weight_bytes


@settings(max_examples=50)
@given(
    st.integers(10**6, 10**12),
    st.integers(10**6, 10**9),
    st.sampled_from([(128, 8), (8, 2), (256, 8), (16, 1)]),
    contexts,
)
def test_the_crossover_of_experts_is_the_last_batch_that_weights_dominate(
    always: int, per_expert: int, experts: tuple[int, int], context: int
) -> None:
    here = profile(32)
    weights = StepWeights(always_bytes=always, routed=((Fraction(per_expert), *experts),))
    batch = crossover_batch(weights, here, context)
    assert batch is not None
    assert here.total_bytes(context, batch) <= weights.bytes_for(batch)
    assert here.total_bytes(context, batch + 1) > weights.bytes_for(batch + 1)


def test_a_cache_that_does_not_grow_has_no_crossover() -> None:
    assert crossover_token_slots(10**9, Fraction(0)) is None
    only_windows = profile(0, 4, 100)
    # 4 layers x 100 tokens x 4,096 B = 1,638,400 B at most
    weights = StepWeights(always_bytes=10**9)
    assert crossover_context(weights, only_windows, 1) is None
    assert crossover_context(weights, only_windows, 1000) == 10**6 // (4 * 4096)


@given(st.sampled_from([(128, 8), (8, 2), (60, 4)]), st.integers(1, 10_000))
def test_a_batch_touches_no_fewer_experts_than_a_token_and_no_more_than_all(
    experts: tuple[int, int], batch: int
) -> None:
    total, top_k = experts
    touched = expected_experts_touched(total, top_k, batch)
    assert top_k <= float(touched) * (1 + 1e-12) <= total * (1 + 1e-12)
    assert touched <= expected_experts_touched(total, top_k, batch + 1)


@given(
    st.floats(1e-4, 10),
    st.floats(0.1, 1),
    st.floats(0, 1),
    st.sampled_from([1, 8]),
    st.integers(10**11, 10**13),
)
def test_the_bytes_within_a_latency_take_no_longer(
    seconds: float, efficiency: float, overhead: float, ranks: int, bandwidth: int
) -> None:
    within = step_bytes_within(
        seconds, bandwidth, efficiency=efficiency, tp_overhead=overhead, tensor_parallel_size=ranks
    )
    taken = inter_token_seconds(
        step_seconds(within, bandwidth),
        efficiency=efficiency,
        tp_overhead=overhead,
        tensor_parallel_size=ranks,
    )
    assert taken <= seconds * (1 + 1e-9)


@given(st.integers(1, 200), st.integers(1, 16))
def test_a_pipeline_holds_every_layer_once(count: int, stages: int) -> None:
    if stages > count:
        with pytest.raises(InputError):
            pipeline_stages(count, stages)
        return
    ranges = pipeline_stages(count, stages)
    assert [layer for stage in ranges for layer in stage] == list(range(count))
    assert max(map(len, ranges)) - min(map(len, ranges)) <= 1


@pytest.mark.parametrize(
    ("nodes", "headroom", "spare", "expected"),
    [
        (9, 0.3, 1, 13),
        # 30 x 1.1 is 33.000000000000004 in binary; a person means 33
        (30, 0.1, 0, 33),
        (10, 0.3, 1, 14),
        (1, 0.0, 0, 1),
    ],
)
def test_headroom_is_taken_in_decimals(
    nodes: int, headroom: float, spare: int, expected: int
) -> None:
    layout = layout_on_nodes(8, 8)
    found = with_headroom(nodes, layout, spike_headroom=headroom, spare_nodes=spare)
    assert found == expected


@pytest.mark.parametrize(
    ("replica", "node", "per_unit", "nodes"),
    [(1, 8, 8, 1), (3, 8, 2, 1), (8, 8, 1, 1), (16, 8, 1, 2), (12, 8, 1, 2)],
)
def test_replicas_on_nodes(replica: int, node: int, per_unit: int, nodes: int) -> None:
    layout = layout_on_nodes(replica, node)
    assert (layout.replicas_per_unit, layout.nodes_per_unit) == (per_unit, nodes)


def test_a_replica_over_two_nodes_gets_whole_pairs_and_then_spares() -> None:
    # 3 pairs x 1.3 = 3.9, so 4 pairs; and a spare
    layout = layout_on_nodes(16, 8)
    assert with_headroom(3, layout, spike_headroom=0.3, spare_nodes=1) == 9


def test_ranks_that_share_experts_stand_together() -> None:
    # 16 ranks of one GPU: one replica over two nodes, 16 batches
    layout = layout_on_nodes(16, 8, ranks_per_replica=16)
    assert (layout.nodes_per_unit, layout.ranks_per_unit, layout.gpus_used) == (2, 16, 16)
