"""Models that keep states, with one field of their config set to something impossible."""

from typing import Any

import pytest

from app.errors import KvmathError
from app.resolve.architectures import shape_from_config

FAMILIES = [
    "mamba",
    "mamba2",
    "jamba",
    "bamba",
    "falcon_h1",
    "granitemoehybrid",
    "nemotron_h",
    "nemotron-nas",
    "zamba",
    "zamba2",
    "lfm2",
    "lfm2_moe",
    "lfm3",
    "olmo_hybrid",
    "qwen3_next",
    "qwen3_5",
    "qwen3_5_moe",
    "qwen3_5_text",
    "kimi_linear",
    "kimi_k3",
    "minimax",
    "minimax_m1",
    "bailing_hybrid",
    "bailing_moe_linear",
    "jet_nemotron",
    "recurrent_gemma",
    "plamo2",
    "rwkv",
    "rwkv5",
    "rwkv6",
    "rwkv7",
]
KEYS = [
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "vocab_size",
    "layer_types",
    "layers_block_type",
    "block_configs",
    "hybrid_override_pattern",
    "linear_attn_config",
    "mamba_d_state",
    "mamba_expand",
    "mamba_n_heads",
    "num_experts",
    "moe_intermediate_size",
    "block_types",
    "full_attention_interval",
    "attn_type_list",
    "layer_group_size",
    "efficient_attention_config",
    "conv_L_cache",
    "text_config",
    "vision_config",
    "attn_layer_indices",
    "mamba_step",
    "head_size",
    "n_mamba_heads",
]
HOSTILE: tuple[Any, ...] = (
    0,
    -1,
    1,
    3,
    2**70,
    1.5,
    "x",
    "",
    True,
    [],
    [0],
    ["x"] * 3,
    {},
    {"a": 1},
    None,
)


@pytest.mark.parametrize("model_type", FAMILIES)
def test_hostile_values_are_refused_or_read(model_type: str) -> None:
    for key in KEYS:
        for value in HOSTILE:
            try:
                shape_from_config({"model_type": model_type, key: value})
            except KvmathError:
                continue
