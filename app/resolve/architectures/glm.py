"""GLM 4 in transformers' form, dense: GLM-4-9B (`glm`), GLM-4-0414 and Z1 (`glm4`)."""

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.common_shape import Dims, read_dims
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import FUSED_GATE_UP, LLAMA, Names, llama_like

GLM = Names(mlp=FUSED_GATE_UP)
GLM4 = Names(
    mlp=FUSED_GATE_UP, norms=(*LLAMA.norms, "post_self_attn_layernorm", "post_mlp_layernorm")
)


@family("glm", architectures=("GlmForCausalLM",))
def glm(config: Config) -> ModelShape:
    """Two KV heads, biases on q, k and v, gate and up fused. Defaults: GlmConfig."""
    return _glm(config, GLM)


@family("glm4", architectures=("Glm4ForCausalLM",))
def glm4(config: Config) -> ModelShape:
    """GLM with norms after attention and MLP too. Defaults: Glm4Config."""
    return _glm(config, GLM4)


def _dims(config: Config) -> Dims:
    return read_dims(
        config,
        layers=40,
        hidden=4096,
        heads=32,
        kv_heads=2,
        head_dim=128,
        intermediate=13696,
        vocab=151552,
        max_positions=131072,
    )


def _glm(config: Config, names: Names) -> ModelShape:
    bias = config.boolean("attention_bias", default=True)
    return llama_like(config, _dims(config), names=names, qkv_bias=bias)
