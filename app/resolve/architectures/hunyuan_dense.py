"""Hunyuan, the dense models (0.5B to 7B)."""

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.common_shape import read_dims
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import Names, attention_bias, llama_like

HUNYUAN = Names(qk_norms=("self_attn.query_layernorm", "self_attn.key_layernorm"))


@family("hunyuan_v1_dense", architectures=("HunYuanDenseV1ForCausalLM",))
def hunyuan_dense(config: Config) -> ModelShape:
    """Full attention, norms on queries and keys. Defaults: HunYuanDenseV1Config.

    `attention_head_dim` is an older spelling of `head_dim`.
    """
    dims = read_dims(
        config,
        layers=32,
        hidden=4096,
        heads=32,
        head_dim=config.optional_integer("attention_head_dim"),
        intermediate=11008,
        vocab=290943,
        max_positions=2048,
    )
    normed = config.boolean("use_qk_norm", default=True)
    return llama_like(
        config,
        dims,
        names=HUNYUAN,
        **attention_bias(config),
        qk_norm=(dims.head_dim, dims.head_dim) if normed else None,
    )
