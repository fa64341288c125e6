"""Small configs that differ by a number, and what their caches take."""

from typing import Any


def config_of(number: int) -> dict[str, Any]:
    """A small Llama; each number another one."""
    return {
        "model_type": "llama",
        "num_hidden_layers": number % 60 + 1,
        "hidden_size": 512,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "intermediate_size": 1024,
        "vocab_size": 1000,
        "max_position_embeddings": 4096,
        "torch_dtype": "bfloat16",
    }


def bytes_per_token(number: int) -> int:
    """Keys and values x layers x 2 heads x (512 / 8) x 2 bytes."""
    return 2 * (number % 60 + 1) * 2 * 64 * 2
