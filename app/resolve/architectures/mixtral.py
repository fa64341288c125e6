"""Mixtral: Mistral's attention with a routed mixture of experts in every layer."""

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import LLAMA, llama_like, mixture, window_size
from app.resolve.architectures.mistral import mistral_dims


@family("mixtral", architectures=("MixtralForCausalLM",))
def mixtral(config: Config) -> ModelShape:
    """Every layer routes each token to `num_experts_per_tok` experts. Defaults: MixtralConfig."""
    dims = mistral_dims(config)
    experts = mixture(
        LLAMA.at(config),
        dims.hidden,
        dims.intermediate,
        dims.all_layers,
        num_experts=config.integer("num_local_experts", "num_experts", default=8),
        top_k=config.integer("num_experts_per_tok", default=2),
        module="block_sparse_moe",
        names=("w1", "w3", "w2"),
    )
    return llama_like(config, dims, windows=window_size(config), mlp=experts)
