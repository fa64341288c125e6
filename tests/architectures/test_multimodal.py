"""Wrappers with towers, and encoder-decoders: what they cache, what they weigh, what they refuse."""

from typing import Any

import pytest

from app.core.cache import (
    CachePart,
    ChunkedLocal,
    CrossAttention,
    FullAttention,
    SlidingWindow,
)
from app.core.inventory import Part
from app.core.model import ModelShape
from app.core.precision import BFLOAT16, FLOAT16
from app.errors import InputError
from app.resolve.architectures import shape_from_config

TEXT = {
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "vocab_size": 100,
}


def kept(shape: ModelShape) -> list[tuple[CachePart, ...]]:
    """The parts of each layer, in order."""
    layers: dict[int, tuple[CachePart, ...]] = {}
    for group in shape.groups:
        layers.update(dict.fromkeys(group.layers, group.parts))
    assert sorted(layers) == list(range(shape.num_hidden_layers))
    return [layers[index] for index in range(shape.num_hidden_layers)]


def words(shape: ModelShape) -> str:
    """One letter a layer: f(ull), w(indow), c(hunk), x(cross), - (nothing)."""
    letters = {
        FullAttention: "f",
        SlidingWindow: "w",
        ChunkedLocal: "c",
        CrossAttention: "x",
    }
    return "".join(letters[type(parts[0])] if parts else "-" for parts in kept(shape))


def gemma4(**text: Any) -> ModelShape:
    """A small Gemma 4 of twelve layers."""
    sizes = {**TEXT, "num_hidden_layers": 12, "head_dim": 8, "global_head_dim": 16}
    return shape_from_config({"model_type": "gemma4", "text_config": {**sizes, **text}})


def test_gemma4_layers_that_read_another_cache_keep_nothing() -> None:
    # Every sixth layer is full; the last four of twelve read the caches of layers 0 to 7.
    assert words(gemma4(num_kv_shared_layers=4)) == "wwwwwfww----"


def test_gemma4_full_layers_have_their_own_head_sizes() -> None:
    parts = kept(gemma4(attention_k_eq_v=True, num_global_key_value_heads=1))
    window, full = parts[0][0], parts[5][0]
    assert isinstance(window, SlidingWindow)
    assert (window.num_key_value_heads, window.head_dim, window.window) == (2, 8, 512)
    # Keys serve as values, yet both are cached.
    assert isinstance(full, FullAttention)
    assert (full.num_key_value_heads, full.head_dim, full.v_head_dim) == (1, 16, 16)


def test_gemma4_global_heads_count_only_where_keys_are_values() -> None:
    full = kept(gemma4(num_global_key_value_heads=1))[5][0]
    assert isinstance(full, FullAttention)
    assert full.num_key_value_heads == 2


def test_gemma4_last_layer_is_full_whatever_layer_types_says() -> None:
    types = ["full_attention"] + ["sliding_attention"] * 11
    assert words(gemma4(layer_types=types)) == "fwwwwwwwwwwf"


def test_gemma4_sizes_by_layer_replace_those_of_full_layers() -> None:
    parts = kept(gemma4(per_layer_config={"05": {"head_dim": 32, "num_key_value_heads": 4}}))
    sizes = [(p[0].num_key_value_heads, p[0].head_dim) for p in parts]  # type: ignore[attr-defined]
    assert sizes == [(2, 8)] * 5 + [(4, 32)] + [(2, 8)] * 6


def test_gemma4_absent_towers_weigh_nothing() -> None:
    by_part = gemma4().parameters.by_part
    assert Part.VISION not in by_part
    assert Part.AUDIO not in by_part


def test_gemma3n_shares_by_kind() -> None:
    text = {**TEXT, "num_hidden_layers": 10, "num_kv_shared_layers": 5, "head_dim": 8}
    shape = shape_from_config({"model_type": "gemma3n_text", **text})
    assert words(shape) == "wwwwf-----"
    with pytest.raises(InputError, match="num_kv_shared_layers"):
        shape_from_config({"model_type": "gemma3n_text", **text, "num_kv_shared_layers": 7})


@pytest.mark.parametrize(
    ("switches", "expected"),
    [
        ({}, "cccfcccf"),
        ({"no_rope_layers": []}, "cccfcccf"),
        ({"no_rope_layers": [0, 1] * 4}, "fcfcfcfc"),
        ({"no_rope_layer_interval": 2}, "cfcfcfcf"),
        ({"attention_chunk_size": None}, "ffffffff"),
    ],
)
def test_llama4_chunks_where_positions_are_rotary(switches: dict[str, Any], expected: str) -> None:
    config = {"model_type": "llama4_text", **TEXT, "num_hidden_layers": 8, "head_dim": 16}
    assert words(shape_from_config({**config, **switches})) == expected


