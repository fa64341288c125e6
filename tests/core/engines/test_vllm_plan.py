"""vLLM 0.33's planning on hand-made models; the arithmetic of each figure stands beside it."""

from dataclasses import replace

import pytest

from app.core.cache import (
    ChunkedLocal,
    CompressedLatent,
    CrossAttention,
    SparseIndexer,
    WindowedLatent,
)
from app.core.engines.vllm import VllmArguments, plan_cache
from app.core.inventory import Part, Split, Weight
from app.core.precision import FLOAT32
from app.core.recurrent import GatedDeltaState, Mamba2State, UnitState
from app.errors import InputError
from tests.core.engines.shapes import A100, B200, H100, full, latent, model, window

GIB = 2**30
IN_FLIGHT = 2 * 8192
"""Two batches of 8192 tokens: the API server's default on an H100, scheduled asynchronously."""


def test_one_kind_of_layer_is_one_group_of_sixteen_token_blocks() -> None:
    plan = plan_cache(model((32, full())), VllmArguments(max_model_len=8192), H100)
    # 16 tokens x 8 heads x (128 + 128) x 2 bytes x 32 layers
    assert plan.bytes_per_block == 16 * 8 * 256 * 2 * 32
    assert plan.blocks_by_group(8192) == (512,)
    assert plan.request_bytes(1) == plan.bytes_per_block
    assert plan.request_bytes(17) == 2 * plan.bytes_per_block


def test_a_budget_gives_whole_blocks_and_the_concurrency_the_log_prints() -> None:
    plan = plan_cache(model((32, full())), VllmArguments(max_model_len=8192), H100)
    pool = plan.capacity(10 * GIB)
    # 10 GiB / 2 MiB a block = 5120 blocks; / 512 a request
    assert (pool.num_blocks, pool.max_concurrency) == (5120, 10.0)
    assert pool.kv_cache_tokens == 81920
    assert pool.fits


def test_the_null_block_has_to_fit_beside_one_request() -> None:
    plan = plan_cache(model((32, full())), VllmArguments(max_model_len=8192), H100)
    assert not plan.capacity(512 * plan.bytes_per_block).fits
    assert plan.capacity(513 * plan.bytes_per_block).fits
    # 511 blocks are usable: 511 x 16 tokens
    assert plan.capacity(512 * plan.bytes_per_block).auto_fit_max_len == 8176
    assert plan.capacity(plan.bytes_per_block).auto_fit_max_len == 0


def test_kv_heads_are_replicated_beyond_their_number() -> None:
    def block(tp: int) -> int:
        return plan_cache(
            model((1, full(kv_heads=2))), VllmArguments(tensor_parallel_size=tp), H100
        ).bytes_per_block

    assert [block(tp) for tp in (1, 2, 4, 8)] == [16384, 8192, 8192, 8192]


