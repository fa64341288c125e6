"""Large mixtures, latent and compressed caches: counts against their source, layouts by hand.

Counts are those of transformers 5.24's model classes, built without weights, with class defaults
or the few keys given. Layouts are derived in a comment at each.
"""

from typing import Any

import pytest

from app.core.cache import (
    CacheLayout,
    CachePart,
    CompressedLatent,
    ConvWindow,
    FullAttention,
    MlaLatent,
    SlidingWindow,
    SparseIndexer,
    WindowedLatent,
)
from app.core.inventory import Part
from app.core.model import ModelShape
from app.core.precision import BFLOAT16, FP8_E4M3, MXFP4
from app.errors import InputError
from app.resolve.architectures import shape_from_config

COUNTS: list[tuple[str, dict[str, Any], int]] = [
    ("deepseek_v3", {}, 671_026_404_352),
    ("deepseek_v32", {}, 671_877_929_216),
    ("deepseek_v4", {}, 284_325_869_015),
    (
        "deepseek_v4",
        {"num_hidden_layers": 5, "compress_ratios": [0, 4, 128, 4, 0, 0], "num_hash_layers": 1},
        33_983_758_163,
    ),
    ("glm_moe_dsa", {}, 743_911_199_232),
    (
        "glm_moe_dsa",
        {"num_hidden_layers": 9, "index_topk_freq": 3, "q_lora_rank": 1024},
        62_099_030_528,
    ),
    ("glm4_moe", {}, 103_481_200_640),
    ("glm4_moe_lite", {}, 29_943_390_976),
    ("minimax_m2", {}, 228_689_748_992),
    ("minimax_m3_vl", {}, 448_052_008_448),
    ("gpt_oss", {}, 116_829_156_672),
    ("ernie4_5_moe", {}, 21_825_437_888),
    ("mimo_v2_flash", {}, 308_778_768_832),
    ("step3p7", {}, 197_824_847_872),
    ("axk1", {}, 518_983_052_288),
    ("mistral4", {}, 118_972_826_624),
    ("sarvam_moe", {}, 32_152_648_064),
    ("sarvam_mla", {}, 106_031_763_456),
    ("solar_open", {}, 102_651_793_408),
    ("hy_v3", {}, 295_033_528_320),
    ("hy_v4", {}, 58_278_193_133),
    ("laguna", {}, 33_189_975_808),
    ("inkling_mm_model", {}, 1_740_191_689_202),
    ("axk2", {}, 20_314_494_976),
    ("muse_spark", {}, 822_036_513_792),
    ("mistral_large4", {}, 1_051_822_421_536),
    (
        "mistral_large4",
        {
            "text_config": {
                "num_hidden_layers": 6,
                "kv_source_layers": [0, 0, 2, 2, 4, 5],
                "index_topk_freq": 2,
                "no_rope_layer_interval": 3,
            }
        },
        78_485_542_944,
    ),
    (
        "dots1",
        {
            "n_routed_experts": 128,
            "n_shared_experts": 2,
            "num_experts_per_tok": 6,
            "first_k_dense_replace": 1,
        },
        161_206_276_032,
    ),
    (
        "hunyuan_v1_moe",
        {
            "num_experts": 64,
            "moe_topk": [8] * 32,
            "intermediate_size": 3072,
            "head_dim": 128,
            "num_key_value_heads": 8,
        },
        82_251_616_256,
    ),
]


def shape(model_type: str, **keys: Any) -> ModelShape:
    return shape_from_config({"model_type": model_type, **keys})


def counted(model: ModelShape, kind: type[CachePart]) -> int:
    """Layers times parts of exactly this kind."""
    return sum(g.count for g in model.groups for part in g.parts if type(part) is kind)


@pytest.mark.parametrize(("model_type", "keys", "total"), COUNTS)
def test_parameters_are_those_of_the_model_class(
    model_type: str, keys: dict[str, Any], total: int
) -> None:
    assert shape(model_type, **keys).parameters.total == total


def test_active_parameters_leave_out_the_experts_a_token_does_not_use() -> None:
    # 8 of 256 experts in 58 layers: 671.0e9 - 248 x 58 x 3 x 7168 x 2048
    model = shape("deepseek_v3")
    unused = 248 * 58 * 3 * 7168 * 2048
    assert model.parameters.active == 671_026_404_352 - unused


def test_buffers_and_prediction_modules_are_weights_but_no_parameters() -> None:
    model = shape("deepseek_v3")
    buffers = [weight for weight in model.weights if weight.buffer and weight.part is Part.ROUTER]
    assert sum(weight.total for weight in buffers) == 58 * 256
    assert model.parameters.by_part[Part.MTP] > 11_000_000_000
    assert [group.layers for group in model.draft_groups] == [(61,)]
    none = shape("deepseek_v3", num_nextn_predict_layers=0)
    assert none.draft_groups == ()
    assert none.parameters.total == model.parameters.total


