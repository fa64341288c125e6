"""DeepSeek-V4.1, Dots 3 Note, Step-5, Moondream 3: published totals, and caches worked out by
hand.
"""

from typing import Any

import pytest

from app.core.cache import (
    CacheLayout,
    CompressedLatent,
    FullAttention,
    MlaLatent,
    PooledIndexer,
    SlidingWindow,
    SparseIndexer,
    WindowedLatent,
)
from app.core.inventory import Part
from app.core.model import ModelShape
from app.errors import InputError
from app.resolve.architectures import shape_from_config
from app.resolve.architectures.dots3_note import LatentWindow

V41_TEXT = {
    "vocab_size": 129280,
    "hidden_size": 5120,
    "moe_intermediate_size": 2304,
    "num_hidden_layers": 40,
    "num_attention_heads": 64,
    "head_dim": 512,
    "q_lora_rank": 1280,
    "o_lora_rank": 1024,
    "o_groups": 8,
    "max_position_embeddings": 1048576,
    "n_routed_experts": 384,
    "n_shared_experts": 1,
    "num_experts_per_tok": 6,
    "compress_ratios": [0, 0] + [2] * 18 + [1] * 20 + [0] * 3,
    "kv_source_layer_ids": [2, 8, 14, 20],
    "index_source_layer_ids": [2, 8, 14, 20, 24, 28, 32, 36],
    "index_n_heads": 32,
    "engram_layer_ids": [1, 14],
    "engram_num_embeddings": [384006168, 384016682],
    "num_nextn_predict_layers": 3,
    "dspark_target_layer_ids": [37, 38, 39],
    "dspark_n_routed_experts": 128,
    "dspark_num_experts_per_tok": 3,
}
V41_VISION = {"num_hidden_layers": 32, "hidden_size": 1024, "num_attention_heads": 16}
V41_TENSORS = 763_205_315_794
"""deepseek-ai/DeepSeek-V4.1-Flash, `safetensors` of the hub: 2 x 278,585,671,680 numbers of four bits
in I8, 204,015,223,296 in F8_E4M3, 1,976,441,856 in BF16 and 42,307,282 in F32.
"""


def v41(**text: Any) -> ModelShape:
    return shape_from_config(
        {
            "model_type": "deepseek_v41",
            "text_config": V41_TEXT | text,
            "vision_config": V41_VISION,
        }
    )


def dots3(**keys: Any) -> ModelShape:
    return shape_from_config({"model_type": "dots3_note"} | keys)


def per_layer(model: ModelShape) -> dict[int, int]:
    """Layers of each number of bytes a token kept takes."""
    layers: dict[int, int] = {}
    for group in model.groups:
        size = sum(part.bytes_per_token(CacheLayout()) for part in group.parts)
        layers[size] = layers.get(size, 0) + len(group.layers)
    return layers


def test_deepseek_v41_has_the_published_tensors() -> None:
    model = v41()
    assert sum(weight.total for weight in model.weights) == V41_TENSORS
    # the model card: a backbone of 552B and 196,613,849,600 of n-grams
    ngrams = (384_006_168 + 384_016_682) * 256
    assert round((model.parameters.total - ngrams) / 1e9) == 552


