"""MiniCPM 1 and 2, 4 and 4.1 (dense attention), MiniCPM-MoE and MiniCPM 3."""

from app.core.inventory import Weight
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.common_shape import read_dims
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import LLAMA, attention_bias, llama_like, mixture
from app.resolve.architectures.mla import Latent, expanded_decoder


@family("minicpm", architectures=("MiniCPMForCausalLM",))
def minicpm(config: Config) -> ModelShape:
    """Llama with scaled residuals; a mixture in every layer where `num_experts` is given.

    Engines attend to all tokens and cache them all, also where `sparse_config` allows less.
    Defaults: MiniCPMConfig of the checkpoints.
    """
    dims = read_dims(
        config,
        layers=32,
        hidden=4096,
        heads=32,
        intermediate=11008,
        vocab=32000,
        max_positions=2048,
        tied=True,
    )
    num_experts = config.integer("num_experts", default=0, minimum=0)
    experts: list[Weight] | None = None
    if num_experts:
        experts = mixture(
            LLAMA.at(config),
            dims.hidden,
            dims.intermediate,
            dims.all_layers,
            num_experts=num_experts,
            top_k=config.integer("num_experts_per_tok", default=2),
            names=("w1", "w3", "w2"),
        )
    return llama_like(config, dims, **attention_bias(config), mlp=experts)


@family("minicpm3", architectures=("MiniCPM3ForCausalLM",))
def minicpm3(config: Config) -> ModelShape:
    """Latent attention in its weights, multi-head in its cache: engines keep K and V of every
    head, V padded to K's width. Defaults: MiniCPM3Config.
    """
    dims = read_dims(
        config.overlay(head_dim=None),
        layers=62,
        hidden=2560,
        heads=40,
        kv_heads=40,
        intermediate=6400,
        vocab=73448,
        max_positions=32768,
        tied=True,
    )
    nope = config.integer("qk_nope_head_dim", default=64)
    rope = config.integer("qk_rope_head_dim", default=32)
    latent = Latent(
        q_lora_rank=config.integer("q_lora_rank", default=768),
        kv_lora_rank=config.integer("kv_lora_rank", default=256),
        qk_nope_head_dim=nope,
        qk_rope_head_dim=rope,
        v_head_dim=config.integer("v_head_dim", default=dims.head_dim),
    )
    bias = config.boolean("mlp_bias", default=False)
    return expanded_decoder(config, dims, latent, cached_v=nope + rope, mlp_bias=bias)