def test_a_latent_is_the_same_on_every_rank() -> None:
    (group,) = shape("deepseek_v3").groups
    (part,) = group.parts
    assert isinstance(part, MlaLatent)
    for ranks in (1, 8):
        layout = CacheLayout(tensor_parallel_size=ranks)
        assert part.bytes_per_token(layout) == (512 + 64) * 2


@pytest.mark.parametrize(
    ("keys", "kind"),
    [
        ({"kv_lora_rank": None}, FullAttention),
        ({"qk_nope_head_dim": 0, "qk_rope_head_dim": 0, "use_mla": False}, FullAttention),
        ({}, MlaLatent),
    ],
)
def test_deepseek_v2_without_a_latent_is_plain_attention(
    keys: dict[str, Any], kind: type[CachePart]
) -> None:
    model = shape(
        "deepseek_v2", num_experts_per_tok=6, hidden_size=1280, num_attention_heads=10, **keys
    )
    assert counted(model, kind) == 32


def test_shared_indexers_keep_no_index_keys() -> None:
    # GLM-5.2: own indexers in 0, 1, 2 and then 6, 10, ..., 74, which are 3 + 18 of 78.
    model = shape("glm_moe_dsa", index_topk_freq=4, index_skip_topk_offset=3)
    listed = ["full"] * 3 + ["full" if i % 4 == 2 else "shared" for i in range(3, 78)]
    for same in (model, shape("glm_moe_dsa", indexer_types=listed)):
        assert counted(same, SparseIndexer) == 21
        assert counted(same, MlaLatent) == 78
    keys = next(p for g in model.groups for p in g.parts if isinstance(p, SparseIndexer))
    quantised = CacheLayout(attention_dtype=FP8_E4M3)
    assert keys.bytes_per_token(quantised) == 128 + 4  # one fp32 scale, whatever the cache's type


def test_minimax_m3_keeps_index_keys_in_the_models_precision() -> None:
    flags = [0, 1, 1]
    model = shape(
        "minimax_m3_vl",
        text_config={
            "num_hidden_layers": 3,
            "moe_layer_freq": flags,
            "sparse_attention_config": {"sparse_attention_freq": flags, "sparse_index_dim": 64},
        },
    )
    keys = next(p for g in model.groups for p in g.parts if isinstance(p, SparseIndexer))
    assert keys.bytes_per_token(CacheLayout(attention_dtype=FP8_E4M3, model_dtype=BFLOAT16)) == 128
    assert counted(model, SparseIndexer) == 2
    assert counted(model, FullAttention) == 3


def test_deepseek_v4_compresses_by_layer() -> None:
    # ratios run on into the prediction module, whose entry no layer of the model has
    model = shape("deepseek_v4", num_hidden_layers=3, compress_ratios=[0, 4, 128, 0])
    windows, sparse, heavy = (group.parts for group in model.groups)
    entry = 448 + 2 * 64 + 8
    assert windows == (WindowedLatent(window=128, entry_bytes=entry),)
    assert heavy == (
        *windows,
        CompressedLatent(compress_ratio=128, entry_bytes=entry),
        # one group of 128 tokens: values and scores of 512 elements in fp32
        WindowedLatent(window=128, entry_bytes=4 * 2 * 512, compressor=True),
    )
    assert sparse == (
        *windows,
        CompressedLatent(compress_ratio=4, entry_bytes=entry),
        # two overlapping groups of 4 tokens, twice as wide
        WindowedLatent(window=8, entry_bytes=4 * 2 * 2 * 512, compressor=True),
        CompressedLatent(compress_ratio=4, entry_bytes=128 + 4, indexer=True),
        WindowedLatent(window=8, entry_bytes=4 * 2 * 2 * 128, compressor=True),
    )
    assert [group.parts for group in model.draft_groups] == [windows]


def test_deepseek_v4_names_the_precision_of_its_experts() -> None:
    for keys, dtype in (
        ({"expert_dtype": "fp4"}, MXFP4),
        ({"expert_dtype": "fp8"}, FP8_E4M3),
        ({"expert_dtype": "fp4", "quantization_config": {"moe_quant_algo": "NVFP4"}}, None),
        ({}, None),
    ):
        weights = shape("deepseek_v4", **keys).weights
        assert {w.dtype for w in weights if w.part is Part.ROUTED_EXPERTS} == {dtype}


def test_gpt_oss_has_windows_in_even_layers() -> None:
    model = shape("gpt_oss", num_hidden_layers=5)
    windowed, full = model.groups
    assert (windowed.layers, full.layers) == ((0, 2, 4), (1, 3))
    assert isinstance(windowed.parts[0], SlidingWindow)
    assert windowed.parts[0].window == 128
    assert "attention_sinks" in model.traits
    assert counted(shape("gpt_oss", sliding_window=None), SlidingWindow) == 0