def test_windows_beside_full_layers_are_cut_into_groups_of_the_smaller_kind() -> None:
    # 52 windows and 10 full layers (Gemma 3 27B): 6 groups of windows and one full, each billed
    # as 10 layers; a window of 1024 keeps 1023 tokens and those in flight, and one block more.
    plan = plan_cache(
        model((52, window(1024, 16)), (10, full(16))), VllmArguments(max_model_len=131072), H100
    )
    page = 16 * 16 * 256 * 2
    assert plan.bytes_per_block == 10 * page
    held = -(-(1023 + IN_FLIGHT) // 16) + 1
    assert plan.blocks_by_group(131072) == (*[held] * 6, 8192)
    assert plan.request_bytes(131072) == 10 * page * (6 * held + 8192)
    assert [row.layers for row in plan.rows(131072)] == [9, 9, 9, 9, 8, 8, 10]


def test_kinds_of_about_one_size_are_padded_to_the_larger() -> None:
    plan = plan_cache(model((12, window(128)), (13, full())), VllmArguments(), H100)
    assert [group.count for group in plan.groups] == [12, 13]


def test_smaller_pages_take_more_tokens_or_padding() -> None:
    # 4 heads beside 8: half the page, so blocks of 32 tokens
    whole = plan_cache(model((2, full(4)), (2, window(128, 8))), VllmArguments(), H100)
    assert [row.block_size for row in whole.rows(1)] == [32, 16]
    # 6 heads beside 8: the page is padded
    padded = plan_cache(model((2, full(6)), (2, window(128, 8))), VllmArguments(), H100)
    assert [row.block_size for row in padded.rows(1)] == [16, 16]
    assert padded.bytes_per_block == whole.bytes_per_block


def test_latents_beside_windows_are_all_allocated_in_full_where_pages_differ() -> None:
    plan = plan_cache(model((2, latent()), (2, window(128, 8))), VllmArguments(), H100)
    assert len(plan.groups) == 1
    assert plan.blocks(131072) == 8192


def test_chunks_hold_a_chunk_and_what_is_in_flight() -> None:
    chunk = ChunkedLocal(num_key_value_heads=8, head_dim=128, v_head_dim=128, chunk=8192)
    plan = plan_cache(model((36, chunk), (12, full())), VllmArguments(max_model_len=131072), H100)
    assert plan.blocks_by_group(131072) == (*[(8192 + IN_FLIGHT) // 16] * 3, 8192)


def test_without_the_hybrid_manager_windows_are_full() -> None:
    arguments = VllmArguments(disable_hybrid_kv_cache_manager=True)
    plan = plan_cache(model((5, window(1024)), (1, full())), arguments, H100)
    assert plan.blocks_by_group(131072) == (8192,)
    assert plan.bytes_per_block == 6 * 16 * 8 * 256 * 2


def test_without_the_hybrid_manager_states_refuse_to_start() -> None:
    arguments = VllmArguments(disable_hybrid_kv_cache_manager=True)
    with pytest.raises(InputError, match="hybrid cache manager"):
        plan_cache(model((3, STATE), (1, full())), arguments, H100)


STATE = Mamba2State(
    num_heads=64, head_dim=64, state_size=128, n_groups=8, conv_kernel=4, state_dtype=FLOAT32
)


def test_states_take_blocks_of_the_attention_layers_page() -> None:
    # NVIDIA Nemotron 3 Nano: conv 3 x (4096 + 2 x 8 x 128) x 2 + state 64 x 64 x 128 x 4 bytes;
    # attention 2 x 256 x 2 bytes a token; the fewest 16s of tokens that cover the state
    plan = plan_cache(model((23, STATE), (6, full(2))), VllmArguments(max_model_len=8192), H100)
    state = 3 * (4096 + 2048) * 2 + 64 * 64 * 128 * 4
    assert plan.block_size == 16 * -(-state // (16 * 1024))
    assert plan.block_size == 2096
    # running state, the one before, and one exported inside a prefill
    assert plan.blocks_by_group(8192) == (3, 3, 3, 3, 4)


def test_states_need_one_block_without_prefix_caching() -> None:
    arguments = VllmArguments(max_model_len=8192, enable_prefix_caching=False)
    plan = plan_cache(model((23, STATE), (6, full(2))), arguments, H100)
    assert plan.blocks_by_group(8192) == (1, 1, 1, 1, 4)


@pytest.mark.parametrize(("gpu", "block", "blocks"), [(H100, 832, 3), (A100, 784, 2)])
def test_delta_nets_align_blocks_where_states_are_exported(gpu, block, blocks) -> None:
    # Qwen3.5 27B: conv 3 x (2 x 2048 + 6144) x 2 bytes, state 48 x 128 x 128 x 4; attention
    # 4 x 512 x 2 = 4096 bytes a token: 16 x 49 tokens, or 64 x 13 where FlashInfer exports states
    net = GatedDeltaState(
        num_key_heads=16,
        num_value_heads=48,
        key_head_dim=128,
        value_head_dim=128,
        conv_kernel=4,
        state_dtype=FLOAT32,
    )
    plan = plan_cache(model((48, net), (16, full(4, 256))), VllmArguments(max_model_len=8192), gpu)
    assert plan.block_size == block
    assert plan.blocks_by_group(8192)[0] == blocks


def test_sparse_latents_and_their_index_keys_are_one_group() -> None:
    # DeepSeek-V3.2: 61 x (576 x 2 + 132) bytes a token in blocks of 64
    part = (SparseIndexer(index_head_dim=128, quantised=True), latent())
    plan = plan_cache(model((61, part), heads=128), VllmArguments(), H100)
    assert plan.bytes_per_block == 64 * 61 * (1152 + 132)
    packed = plan_cache(model((61, part), heads=128), VllmArguments(kv_cache_dtype="fp8"), H100)
    assert packed.bytes_per_block == 64 * 61 * (656 + 132)
    assert packed.settings.kv_cache_dtype == "fp8_ds_mla"
    plain = plan_cache(model((61, part), heads=128), VllmArguments(kv_cache_dtype="fp8"), B200)
    assert plain.bytes_per_block == 64 * 61 * (576 + 132)
    with pytest.raises(InputError, match="sparse latent"):
        plan_cache(model((61, part), heads=128), VllmArguments(), A100)


def test_compressed_caches_are_packed_into_one_block() -> None:
    # DeepSeek-V4-Flash: 43 windows; 21 layers with entries of 4 tokens, index keys and two
    # compressors; 20 with entries of 128 and one. Pages are whole multiples of 576 bytes.
    local = WindowedLatent(window=128, entry_bytes=584)
    four = (
        local,
        CompressedLatent(compress_ratio=4, entry_bytes=132, indexer=True),
        WindowedLatent(window=8, entry_bytes=4 * 512, compressor=True),
        CompressedLatent(compress_ratio=4, entry_bytes=584),
        WindowedLatent(window=8, entry_bytes=4 * 2048, compressor=True),
    )
    many = (
        local,
        CompressedLatent(compress_ratio=128, entry_bytes=584),
        WindowedLatent(window=128, entry_bytes=4 * 1024, compressor=True),
    )
    plan = plan_cache(
        model((2, local), (21, four), (20, many), heads=64), VllmArguments(max_model_len=8192), H100
    )
    # the widest group: 21 x (64 x 132 -> 8640, 64 x 584 -> 37440) + 20 x (2 x 584 -> 1728)
    assert plan.bytes_per_block == 21 * (8640 + 37440) + 20 * 1728
    assert [group.count for group in plan.groups] == [22, 21, 62, 42, 20]
    assert plan.blocks_by_group(8192) == (129, 129, 32, 2049, 1025)


def test_modules_that_draft_add_their_layers_and_lookahead() -> None:
    shape = model((4, window(128)), (4, full()), drafts=(full(), full()))
    arguments = VllmArguments(
        max_model_len=131072, speculative_method="mtp", num_speculative_tokens=2
    )
    plan = plan_cache(shape, arguments, H100)
    assert sum(group.count for group in plan.groups) == 10
    # two modules in a chain: the window keeps one token more
    assert plan.blocks_by_group(131072)[0] == -(-(127 + 1 + IN_FLIGHT) // 16) + 1


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (VllmArguments(speculative_method="mtp"), "speculative_method"),
        (VllmArguments(speculative_method="eagle3"), "speculative_method"),
        (VllmArguments(speculative_method="ngram"), "num_speculative_tokens"),
        (VllmArguments(num_speculative_tokens=2), "speculative_method"),
        (VllmArguments(tensor_parallel_size=3), "tensor_parallel_size"),
        (VllmArguments(decode_context_parallel_size=2), "decode_context_parallel_size"),
        (VllmArguments(kv_cache_dtype="float16"), "kv_cache_dtype"),
        (VllmArguments(kv_cache_dtype="fp8_ds_mla"), "kv_cache_dtype"),
        (VllmArguments(kv_cache_dtype="int2"), "kv_cache_dtype"),
        (VllmArguments(block_size=24), "kv_cache_dtype"),
    ],
)
def test_what_the_engine_refuses_is_refused(arguments: VllmArguments, field: str) -> None:
    with pytest.raises(InputError) as refusal:
        plan_cache(model((2, full())), arguments, H100)
    assert refusal.value.errors[0].loc == (field,)


def test_an_unstated_longest_sequence_is_the_engines_guess() -> None:
    shape = model((2, full()), max_position_embeddings=None)
    plan = plan_cache(shape, VllmArguments(), H100)
    assert plan.settings.max_model_len == 2048
    assert any("2048" in note for note in plan.assumptions)
    assert plan_cache(shape, VllmArguments(max_model_len=100), H100).blocks(100) == 7


def test_a_padded_vocabulary_has_to_divide() -> None:
    # 49155 words are padded to 49216 = 64 x 769, which 3 does not divide; 48000 = 64 x 750 it does
    arguments = VllmArguments(tensor_parallel_size=3)
    kept = model((2, full(kv_heads=6)), heads=48)
    plan_cache(replace(kept, vocab_size=48000), arguments, H100)
    with pytest.raises(InputError, match="49216"):
        plan_cache(replace(kept, vocab_size=49155), arguments, H100)


def test_what_qwens_class_does_not_take_is_refused() -> None:
    chunks = model((2, full()), traits=frozenset({"dual_chunk_attention"}))
    plan_cache(chunks, VllmArguments(version="0.10.2"), H100)
    with pytest.raises(InputError, match="dual_chunk"):
        plan_cache(chunks, VllmArguments(), H100)
    mixed = model((2, full()), traits=frozenset({"windows_in_some_layers"}))
    with pytest.raises(InputError, match="all layers or in none"):
        plan_cache(mixed, VllmArguments(), H100)


def test_the_stage_with_the_least_room_decides() -> None:
    # 10 layers in 4 stages: the remainder goes to the middle ones
    plan = plan_cache(model((10, full())), VllmArguments(pipeline_parallel_size=4), H100)
    page = 16 * 8 * 256 * 2
    assert plan.stage_block_bytes == (2 * page, 3 * page, 3 * page, 2 * page)
    pool = plan.capacity([100 * page, 90 * page, 100 * page, 100 * page], context=160)
    assert pool.num_blocks == 30
    assert pool.fits
    # a step more in flight a stage: 4 + 1 batches
    assert plan.settings.max_in_flight_tokens == 5 * 8192


def test_decode_context_parallelism_shares_a_sequence_among_ranks() -> None:
    arguments = VllmArguments(tensor_parallel_size=8, decode_context_parallel_size=4)
    plan = plan_cache(model((1, full(kv_heads=2))), arguments, H100)
    assert plan.blocks(8192) == 8192 // 4 // 16
    with pytest.raises(InputError, match="sliding windows"):
        plan_cache(model((1, window(128, kv_heads=2))), arguments, H100)
    local = WindowedLatent(window=128, entry_bytes=584)
    with pytest.raises(InputError, match="sliding windows"):
        plan_cache(model((2, local)), arguments, H100)


def test_a_model_that_caches_nothing_has_one_block() -> None:
    shape = model((2, ()), traits=frozenset({"pooling"}))
    plan = plan_cache(shape, VllmArguments(), H100)
    assert plan.groups == ()
    assert (plan.request_bytes(512), plan.capacity(10 * GIB).num_blocks) == (0, 1)
    with pytest.raises(InputError, match="Triton"):
        plan_cache(shape, VllmArguments(kv_cache_dtype="fp8"), A100)


def test_encoder_decoders_other_than_a_few_are_not_served() -> None:
    crossing = CrossAttention(
        num_key_value_heads=8, head_dim=64, v_head_dim=64, encoder_tokens=1500
    )
    layer = (full(8, 64), crossing)
    with pytest.raises(InputError, match="does not serve"):
        plan_cache(model((6, layer), heads=8), VllmArguments(), H100)
    whisper = model((6, layer), heads=8, model_type="whisper")
    plan = plan_cache(whisper, VllmArguments(max_model_len=448), H100)
    # the encoder's part reserves a whole batch: 8192 / 16
    assert plan.blocks_by_group(448) == (28, 512)
    assert plan.blocks_by_group(1) == (1, 512)


def test_recurrences_without_an_engine_are_not_served() -> None:
    with pytest.raises(InputError, match="recurrence"):
        plan_cache(model((2, UnitState(units=32, state_per_unit=64))), VllmArguments(), H100)


def test_a_width_that_does_not_divide_is_named() -> None:
    weight = Weight(
        name="visual.mlp.up", shape=(3420, 1280), part=Part.VISION, split=Split.COLUMN, linear=True
    )
    shape = replace(model((2, full())), weights=(weight,))
    with pytest.raises(InputError, match=r"3420 of visual\.mlp\.up"):
        plan_cache(shape, VllmArguments(tensor_parallel_size=8), H100)


def test_a_class_that_is_gone_is_said() -> None:
    shape = model((2, full()), architecture="BaichuanForCausalLM")
    assert "0.23.0" in " ".join(plan_cache(shape, VllmArguments(), H100).assumptions)
