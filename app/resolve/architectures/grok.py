"""Grok-1."""

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks import read_dims
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import Names, llama_like, mixture

GROK1 = Names(
    norms=("pre_attn_norm", "post_attn_norm", "pre_moe_norm", "post_moe_norm"),
    attention="attn",
)


@family("grok-1", "grok1", architectures=("Grok1ModelForCausalLM", "Grok1ForCausalLM"))
def grok1(config: Config) -> ModelShape:
    """Two of eight experts in every layer, a tied head. Defaults: Grok1Config."""
    dims = read_dims(
        config,
        layers=64,
        hidden=6144,
        heads=48,
        kv_heads=8,
        intermediate=32768,
        vocab=131072,
        max_positions=8192,
        tied=True,
    )
    return llama_like(
        config,
        dims,
        names=GROK1,
        mlp=mixture(
            GROK1.at(config),
            dims.hidden,
            dims.intermediate,
            dims.all_layers,
            num_experts=config.integer("num_experts", "num_local_experts", default=8),
            top_k=config.integer("num_experts_per_tok", "num_selected_experts", default=2),
            module="moe_block",
            names=("linear", "linear_v", "linear_1"),
        ),
    )