def test_mimo_v2_layers_differ_in_heads_and_windows() -> None:
    model = shape(
        "mimo_v2_flash",
        num_hidden_layers=3,
        hybrid_layer_pattern=[0, 1, 1],
        moe_layer_freq=[0, 1, 1],
        sliding_window_size=128,
        swa_num_key_value_heads=8,
    )
    full, windowed = (group.parts[0] for group in model.groups)
    assert full == FullAttention(num_key_value_heads=4, head_dim=192, v_head_dim=128)
    assert windowed == SlidingWindow(
        num_key_value_heads=8, head_dim=192, v_head_dim=128, window=128
    )
    assert len(model.draft_groups) == 1


def test_step_lists_run_on_into_the_prediction_modules() -> None:
    model = shape(
        "step3p5",
        num_hidden_layers=2,
        num_nextn_predict_layers=2,
        layer_types=["full_attention", "sliding_attention", "sliding_attention", "full_attention"],
        sliding_window=512,
        attention_other_setting={"num_attention_heads": 96},
        moe_layers_enum="1",
    )
    assert [group.num_attention_heads for group in model.groups] == [64, 96]
    assert [type(group.parts[0]) for group in model.draft_groups] == [SlidingWindow, FullAttention]


def test_hunyuan_layers_may_read_another_layers_cache() -> None:
    model = shape("hunyuan", num_hidden_layers=4, use_cla=True, cla_share_factor=2)
    assert [(g.layers, bool(g.parts)) for g in model.groups] == [((0, 2), True), ((1, 3), False)]


def test_longcat_layers_have_two_latents_and_experts_without_weights() -> None:
    model = shape("longcat_flash", num_layers=3, zero_expert_num=256)
    assert counted(model, MlaLatent) == 6
    router = next(w for w in model.weights if w.part is Part.ROUTER and not w.buffer)
    assert router.shape == (512 + 256, 6144)


def test_inkling_windows_follow_the_listed_ids() -> None:
    text = {"num_hidden_layers": 3, "local_layer_ids": [0, 2]}
    model = shape("inkling_mm_model", text_config=text)
    assert counted(model, SlidingWindow) == 2
    assert counted(model, ConvWindow) == 3
    unlisted = shape("inkling_mm_model", text_config={"num_hidden_layers": 3})
    assert counted(unlisted, FullAttention) == 3
    assert unlisted.assumptions


def test_mistral_large_4_shares_latents_between_layers() -> None:
    # layers 1 and 3 read 0 and 2; of those that own a latent, 2 and 5 have no rotary part
    text = {
        "num_hidden_layers": 6,
        "kv_source_layers": [0, 0, 2, 2, 4, 5],
        "no_rope_layer_interval": 3,
        "index_topk_pattern": "FSFSSS",
    }
    model = shape("mistral_large4", text_config=text)
    kept = {
        index: [p.bytes_per_token(CacheLayout()) for p in group.parts]
        for group in model.groups
        for index in group.layers
    }
    assert kept == {0: [1152, 256], 1: [], 2: [1024, 256], 3: [], 4: [1152], 5: [1024]}


def test_a_stated_window_is_applied_where_no_class_clears_it() -> None:
    keys = {"sliding_window": 4096, "use_sliding_window": False}
    assert counted(shape("glm4_moe", **keys), SlidingWindow) == 46
    assert counted(shape("mimo", vocab_size=10, **keys), SlidingWindow) == 32


@pytest.mark.parametrize("null", [{"n_routed_experts": None}, {"num_experts": 0}])
def test_no_experts_means_dense_layers(null: dict[str, Any]) -> None:
    model = shape("dots1", moe_layer_freq=2, **null)
    assert Part.ROUTED_EXPERTS not in model.parameters.by_part


@pytest.mark.parametrize(
    ("model_type", "keys"),
    [
        ("deepseek_v3", {"moe_layer_freq": 0}),
        ("deepseek_v3", {"moe_layer_freq": [1, 0]}),
        ("deepseek_v3", {"mlp_layer_types": ["dense", "strange"] * 40}),
        ("deepseek_v3", {"num_nextn_predict_layers": 10**6}),
        ("glm_moe_dsa", {"index_topk_pattern": "FX" * 40}),
        ("glm_moe_dsa", {"indexer_types": [[]] * 78}),
        ("glm_moe_dsa", {"index_topk_freq": 0}),
        ("deepseek_v4", {"compress_ratios": [4, 4]}),
        ("deepseek_v4", {"o_groups": 7}),
        ("deepseek_v4", {"qk_rope_head_dim": 1024}),
        ("deepseek_v4", {"layer_types": ["unheard_of"] * 43}),
        ("mimo_v2_flash", {"hybrid_layer_pattern": [2] * 48}),
        ("step3p5", {"moe_layers_enum": "1,x"}),
        ("hunyuan_v1_moe", {"moe_topk": [8]}),
        ("hunyuan_v1_moe", {"use_cla": True, "cla_share_factor": 0}),
        ("laguna", {"num_attention_heads_per_layer": ["many"]}),
        ("bailing_moe", {}),
    ],
)
def test_impossible_sizes_are_refused_by_name(model_type: str, keys: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        shape(model_type, **keys)
