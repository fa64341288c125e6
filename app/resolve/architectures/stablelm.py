"""StableLM."""

from dataclasses import replace

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.common_shape import read_dims
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import LLAMA, Names, llama_like

NAMES = Names(qk_norms=("self_attn.q_layernorm.norms", "self_attn.k_layernorm.norms"))
PARALLEL = replace(NAMES, norms=LLAMA.norms[:1])


@family(
    "stablelm",
    "stablelm_epoch",
    architectures=("StableLmForCausalLM", "StableLMEpochForCausalLM"),
)
def stablelm(config: Config) -> ModelShape:
    """Full attention, layer norms; the second goes where the residual is parallel.

    Defaults: StableLmConfig.
    """
    dims = read_dims(
        config,
        layers=32,
        hidden=2560,
        heads=32,
        kv_heads=32,
        intermediate=6912,
        vocab=50304,
        max_positions=4096,
    )
    normed = config.boolean("qk_layernorm", default=False)
    parallel = config.boolean("use_parallel_residual", default=False)
    return llama_like(
        config,
        dims,
        names=PARALLEL if parallel else NAMES,
        qkv_bias=config.boolean("use_qkv_bias", default=False),
        norm_bias=True,
        qk_norm=(dims.heads * dims.head_dim, dims.kv_heads * dims.head_dim) if normed else None,
    )