def test_deepseek_v41_keeps_entries_in_four_layers() -> None:
    model = v41()
    windows, pairs, tokens = (group.parts for group in model.groups)
    assert [len(group.layers) for group in model.groups] == [36, 3, 1]
    assert windows == (WindowedLatent(window=128, entry_bytes=512 + 16),)
    assert pairs == (
        *windows,
        CompressedLatent(compress_ratio=2, entry_bytes=512 // 2 + 32),
        CompressedLatent(compress_ratio=2, entry_bytes=128 // 2 + 4, indexer=True),
        # the pair that is not complete: values and scores of 512 elements in fp32
        WindowedLatent(window=2, entry_bytes=4 * 2 * 512, compressor=True),
    )
    assert tokens == (
        *windows,
        CompressedLatent(compress_ratio=1, entry_bytes=512 // 2 + 32),
        CompressedLatent(compress_ratio=1, entry_bytes=128 // 2 + 4, indexer=True),
    )
    # the model card's 890 bytes a token: (288 + 68) x (3 / 2 + 1)
    grows = [p for g in model.groups for p in g.parts if p.limit is None]
    counts = [len(g.layers) for g in model.groups for p in g.parts if p.limit is None]
    each = (p.bytes_per_token(CacheLayout()) / p.stride for p in grows)
    assert sum(n * size for n, size in zip(counts, each, strict=True)) == 890
    assert [(g.layers, g.parts) for g in model.draft_groups] == [
        ((layer,), windows) for layer in (40, 41, 42)
    ]


def test_deepseek_v41_reads_a_row_of_ngrams_a_head_and_length() -> None:
    tables = [w for w in v41().weights if w.name.endswith("engram.embed")]
    assert [w.active for w in tables] == [(4 - 1) * 8] * 2  # 2-, 3- and 4-grams, 8 heads
    assert {w.part for w in tables} == {Part.EMBEDDING}


@pytest.mark.parametrize("missing", ["hidden_size", "compress_ratios", "kv_source_layer_ids"])
def test_deepseek_v41_has_no_default_sizes(missing: str) -> None:
    text = {key: value for key, value in V41_TEXT.items() if key != missing}
    with pytest.raises(InputError, match=missing):
        shape_from_config({"model_type": "deepseek_v41", "text_config": text})


@pytest.mark.parametrize(
    "keys", [{"engram_num_embeddings": [5]}, {"compress_ratios": [3] * 40}, {"head_dim": None}]
)
def test_deepseek_v41_refuses_impossible_sizes(keys: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        v41(**keys)


def test_dots3_note_keeps_latents_in_and_out_of_windows() -> None:
    # layers 0, 1 and then each fourth from 5 to 45 are full: 2 + 11 of 46
    model = dots3()
    assert per_layer(model) == {2 * (512 + 64) + 128 + 4: 13, 2 * (1024 + 64): 33}
    full, windowed = model.groups
    assert full.parts == (
        MlaLatent(kv_lora_rank=512, qk_rope_head_dim=64),
        SparseIndexer(index_head_dim=128, quantised=True),
    )
    assert windowed.parts == (LatentWindow(window=512, width=1024 + 64),)
    assert (full.num_attention_heads, windowed.num_attention_heads) == (128, 64)


def test_dots3_note_as_published_predicts_a_token_ahead() -> None:
    # its file has the text model's keys at the top, the window's sizes as swa_*
    model = dots3(
        num_hidden_layers=6,
        sliding_window_size=513,
        swa_kv_lora_rank=1024,
        swa_qk_rope_head_dim=32,
        swa_num_attention_heads=32,
        layer_types=["full_attention"] * 2 + ["sliding_attention"] * 3 + ["full_attention"],
        use_dsa=True,
    )
    window = LatentWindow(window=513, width=1024 + 32)
    assert per_layer(model) == {2 * 576 + 132: 3, 2 * (1024 + 32): 3}
    assert [(g.num_attention_heads, g.parts) for g in model.draft_groups] == [(32, (window,))]
    assert dots3(layer_types=["full_attention"] * 46, use_dsa=False).groups[0].parts == (
        MlaLatent(kv_lora_rank=512, qk_rope_head_dim=64),
    )


def test_dots3_note_refuses_kinds_it_does_not_know() -> None:
    with pytest.raises(InputError, match="layer_types"):
        dots3(layer_types=["unheard_of"] * 46)


STEP5_TEXT = {
    "hidden_size": 4096,
    "intermediate_size": 13824,
    "num_hidden_layers": 92,
    "num_attention_heads": 64,
    "num_attention_groups": 4,
    "head_dim": 192,
    "vocab_size": 128896,
    "moe_num_experts": 352,
    "moe_top_k": 8,
    "moe_intermediate_size": 1536,
    "share_expert_dim": 1536,
    "moe_layer_list": list(range(3, 91)),
    "num_nextn_predict_layers": 3,
    "sliding_window": 512,
    "layer_types": [
        "full_attention" if index % 4 == 3 and index < 92 else "sliding_attention"
        for index in range(95)
    ],
    "sparse_config": {"enabled": True, "proxy_dim": 256, "region_block_size": 8},
}
STEP5_HUB = 604_339_504_832
"""rene98c/Step-5-Preview-BF16, `safetensors` of the hub, which adds up whole files. By their headers
model-00024 holds the first prediction module, layer 92, a second time; beyond that the files have
one matrix of the vocabulary more than the 2,449 tensors of the index.
"""


def step5(**text: Any) -> ModelShape:
    return shape_from_config(
        {"model_type": "step5_vl", "vision_config": {}, "text_config": STEP5_TEXT | text}
    )


def test_step5_has_the_published_tensors() -> None:
    model = step5()
    vocabulary = 128896 * 4096
    # queries and outputs of 64 heads, keys and values of 4, gates, norms
    attention = 2 * 4096 * 192 * (64 + 4) + 64 * 4096 + 2 * 192
    module = 2 * 4096**2 + attention + 3 * 4096 * 13824 + vocabulary + 5 * 4096
    assert model.parameters.by_part[Part.MTP] == 3 * module
    assert sum(weight.total for weight in model.weights) == STEP5_HUB - module - vocabulary


def test_step5_keeps_a_key_for_eight_tokens_in_full_layers() -> None:
    model = step5()
    windowed, full = model.groups
    sizes = {"num_key_value_heads": 4, "head_dim": 192, "v_head_dim": 192}
    assert windowed.parts == (SlidingWindow(**sizes, window=512),)
    assert full.layers == tuple(range(3, 92, 4))
    # 256 numbers of 8 bits; before that key and gate of 256 numbers of 16 bits
    assert full.parts == (
        FullAttention(**sizes),
        PooledIndexer(pool=8, entry_bytes=256, open_token_bytes=2 * 2 * 256),
    )
    assert [(g.layers, g.parts) for g in model.draft_groups] == [
        ((layer,), windowed.parts) for layer in (92, 93, 94)
    ]


def test_step5_without_its_indexer_reads_everything() -> None:
    model = step5(sparse_config={"enabled": False})
    assert [len(group.parts) for group in model.groups] == [1, 1]
    assert "sparse_attention" not in model.traits


@pytest.mark.parametrize("missing", ["layer_types", "sparse_config", "moe_num_experts"])
def test_step5_has_no_default_sizes(missing: str) -> None:
    text = {key: value for key, value in STEP5_TEXT.items() if key != missing}
    with pytest.raises(InputError, match=missing):
        shape_from_config({"model_type": "step5", **text})


def test_moondream3_counts_every_tensor() -> None:
    # its config.json states no sizes, so they are all defaults. 2048 wide, 24 layers: norm, q, k
    # and v of 32 heads, output, scales of queries and values by token and by position
    layer = 2 * 2048 + 4 * 2048 * (2048 + 1) + 2 * 32 * 3 * 2048 + 32
    dense = 2 * 2048 * 8192 + 8192 + 2048
    routed = 64 * (3 * 1024 * 2048) + 64 * 2048 + 64
    text = 24 * layer + 4 * dense + 20 * routed + 51200 * (2 * 2048 + 1) + 2 * 2048
    # SigLIP: patches of 14 x 14, 27 x 27 places, 27 layers, then a projector of two views
    block = 4 * 1152 + 4 * 1152 * (1152 + 1) + 2 * 1152 * 4304 + 4304 + 1152
    vision = 1152 * (3 * 14**2 + 1 + 27**2) + 2 * 1152 + 27 * block
    projector = 8192 * (2 * 1152 + 1) + 2048 * (8192 + 1)
    # features of one coordinate and two sizes, encoders, heads of 1024 and 2 x 1024 bins, a norm
    region = 128 + 2 * 256 + 2048 * (256 + 512 + 2) + (1024 + 2048) * (2048 + 1) + 2 * 2048
    model = shape_from_config({"model_type": "moondream3", "architectures": ["HfMoondream"]})
    assert model.parameters.total == text + vision + projector + region
    # mlx-vlm's card of moondream/moondream3-preview: 9.27B, about 2B active
    assert round(model.parameters.total / 1e7) == 927
    assert per_layer(model) == {2 * 32 * 64 * 2: 24}


def test_moondream3_reads_the_sizes_its_config_states() -> None:
    text = {"n_layers": 3, "moe": {"start_layer": 1, "num_experts": 4, "experts_per_token": 2}}
    model = shape_from_config({"model_type": "moondream3", "config": {"text": text}})
    experts = [w for w in model.weights if w.part is Part.ROUTED_EXPERTS]
    assert {(w.layers, w.experts, w.active) for w in experts} == {((1, 2), 4, 2)}