def test_llama4_maverick_routes_every_second_layer() -> None:
    config = {
        "model_type": "llama4_text",
        **TEXT,
        "num_hidden_layers": 4,
        "interleave_moe_layer_step": 2,
        "num_local_experts": 128,
    }
    by_part = shape_from_config(config).parameters.by_part
    # Layers 1 and 3, three matrices of 64 x 96 an expert.
    assert by_part[Part.ROUTED_EXPERTS] == 2 * 128 * 3 * 64 * 96


def test_mllama_keeps_the_image_once() -> None:
    config = {
        "model_type": "mllama",
        "text_config": {**TEXT, "num_hidden_layers": 4, "cross_attention_layers": [1, 3]},
        "vision_config": {"image_size": 560, "patch_size": 14, "max_num_tiles": 4},
    }
    shape = shape_from_config(config)
    assert words(shape) == "fxfx"
    cross = kept(shape)[1][0]
    assert isinstance(cross, CrossAttention)
    # Four tiles of 40 x 40 patches and a class token.
    assert cross.encoder_tokens == 4 * 1601


def test_whisper_keeps_its_tokens_and_the_encoder_output() -> None:
    config = {
        "model_type": "whisper",
        "d_model": 64,
        "encoder_layers": 3,
        "decoder_layers": 2,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 2,
    }
    shape = shape_from_config(config)
    assert shape.num_hidden_layers == 2
    own, cross = kept(shape)[0]
    assert isinstance(own, FullAttention)
    assert isinstance(cross, CrossAttention)
    assert (own.num_key_value_heads, own.head_dim) == (2, 32)
    assert cross.encoder_tokens == 1500
    assert shape.max_position_embeddings == 448
    assert "encoder_decoder" in shape.traits


@pytest.mark.parametrize("model_type", ["bart", "t5", "m2m_100", "mbart"])
def test_encoder_decoders_say_how_long_the_input_is_taken(model_type: str) -> None:
    shape = shape_from_config({"model_type": model_type})
    assert all(isinstance(parts[1], CrossAttention) for parts in kept(shape))
    assert any("encoder's input" in note for note in shape.assumptions)


def test_an_image_prefix_is_a_trait() -> None:
    assert "prefix_lm" in shape_from_config({"model_type": "gemma3"}).traits
    assert "prefix_lm" in gemma4(use_bidirectional_attention="vision").traits
    assert "prefix_lm" not in gemma4().traits


def test_text_keys_at_the_top_or_nested_read_alike() -> None:
    text = {**TEXT, "num_hidden_layers": 3, "tie_word_embeddings": True}
    vision = {"depth": 2, "embed_dim": 32, "num_heads": 4, "hidden_size": 64}
    flat = shape_from_config({"model_type": "qwen2_vl", **text, "vision_config": vision})
    nested = shape_from_config(
        {"model_type": "qwen2_vl", "text_config": text, "vision_config": vision}
    )
    assert flat.groups == nested.groups
    assert flat.parameters == nested.parameters
    assert "visual.blocks.{layer}.attn.qkv" in {weight.name for weight in flat.weights}
    assert "model.visual.blocks.{layer}.attn.qkv" in {weight.name for weight in nested.weights}
    assert "model.language_model.layers.{layer}.self_attn.q_proj" in {
        weight.name for weight in nested.weights
    }


def test_the_wrapper_decides_whether_the_head_is_tied() -> None:
    text = {**TEXT, "num_hidden_layers": 1}
    untied = {**text, "tie_word_embeddings": False}

    def head(config: dict[str, Any]) -> int:
        return shape_from_config(config).parameters.by_part.get(Part.HEAD, 0)

    assert head({"model_type": "gemma3", "text_config": untied}) == 0
    assert head({"model_type": "gemma3", "tie_word_embeddings": False, "text_config": text}) == 6400
    # LLaVA's own class says untied, and lets a text model that says tied go before it.
    tied = {**text, "model_type": "llama", "tie_word_embeddings": True}
    assert head({"model_type": "llava", "text_config": tied}) == 0
    assert head({"model_type": "llava_next", "text_config": tied}) == 6400


def test_precision_and_quantisation_of_the_text_model_count_where_the_wrapper_says_nothing() -> (
    None
):
    quantised = {"quant_method": "fp8"}
    text = {**TEXT, "num_hidden_layers": 1, "dtype": "float16", "quantization_config": quantised}
    shape = shape_from_config({"model_type": "llava", "text_config": text})
    assert shape.checkpoint_dtype is FLOAT16
    assert shape.quantization == quantised
    outer = {"model_type": "llava", "torch_dtype": "bfloat16", "text_config": text}
    assert shape_from_config(outer).checkpoint_dtype is BFLOAT16


def test_a_null_window_is_no_window() -> None:
    # Mistral's class has a window of 4096; null takes it away, and so does an absent text_config.
    text = {**TEXT, "num_hidden_layers": 1, "model_type": "mistral"}
    assert words(shape_from_config({"model_type": "mistral3", "text_config": text})) == "w"
    text = {**text, "sliding_window": None}
    assert words(shape_from_config({"model_type": "mistral3", "text_config": text})) == "f"
    assert set(words(shape_from_config({"model_type": "mistral3"}))) == {"f"}


