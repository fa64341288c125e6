"""GGUF metadata under the names of a config.json.

Keys: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. An architecture that is not in
the table keeps llama.cpp's name, so that what reads configs refuses it by that name.
"""

from collections.abc import Mapping
from typing import Any

from app.hub.gguf import GgufHeader, GgufTensor

_MODEL_TYPES = {
    "command-r": "cohere",
    "deepseek2": "deepseek_v3",
    "gemma3": "gemma3_text",
    "glm4moe": "glm4_moe",
    "gpt-oss": "gpt_oss",
    "gptneox": "gpt_neox",
    "llama4": "llama4_text",
    "phi2": "phi",
    "qwen2moe": "qwen2_moe",
    "qwen3moe": "qwen3_moe",
    "qwen3next": "qwen3_next",
}
_EXPERTS = {
    "deepseek_v3": "n_routed_experts",
    "glm4_moe": "n_routed_experts",
    "gpt_oss": "num_local_experts",
    "llama4_text": "num_local_experts",
    "mixtral": "num_local_experts",
}
_KEYS = {
    "block_count": "num_hidden_layers",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "context_length": "max_position_embeddings",
    "vocab_size": "vocab_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.sliding_window": "sliding_window",
    "expert_used_count": "num_experts_per_tok",
    "expert_feed_forward_length": "moe_intermediate_size",
    "expert_shared_count": "n_shared_experts",
    "expert_shared_feed_forward_length": "shared_expert_intermediate_size",
    "leading_dense_block_count": "first_k_dense_replace",
    "nextn_predict_layers": "num_nextn_predict_layers",
}


def config_from_gguf(header: GgufHeader) -> dict[str, Any]:
    """A config.json's content for a GGUF header; per-layer arrays stay lists."""
    architecture = header.architecture or ""
    own = {
        key.removeprefix(f"{architecture}."): list(value) if isinstance(value, tuple) else value
        for key, value in header.metadata.items()
        if key.startswith(f"{architecture}.")
    }
    experts = own.get("expert_count") or 0
    model_type = _MODEL_TYPES.get(architecture, architecture)
    if model_type == "llama" and experts:
        model_type = "mixtral"
    config: dict[str, Any] = {"model_type": model_type}
    config |= {name: own[key] for key, name in _KEYS.items() if key in own}
    if experts:
        config[_EXPERTS.get(model_type, "num_experts")] = experts
    if "attention.kv_lora_rank" in own:
        _add_latent_attention(config, own)
    elif own.get("attention.value_length") != own.get("attention.key_length"):
        config["v_head_dim"] = own.get("attention.value_length")
    tensors = {tensor.name: tensor for tensor in header.tensors}
    config.setdefault("vocab_size", _vocabulary(tensors))
    config["tie_word_embeddings"] = bool(tensors) and "output.weight" not in tensors
    return config


def _add_latent_attention(config: dict[str, Any], own: Mapping[str, Any]) -> None:
    # Files written for the latent form state the sizes of a head before compression as *_mla.
    rope = own.get("rope.dimension_count")
    key = own.get("attention.key_length_mla", own.get("attention.key_length"))
    config.pop("head_dim", None)
    config["kv_lora_rank"] = own["attention.kv_lora_rank"]
    config["q_lora_rank"] = own.get("attention.q_lora_rank")
    config["qk_rope_head_dim"] = rope
    config["v_head_dim"] = own.get("attention.value_length_mla", own.get("attention.value_length"))
    if isinstance(key, int) and isinstance(rope, int):
        config["qk_nope_head_dim"] = key - rope
    config["num_key_value_heads"] = config.get("num_attention_heads")


def _vocabulary(tensors: Mapping[str, GgufTensor]) -> int | None:
    embedding = tensors.get("token_embd.weight")
    # ggml's first dimension runs fastest: the embedding's rows are its last.
    return embedding.shape[-1] if embedding is not None and embedding.shape else None
