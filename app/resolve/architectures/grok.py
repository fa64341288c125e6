"""Grok-1 and Grok-2."""

from dataclasses import replace

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.common_shape import read_dims
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import Names, dense_mlp, llama_like, mixture

GROK1 = Names(
    norms=("pre_attn_norm", "post_attn_norm", "pre_moe_norm", "post_moe_norm"),
    attention="attn",
)
GROK2 = replace(GROK1, attention="self_attn")


@family(
    "grok-1",
    "grok1",
    architectures=("Grok1ModelForCausalLM", "Grok1ForCausalLM", "Grok2ForCausalLM"),
)
def grok(config: Config) -> ModelShape:
    """Two of eight experts in every layer. Grok-2 (`moe_intermediate_size`, `residual_moe`) adds a
    dense MLP beside them and its own head; Grok-1's is tied. Defaults: Grok1Config.
    """
    residual = config.boolean("residual_moe", default=False)
    second = residual or config.has("moe_intermediate_size")
    dims = read_dims(
        config,
        layers=64,
        hidden=6144,
        heads=48,
        kv_heads=8,
        intermediate=32768,
        vocab=131072,
        max_positions=8192,
        tied=not second,
    )
    names = GROK2 if second else GROK1
    at = names.at(config)
    beside = dense_mlp(at, dims, dims.all_layers) if residual else []
    experts = mixture(
        at,
        dims.hidden,
        config.integer("moe_intermediate_size", default=dims.intermediate),
        dims.all_layers,
        num_experts=config.integer("num_experts", "num_local_experts", default=8),
        top_k=config.integer("num_experts_per_tok", "num_selected_experts", default=2),
        module="block_sparse_moe" if second else "moe_block",
        names=("w1", "w3", "w2") if second else ("linear", "linear_v", "linear_1"),
    )
    return llama_like(config, dims, names=names, mlp=[*beside, *experts])
