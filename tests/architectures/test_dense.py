"""Decoders with plain or windowed attention, classic mixtures of experts, and text encoders."""

from typing import Any

import pytest

from app.core.cache import FullAttention, SlidingWindow
from app.core.inventory import Part
from app.core.precision import BFLOAT16, FLOAT16
from app.errors import InputError
from app.resolve.architectures import shape_from_config


def parts(config: dict[str, Any]) -> dict[int, FullAttention | None]:
    """What each layer keeps."""
    kept: dict[int, FullAttention | None] = {}
    for group in shape_from_config(config).groups:
        part = group.parts[0] if group.parts else None
        assert part is None or isinstance(part, FullAttention)
        kept.update(dict.fromkeys(group.layers, part))
    return dict(sorted(kept.items()))


def windows(config: dict[str, Any]) -> list[int | None]:
    """The window of each layer, None where it keeps everything."""
    return [
        part.window if isinstance(part, SlidingWindow) else None for part in parts(config).values()
    ]


SIZES = {"hidden_size": 64, "num_attention_heads": 4, "vocab_size": 10, "intermediate_size": 8}
FOUR = {**SIZES, "num_hidden_layers": 4}
SIX = {**SIZES, "num_hidden_layers": 6}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        # an absent window is the class's own, a null one is none: Mistral 7B v0.1 against v0.2
        ({"model_type": "mistral", **FOUR}, [4096] * 4),
        ({"model_type": "mistral", **FOUR, "sliding_window": None}, [None] * 4),
        ({"model_type": "mistral", **FOUR, "sliding_window": 0}, [None] * 4),
        # Qwen states a window and does not use it
        ({"model_type": "qwen2", **FOUR, "sliding_window": 8}, [None] * 4),
        (
            {
                "model_type": "qwen2",
                **FOUR,
                "sliding_window": 8,
                "use_sliding_window": True,
                "max_window_layers": 2,
            },
            [None, None, 8, 8],
        ),
        # Gemma 2 says nothing about its pattern, Gemma 3 a period
        ({"model_type": "gemma2", **FOUR, "sliding_window": 8}, [8, None, 8, None]),
        ({"model_type": "gemma3_text", **SIX, "sliding_window": 8}, [8] * 5 + [None]),
        (
            {"model_type": "gemma3_text", **FOUR, "sliding_window": 8, "sliding_window_pattern": 2},
            [8, None, 8, None],
        ),
        # a list of kinds wins over any pattern, and may go on after the last layer (MTP)
        (
            {
                "model_type": "olmo3",
                **FOUR,
                "sliding_window": 8,
                "layer_types": ["full_attention"] + ["sliding_attention"] * 4,
            },
            [None, 8, 8, 8],
        ),
        # EXAONE 4 writes a string
        (
            {"model_type": "exaone4", **FOUR, "sliding_window": 8, "sliding_window_pattern": "LG"},
            [8, None, 8, None],
        ),
        ({"model_type": "exaone4", **FOUR, "sliding_window": None}, [None] * 4),
        # Cohere sees `sliding_window` tokens before the current one
        ({"model_type": "cohere2", **FOUR, "sliding_window": 8}, [9, 9, 9, None]),
        # the first of each four is full, not the last
        ({"model_type": "granite_swa", **FOUR, "sliding_window": 8}, [None, 8, 8, 8]),
        ({"model_type": "cwm", **FOUR, "sliding_window": 8}, [None, 8, 8, 8]),
        # Beam's last layer is full whatever the period says
        ({"model_type": "beam", **FOUR, "sliding_window": 8}, [8, 8, 8, None]),
        # SmolLM3: only layers without rotary positions may have a window
        (
            {
                "model_type": "smollm3",
                **FOUR,
                "sliding_window": 8,
                "use_sliding_window": True,
            },
            [None, None, None, 8],
        ),
        # GPT-Neo counts runs of kinds
        (
            {
                "model_type": "gpt_neo",
                "hidden_size": 64,
                "num_heads": 4,
                "num_layers": 4,
                "window_size": 8,
                "attention_types": [[["global", "local"], 1], [["local"], 2]],
            },
            [None, 8, 8, 8],
        ),
        # HRM runs 1 layer a stack 2 x (3 + 1) times
        ({"model_type": "hrm_text", **SIZES, "num_hidden_layers": 1}, [None] * 8),
    ],
)
def test_windows_follow_the_config(config: dict[str, Any], expected: list[int | None]) -> None:
    assert windows(config) == expected


