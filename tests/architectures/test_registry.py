"""A family can be added from outside, and two families never claim one name."""

import pytest

from app.core.cache import FullAttention
from app.core.model import LayerGroup, ModelShape
from app.errors import UnknownArchitecture
from app.resolve.architectures import (
    known_architectures,
    known_model_types,
    register,
    shape_from_config,
)
from app.resolve.architectures.fields import Config


def outside(config: Config) -> ModelShape:
    layers = config.integer("num_hidden_layers")
    part = FullAttention(num_key_value_heads=1, head_dim=64, v_head_dim=64)
    return ModelShape(
        model_type="from_outside",
        architecture="FromOutsideForCausalLM",
        num_hidden_layers=layers,
        hidden_size=64,
        vocab_size=10,
        num_attention_heads=1,
        groups=(LayerGroup(layers=tuple(range(layers)), parts=(part,), num_attention_heads=1),),
        weights=(),
    )


def test_a_family_from_outside() -> None:
    config = {"model_type": "from_outside", "num_hidden_layers": 3}
    with pytest.raises(UnknownArchitecture):
        shape_from_config(config)
    register(outside, model_types=("from_outside",), architectures=("FromOutsideForCausalLM",))
    assert shape_from_config(config).groups[0].count == 3
    by_class = {"architectures": ["FromOutsideForCausalLM"], "num_hidden_layers": 2}
    assert shape_from_config(by_class).num_hidden_layers == 2


def test_a_name_is_claimed_once() -> None:
    known_model_types()
    with pytest.raises(ValueError, match="llama"):
        register(outside, model_types=("llama",))


def test_the_families_that_people_serve_are_known() -> None:
    served = {
        "llama", "llama4", "mllama", "mistral", "mixtral", "qwen", "qwen2", "qwen3", "qwen3_moe",
        "qwen3_next", "qwen3_5", "gemma", "gemma2", "gemma3", "gemma3n", "gemma4", "deepseek_v2",
        "deepseek_v3", "deepseek_v32", "deepseek_v4", "kimi_linear", "glm4_moe", "glm_moe_dsa",
        "minimax_m2", "nemotron_h", "nemotron-nas", "gpt_oss", "phi3", "phimoe", "cohere2",
        "granitemoehybrid", "jamba", "bamba", "zamba2", "mamba", "mamba2", "falcon_mamba",
        "falcon_h1", "olmo2", "olmo_hybrid", "exaone4", "ernie4_5_moe", "lfm2", "stablelm",
        "starcoder2", "internlm2", "chatglm", "baichuan", "minicpm3", "dbrx", "bloom", "opt",
        "gpt2", "gptj", "gpt_neox", "mpt", "llava", "idefics3", "whisper", "t5",
    }  # fmt: skip
    assert served <= known_model_types()
    assert "DeepseekV3ForCausalLM" in known_architectures()
