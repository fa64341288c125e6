"""Qwen (the first generation, remote code `QWenLMHeadModel`)."""

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks import read_dims
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import Names, llama_like

QWEN = Names(
    layer="transformer.h.{layer}",
    embed="transformer.wte",
    norm="transformer.ln_f",
    norms=("ln_1", "ln_2"),
    attention="attn",
    qkvo=("c_attn", "c_attn", "c_attn", "c_proj"),
    mlp=("w2", "w1", "c_proj"),
)


@family("qwen", architectures=("QWenLMHeadModel",))
def qwen(config: Config) -> ModelShape:
    """Multi-head attention of full width. `intermediate_size` counts gate and up together, so each
    has half of it. Defaults: QWenConfig of the checkpoints.
    """
    doubled = config.integer("intermediate_size", "ffn_hidden_size", default=22016)
    dims = read_dims(
        config.overlay(
            intermediate_size=max(doubled // 2, 1),
            head_dim=config.integer("kv_channels", default=128),
            num_key_value_heads=None,
        ),
        layers=32,
        hidden=4096,
        heads=32,
        vocab=151936,
        max_positions=8192,
    )
    biased = not config.boolean("no_bias", default=True)
    return llama_like(config, dims, names=QWEN, qkv_bias=True, out_bias=biased, mlp_bias=biased)