DORY = {"model_type": "dory", **FOUR, "sliding_window": 8}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        # LoopCoder's second pass has a window, Ouro's passes are alike
        (
            {"model_type": "iquestloopcoder", **SIZES, "num_hidden_layers": 2},
            {None: (0, 1), 64: (0, 1)},
        ),
        (
            {"model_type": "ouro", **SIZES, "num_hidden_layers": 2, "total_ut_steps": 3},
            {None: (0, 0, 0, 1, 1, 1)},
        ),
        # Dory's middle two layers run twice, unless all passes share a cache
        (
            {**DORY, "n_input_layers": 1, "n_output_layers": 1},
            {8: (0, 1, 1, 2, 2), None: (3,)},
        ),
        (
            {
                **DORY,
                "n_input_layers": 1,
                "n_output_layers": 1,
                "recurrent_kv_cache_mode": "last_loop",
            },
            {8: (0, 1, 2), None: (3,)},
        ),
        # published with attention and MLP as layers of their own
        (
            {
                **DORY,
                "layer_types": ["sliding_attention", "mlp", "full_attention", "mlp"],
                "n_input_layers": 2,
                "n_output_layers": 2,
            },
            {8: (0,), None: (1,)},
        ),
    ],
)
def test_a_layer_that_runs_again_caches_each_pass(
    config: dict[str, Any], expected: dict[int | None, tuple[int, ...]]
) -> None:
    shape = shape_from_config({**config, "max_position_embeddings": 8})
    kept = {getattr(group.parts[0], "window", None): group.layers for group in shape.groups}
    assert kept == expected


@pytest.mark.parametrize(
    ("config", "kv_heads", "head_dim"),
    [
        # absent: the class's own count; null: one a query head
        ({"model_type": "mistral", "num_attention_heads": 32}, 8, 128),
        ({"model_type": "llama", "num_attention_heads": 32}, 32, 128),
        ({"model_type": "mistral", "num_key_value_heads": None}, 32, 128),
        # head_dim absent: Qwen 3's own 128; null: width over heads
        ({"model_type": "qwen3", "hidden_size": 1024, "num_attention_heads": 16}, 16, 128),
        (
            {
                "model_type": "qwen3",
                "hidden_size": 1024,
                "num_attention_heads": 16,
                "head_dim": None,
            },
            16,
            64,
        ),
        # one KV head, unless the decoder is of the new architecture (180B says both)
        ({"model_type": "falcon", "multi_query": True}, 1, 64),
        (
            {
                "model_type": "falcon",
                "multi_query": True,
                "new_decoder_architecture": True,
                "num_kv_heads": 8,
                "num_attention_heads": 232,
                "hidden_size": 14848,
            },
            8,
            64,
        ),
        ({"model_type": "RefinedWeb", "n_head": 128, "n_head_kv": 8, "hidden_size": 8192}, 8, 64),
        ({"model_type": "gpt_bigcode", "n_embd": 2048, "n_head": 16}, 1, 128),
        ({"model_type": "gpt_bigcode", "n_head": 12, "multi_query": False}, 12, 64),
        (
            {"model_type": "chatglm", "multi_query_attention": True, "multi_query_group_num": 2},
            2,
            128,
        ),
        ({"model_type": "chatglm", "multi_query_attention": False}, 32, 128),
        (
            {
                "model_type": "dbrx",
                "d_model": 6144,
                "n_heads": 48,
                "attn_config": {"kv_n_heads": 8},
            },
            8,
            128,
        ),
        ({"model_type": "phi-msft", "n_embd": 2560, "n_head": 32, "n_head_kv": None}, 32, 80),
        ({"model_type": "qwen", "kv_channels": 128}, 32, 128),
        # latent weights, cached head by head: 64 + 32 wide
        ({"model_type": "minicpm3"}, 40, 96),
        ({"model_type": "jetmoe"}, 16, 128),
        ({"model_type": "minimind", "dim": 768, "n_heads": 8, "n_kv_heads": 2}, 2, 96),
    ],
)
def test_heads_follow_the_config(config: dict[str, Any], kv_heads: int, head_dim: int) -> None:
    part = parts(config)[0]
    assert part is not None
    assert (part.num_key_value_heads, part.head_dim) == (kv_heads, head_dim)


@pytest.mark.parametrize(
    ("config", "total", "active"),
    [
        # DBRX, 132B with 36B active as announced. A layer: qkv 6144 x 8192, out 6144 x 6144, two
        # norms, router 16 x 6144 and 16 (active: 4) experts of three 6144 x 10752 matrices;
        # embedding and head 2 x 100352 x 6144 and the last norm
        (
            {
                "model_type": "dbrx",
                "d_model": 6144,
                "n_heads": 48,
                "n_layers": 40,
                "vocab_size": 100352,
                "attn_config": {"kv_n_heads": 8},
                "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4},
            },
            40 * (50_331_648 + 37_748_736 + 12_288 + 98_304 + 16 * 198_180_864) + 1_233_131_520,
            40 * (50_331_648 + 37_748_736 + 12_288 + 98_304 + 4 * 198_180_864) + 1_233_131_520,
        ),
        # one gate, one expert of three 4 x 2 matrices of two, a layer; the rest is used always:
        # embedding and head 2 x 3 x 4, q k v o 4 x 16, norms 3 x 4, router 2 x 4
        (
            {
                "model_type": "mixtral",
                "hidden_size": 4,
                "num_attention_heads": 1,
                "num_key_value_heads": 1,
                "intermediate_size": 2,
                "vocab_size": 3,
                "num_hidden_layers": 1,
                "num_local_experts": 2,
                "num_experts_per_tok": 1,
            },
            24 + 64 + 12 + 8 + 48,
            24 + 64 + 12 + 8 + 24,
        ),
    ],
)
def test_active_parameters(config: dict[str, Any], total: int, active: int) -> None:
    counted = shape_from_config(config).parameters
    assert (counted.total, counted.active) == (total, active)


