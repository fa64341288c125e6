"""params.json and GGUF metadata under the names of a config.json."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.errors import UnknownArchitecture
from app.hub.gguf import parse_gguf
from app.hub.gguf_config import config_from_gguf
from app.hub.mistral_params import config_from_params
from tests.fake_hub import gguf_bytes

DENSE = {
    "dim": 5120,
    "n_layers": 4,
    "n_heads": 32,
    "n_kv_heads": 8,
    "head_dim": 128,
    "hidden_dim": 32768,
    "norm_eps": 1e-5,
    "vocab_size": 131072,
}


def test_a_dense_model() -> None:
    assert config_from_params(DENSE) == {
        "model_type": "mistral",
        "architectures": ["MistralForCausalLM"],
        "hidden_size": 5120,
        "num_hidden_layers": 4,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "intermediate_size": 32768,
        "rms_norm_eps": 1e-5,
        "vocab_size": 131072,
        "max_position_embeddings": 128_000,
        "tie_word_embeddings": False,
        "sliding_window": None,
    }


@pytest.mark.parametrize(
    ("window", "size", "kinds"),
    [
        (4096, 4096, ["sliding_attention"] * 4),
        ([None, 1024], 1024, ["full_attention", "sliding_attention"] * 2),
        ([None], None, ["full_attention"] * 4),
    ],
)
def test_windows(window: Any, size: int | None, kinds: list[str]) -> None:
    config = config_from_params(DENSE | {"sliding_window": window})
    assert (config["sliding_window"], config["layer_types"]) == (size, kinds)


def test_experts() -> None:
    config = config_from_params(DENSE | {"moe": {"num_experts": 8, "num_experts_per_tok": 2}})
    assert config["model_type"] == "mixtral"
    assert (config["num_local_experts"], config["num_experts_per_tok"]) == (8, 2)


def test_latent_attention_is_deepseeks_layout() -> None:
    latent = {"kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64}
    moe = {"num_experts": 128, "num_shared_experts": 1, "expert_hidden_dim": 4096}
    config = config_from_params(DENSE | latent | {"moe": moe})
    assert config["model_type"] == "deepseek_v3"
    assert (config["kv_lora_rank"], config["n_routed_experts"]) == (512, 128)
    assert config["moe_intermediate_size"] == 4096
    # Without experts every layer is dense.
    assert config_from_params(DENSE | latent)["first_k_dense_replace"] == 4


def test_quantization_and_yarn() -> None:
    fp8 = {"qformat_weight": "fp8_e4m3", "qscheme_act": "TENSOR"}
    yarn = {"factor": 16, "original_max_position_embeddings": 8192, "beta": 32, "alpha": 1}
    config = config_from_params(DENSE | {"quantization": fp8, "yarn": yarn})
    assert config["quantization_config"] == {"quant_method": "fp8", "activation_scheme": "static"}
    assert config["rope_scaling"] == {
        "rope_type": "yarn",
        "factor": 16,
        "original_max_position_embeddings": 8192,
        "beta_fast": 32,
        "beta_slow": 1,
    }
    packed = {"quant_method": "compressed_tensors", "config_groups": {}}
    config = config_from_params(DENSE | {"quantization": packed})
    assert config["quantization_config"]["quant_method"] == "compressed-tensors"


@pytest.mark.parametrize(
    "encoder",
    [{"vision_encoder": {"dim": 1}}, {"multimodal": {"vision_encoder_args": {"dim": 1}}}],
)
def test_an_encoder_nests_the_text_model(encoder: dict[str, Any]) -> None:
    config = config_from_params(DENSE | encoder)
    assert (config["model_type"], config["text_config"]["model_type"]) == ("pixtral", "mistral")
    assert config["vision_config"] == {"dim": 1}
    audio = config_from_params(DENSE | {"multimodal": {"whisper_model_args": {"encoder_args": {}}}})
    assert audio["model_type"] == "voxtral"


@pytest.mark.parametrize(
    ("part", "field"),
    [
        ({"quantization": {"qformat_weight": "int3"}}, "quantization"),
        ({"sliding_window": [1, 2]}, "sliding_window"),
        ({"sliding_window": [None, 1, 1]}, "sliding_window"),
        ({"sliding_window": "wide"}, "sliding_window"),
        ({"sliding_window": 1, "n_layers": 10**9}, "n_layers"),
        ({"moe": [1]}, "moe"),
        ({"multimodal": [1]}, "multimodal"),
        ({"model_type": "mamba"}, "model_type"),
    ],
)
def test_what_is_not_understood_is_refused_by_name(part: dict[str, Any], field: str) -> None:
    with pytest.raises(UnknownArchitecture) as caught:
        config_from_params(DENSE | part)
    assert caught.value.fields == (field,)


ODD = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=3)
    | st.lists(st.none() | st.integers(), max_size=3)
    | st.dictionaries(
        st.sampled_from(["num_experts", "quant_method", "qformat_weight", "factor"]),
        st.none() | st.text(max_size=3),
    )
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.dictionaries(
        st.sampled_from(
            [
                "n_layers",
                "sliding_window",
                "quantization",
                "yarn",
                "moe",
                "multimodal",
                "vision_encoder",
                "qk_nope_head_dim",
            ]
        ),
        ODD,
    )
)
def test_any_params_are_mapped_or_refused(params: dict[str, Any]) -> None:
    try:
        config_from_params(params)
    except UnknownArchitecture:
        return


def test_gguf_of_experts_with_layers_that_differ() -> None:
    data = gguf_bytes(
        [
            ("general.architecture", "str", "llama"),
            ("llama.block_count", "u32", 2),
            ("llama.attention.head_count", "u32", 8),
            ("llama.attention.head_count_kv", "[i32]", [2, 4]),
            ("llama.attention.key_length", "u32", 64),
            ("llama.attention.value_length", "u32", 32),
            ("llama.expert_count", "u32", 8),
            ("llama.expert_used_count", "u32", 2),
        ],
        [("token_embd.weight", [256, 500], 0), ("output.weight", [256, 500], 0)],
    )
    config = config_from_gguf(parse_gguf(data))
    assert config == {
        "model_type": "mixtral",
        "num_hidden_layers": 2,
        "num_attention_heads": 8,
        "num_key_value_heads": [2, 4],
        "head_dim": 64,
        "v_head_dim": 32,
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
        "vocab_size": 500,
        "tie_word_embeddings": False,
    }


def test_gguf_of_latent_attention() -> None:
    # DeepSeek-V3: 128 heads of 128 + 64 for keys and 128 for values, a latent of 512.
    data = gguf_bytes(
        [
            ("general.architecture", "str", "deepseek2"),
            ("deepseek2.block_count", "u32", 61),
            ("deepseek2.attention.head_count", "u32", 128),
            ("deepseek2.attention.head_count_kv", "u32", 1),
            ("deepseek2.attention.key_length", "u32", 576),
            ("deepseek2.attention.value_length", "u32", 512),
            ("deepseek2.attention.key_length_mla", "u32", 192),
            ("deepseek2.attention.value_length_mla", "u32", 128),
            ("deepseek2.attention.kv_lora_rank", "u32", 512),
            ("deepseek2.attention.q_lora_rank", "u32", 1536),
            ("deepseek2.rope.dimension_count", "u32", 64),
            ("deepseek2.expert_count", "u32", 256),
        ],
        [],
    )
    config = config_from_gguf(parse_gguf(data))
    assert config["model_type"] == "deepseek_v3"
    assert config["n_routed_experts"] == 256
    assert (config["kv_lora_rank"], config["q_lora_rank"]) == (512, 1536)
    assert (config["qk_nope_head_dim"], config["qk_rope_head_dim"]) == (128, 64)
    assert (config["v_head_dim"], config["num_key_value_heads"]) == (128, 128)


def test_gguf_of_an_architecture_that_is_not_in_the_table_keeps_its_name() -> None:
    data = gguf_bytes([("general.architecture", "str", "novel9")], [])
    assert config_from_gguf(parse_gguf(data))["model_type"] == "novel9"
    assert config_from_gguf(parse_gguf(gguf_bytes([], [])))["model_type"] == ""
