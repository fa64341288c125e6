"""Mistral's params.json under the names of a config.json.

The mapping of names follows what vLLM 0.33 accepts for this format. A part that is not understood
is refused by name; nothing is dropped that decides shapes.
"""

from typing import Any

from app.errors import UnknownArchitecture

DEFAULT_MAX_POSITIONS = 128_000
MAX_LAYERS = 4_096

_NAMES = {
    "dim": "hidden_size",
    "n_layers": "num_hidden_layers",
    "n_heads": "num_attention_heads",
    "n_kv_heads": "num_key_value_heads",
    "hidden_dim": "intermediate_size",
    "norm_eps": "rms_norm_eps",
    "tied_embeddings": "tie_word_embeddings",
    "activation": "hidden_act",
}
_MOE_NAMES = {
    "num_experts": "n_routed_experts",
    "num_shared_experts": "n_shared_experts",
    "expert_hidden_dim": "moe_intermediate_size",
    "route_every_n": "moe_layer_freq",
    "first_k_dense_replace": "first_k_dense_replace",
    "num_experts_per_tok": "num_experts_per_tok",
    "num_expert_groups": "n_group",
    "num_expert_groups_per_tok": "topk_group",
    "routed_scale": "routed_scaling_factor",
}
_YARN_NAMES = {
    "factor": "factor",
    "original_max_position_embeddings": "original_max_position_embeddings",
    "beta": "beta_fast",
    "alpha": "beta_slow",
}


def config_from_params(params: dict[str, Any]) -> dict[str, Any]:
    """A config.json's content for a params.json's.

    Raises:
        UnknownArchitecture: naming the field of params.json that is not understood.
    """
    config = {_NAMES.get(key, key): value for key, value in params.items()}
    config.setdefault("max_position_embeddings", DEFAULT_MAX_POSITIONS)
    config.setdefault("tie_word_embeddings", False)
    if config.get("model_type") == "mamba":
        raise _refused("model_type")
    _map_sliding_window(config)
    _map_quantization(config)
    _map_yarn(config)
    _map_architecture(config)
    return _nest_encoders(config)


def _map_sliding_window(config: dict[str, Any]) -> None:
    windows = config.get("sliding_window")
    if not windows:
        config["sliding_window"] = None
        return
    layers = config.get("num_hidden_layers")
    if not isinstance(layers, int) or not 0 < layers <= MAX_LAYERS:
        raise _refused("n_layers")
    pattern = windows if isinstance(windows, list) else [windows]
    if not all(size is None or (isinstance(size, int) and size > 0) for size in pattern):
        raise _refused("sliding_window")
    sizes = {size for size in pattern if size is not None}
    if len(sizes) > 1 or layers % len(pattern):
        raise _refused("sliding_window")
    kinds = ["full_attention" if size is None else "sliding_attention" for size in pattern]
    config["sliding_window"] = next(iter(sizes), None)
    config.setdefault("layer_types", kinds * (layers // len(kinds)))


def _map_quantization(config: dict[str, Any]) -> None:
    quantization = config.pop("quantization", None)
    match quantization:
        case None | {} if not quantization:
            return
        case {"qformat_weight": "fp8_e4m3"}:
            dynamic = quantization.get("qscheme_act") == "NO_SCALES"
            config["quantization_config"] = {
                "quant_method": "fp8",
                "activation_scheme": "dynamic" if dynamic else "static",
            }
        case {"quant_method": str(method)} if method.lower().replace("_", "-") == (
            "compressed-tensors"
        ):
            config["quantization_config"] = quantization | {"quant_method": "compressed-tensors"}
        case _:
            raise _refused("quantization")


def _map_yarn(config: dict[str, Any]) -> None:
    yarn = config.pop("yarn", None)
    if isinstance(yarn, dict) and yarn:
        known = {_YARN_NAMES[key]: value for key, value in yarn.items() if key in _YARN_NAMES}
        config["rope_scaling"] = {"rope_type": "yarn"} | known


def _map_architecture(config: dict[str, Any]) -> None:
    moe = config.pop("moe", None)
    if moe is not None and not isinstance(moe, dict):
        raise _refused("moe")
    if config.get("qk_nope_head_dim"):
        # MLA: DeepSeek's layout, also where every layer is dense.
        config.update(model_type="deepseek_v3", architectures=["MistralLarge3ForCausalLM"])
        dense = {"first_k_dense_replace": config.get("num_hidden_layers")}
        config.update({_MOE_NAMES[k]: v for k, v in (moe or dense).items() if k in _MOE_NAMES})
    elif moe and moe.get("num_shared_experts"):
        raise _refused("moe.num_shared_experts")
    elif moe:
        config.update(model_type="mixtral", architectures=["MixtralForCausalLM"])
        config["num_local_experts"] = moe.get("num_experts")
        config["num_experts_per_tok"] = moe.get("num_experts_per_tok")
    else:
        config.update(model_type="mistral", architectures=["MistralForCausalLM"])


def _nest_encoders(config: dict[str, Any]) -> dict[str, Any]:
    multimodal = config.pop("multimodal", None) or {}
    if not isinstance(multimodal, dict):
        raise _refused("multimodal")
    vision = config.pop("vision_encoder", None) or multimodal.get("vision_encoder_args")
    audio = multimodal.get("whisper_model_args")
    if vision:
        outer = {"model_type": "pixtral", "architectures": ["PixtralForConditionalGeneration"]}
        nested = outer | {"text_config": config, "vision_config": vision}
    elif audio:
        outer = {"model_type": "voxtral", "architectures": ["VoxtralForConditionalGeneration"]}
        nested = outer | {"text_config": config, "audio_config": audio}
    else:
        return config
    if "quantization_config" in config:
        nested["quantization_config"] = config["quantization_config"]
    return nested


def _refused(field: str) -> UnknownArchitecture:
    return UnknownArchitecture("params.json", [field], "this part of it is not understood")