def test_qwen1_halves_its_intermediate_size() -> None:
    sizes = {"hidden_size": 64, "num_attention_heads": 4, "kv_channels": 16, "num_hidden_layers": 1}
    shape = shape_from_config(
        {
            "model_type": "qwen",
            "architectures": ["QWenLMHeadModel"],
            **sizes,
            "intermediate_size": 10,
        }
    )
    # w1, w2 and c_proj of width 5; the class name ends in "Model" and generates all the same
    assert shape.parameters.by_part[Part.MLP] == 3 * 5 * 64
    assert Part.HEAD in shape.parameters.by_part


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        # linear and dynamic scalings multiply, yarn states the product itself
        (
            {"max_position_embeddings": 4096, "rope_scaling": {"type": "linear", "factor": 2.0}},
            8192,
        ),
        (
            {"max_position_embeddings": 4096, "rope_scaling": {"rope_type": "yarn", "factor": 4}},
            4096,
        ),
        ({"max_position_embeddings": 4096, "rope_parameters": None}, 4096),
        # the smallest that is stated; `model_max_length` over all
        ({"max_position_embeddings": 4096, "seq_length": 2048}, 2048),
        ({"max_position_embeddings": 4096, "model_max_length": 8192}, 8192),
        # LongRoPE is served at its original length
        (
            {
                "max_position_embeddings": 131072,
                "original_max_position_embeddings": 4096,
                "rope_scaling": {"type": "longrope", "factor": 32.0},
            },
            4096,
        ),
    ],
)
def test_longest_sequence(config: dict[str, Any], expected: int) -> None:
    assert shape_from_config({"model_type": "llama", **config}).max_position_embeddings == expected


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"model_type": "llama", "torch_dtype": "float32"}, BFLOAT16),
        ({"model_type": "bert", "torch_dtype": "float32"}, FLOAT16),
        ({"model_type": "gemma2", "torch_dtype": "float16"}, BFLOAT16),
        ({"model_type": "llama", "torch_dtype": "float16"}, FLOAT16),
    ],
)
def test_served_precision(config: dict[str, Any], expected: object) -> None:
    assert shape_from_config(config).dtype is expected


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "llama", "num_attention_heads": 0},
        {"model_type": "llama", "hidden_size": 100, "num_attention_heads": 3},
        {"model_type": "olmo3", "layer_types": ["full_attention"]},
        {"model_type": "olmo3", "layer_types": ["mamba"] * 32},
        {"model_type": "qwen2_moe", "decoder_sparse_step": 0},
        {"model_type": "gpt_neo", "attention_types": [[["global"], 10**9]]},
        {"model_type": "gpt_neo", "attention_types": [1]},
        {"model_type": "hrm_text", "H_cycles": 4096},
        {"model_type": "dory", "n_recurrent_layers": 3},
        {"model_type": "mpt", "attn_config": []},
        {"model_type": "xverse"},
    ],
)
def test_impossible_configs_are_refused(config: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        shape_from_config(config)


def test_minimax_m2_under_its_first_model_type() -> None:
    # norms of queries and keys over their full width, 62 layers: 62 x (48 + 8) x 128 = 444416
    first = shape_from_config({"model_type": "minimax", "architectures": ["MiniMaxM2ForCausalLM"]})
    later = shape_from_config({"model_type": "minimax_m2"})
    assert first.parameters.total == later.parameters.total == 228_689_748_992


@pytest.mark.parametrize(
    ("config", "traits"),
    [
        ({"dual_chunk_attention_config": {"chunk_size": 262144}}, {"dual_chunk_attention"}),
        ({"use_sliding_window": True, "max_window_layers": 3}, {"windows_in_some_layers"}),
        ({"use_sliding_window": True, "max_window_layers": 0}, set()),
        ({"use_sliding_window": False, "max_window_layers": 3}, set()),
    ],
)
def test_what_engines_ask_of_a_qwen(config: dict[str, Any], traits: set[str]) -> None:
    for model_type in ("qwen2", "qwen3"):
        shape = shape_from_config({"model_type": model_type, "num_hidden_layers": 6, **config})
        assert shape.traits == traits


def test_grok_2_has_a_dense_mlp_beside_its_experts() -> None:
    # xai-org/grok-2, published as 270B: 64 layers of 8 experts 16384 wide, an MLP 32768 wide,
    # attention and norms, and 131072 words twice
    config = {
        "architectures": ["Grok1ForCausalLM"],
        "hidden_size": 8192,
        "intermediate_size": 32768,
        "moe_intermediate_size": 16384,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "residual_moe": True,
    }
    experts, mlp = 8 * (3 * 8192 * 16384 + 8192), 3 * 8192 * 32768
    layer = experts + mlp + 2 * 8192 * (8192 + 1024) + 4 * 8192
    assert shape_from_config(config).parameters.total == 64 * layer + 2 * 131072 * 8192 + 8192