def test_fuyu_has_its_text_sizes_at_the_top() -> None:
    config = {
        "model_type": "fuyu",
        "text_config": {"model_type": "persimmon"},
        "hidden_size": 64,
        "num_attention_heads": 4,
        "num_hidden_layers": 2,
        "intermediate_size": 96,
        "vocab_size": 100,
    }
    shape = shape_from_config(config)
    assert (shape.num_hidden_layers, shape.hidden_size, shape.vocab_size) == (2, 64, 100)


def test_a_latent_rank_of_null_means_plain_attention() -> None:
    language = {
        **TEXT,
        "num_key_value_heads": 4,
        "num_hidden_layers": 2,
        "kv_lora_rank": None,
        "qk_nope_head_dim": 0,
        "qk_rope_head_dim": 0,
        "v_head_dim": 0,
        "model_type": "deepseek_v2",
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 16,
    }
    shape = shape_from_config({"model_type": "deepseek_vl_v2", "language_config": language})
    assert words(shape) == "ff"


def test_what_is_not_counted_is_said() -> None:
    shape = shape_from_config(
        {
            "model_type": "ovis",
            "llm_config": {"model_type": "qwen2", **TEXT, "num_hidden_layers": 2},
        }
    )
    assert words(shape) == "ff"
    assert any("not counted" in note for note in shape.assumptions)


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"model_type": "ultravox", "text_model_id": "some/model"}, "config.text_model_id"),
        ({"model_type": "llava", "text_config": []}, "config.text_config"),
        ({"model_type": "llava", "vision_config": {"model_type": "x"}}, "vision_config.model_type"),
        ({"model_type": "gemma3n", "vision_config": {"architecture": "x"}}, "architecture"),
        ({"model_type": "gemma4", "text_config": {"per_layer_config": {"x": {}}}}, "per_layer"),
        ({"model_type": "gemma4", "text_config": {"layer_types": ["chunked"] * 30}}, "layer_types"),
        ({"model_type": "gemma4", "text_config": {"enable_moe_block": True}}, "num_experts"),
        ({"model_type": "llama4_text", "no_rope_layers": [1, 0]}, "no_rope_layers"),
        ({"model_type": "llama4_text", "interleave_moe_layer_step": -1}, "interleave"),
        ({"model_type": "whisper", "d_model": 65}, "encoder_attention_heads"),
        ({"model_type": "internvl", "downsample_ratio": 0}, "downsample_ratio"),
        ({"model_type": "aria", "projector_patch_to_query_dict": {}}, "projector_patch"),
        ({"model_type": "minicpmv", "version": 9, **TEXT}, "version"),
        ({"model_type": "cohere_asr", "transf_decoder": {}}, "transf_decoder"),
    ],
)
def test_impossible_configs_are_refused_by_field(config: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError) as refused:
        shape_from_config(config)
    assert any(field in ".".join(map(str, error.loc)) for error in refused.value.errors)


@pytest.mark.parametrize(
    ("model_type", "architecture", "generates"),
    [
        ("internvl_chat", "InternVLChatModel", True),
        ("h2ovl_chat", "H2OVLChatModel", True),
        ("ultravox", "UltravoxModel", True),
        ("gemma3", "Gemma3Model", False),
    ],
)
def test_wrappers_called_models_generate_all_the_same(
    model_type: str, architecture: str, *, generates: bool
) -> None:
    text = {**TEXT, "model_type": "qwen2", "num_hidden_layers": 2, "tie_word_embeddings": False}
    shape = shape_from_config(
        {
            "model_type": model_type,
            "architectures": [architecture],
            "llm_config": text,
            "text_config": {**text, "model_type": "gemma3_text"} if not generates else text,
            "vision_config": {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2},
            "audio_config": {"d_model": 32, "encoder_layers": 1},
            "tie_word_embeddings": False,
        }
    )
    # the head: 100 words x 64
    assert shape.parameters.by_part.get(Part.HEAD, 0) == (6400 if generates else 0)
    assert ("pooling" in shape.traits) is not generates


def test_exaone_4_5_predicts_with_its_first_layers() -> None:
    text = {**TEXT, "num_hidden_layers": 4, "sliding_window": 8, "sliding_window_pattern": "LLLG"}
    shape = shape_from_config({"model_type": "exaone4_5", "text_config": text})
    assert words(shape) == "wwwf"
    (draft,) = shape.draft_groups
    assert draft.parts == kept(shape)[0]
    stored = shape_from_config(
        {"model_type": "exaone4_5", "text_config": {**text, "num_nextn_predict_layers": 1}}
    )
    # q and o 64 x 64, k and v 32 x 64, three 96 x 64, the way in 64 x 128, five norms of 64, two of 16
    assert stored.parameters.by_part[Part.MTP] == 8192 + 4096 + 18432 + 8192 + 5 * 64 + 2 * 16
    assert stored.parameters.total == shape.parameters.total
