"""Phi 1, 1.5 and 2, also as first published (`phi-msft`)."""

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.common_shape import Dims, read_dims
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import EVERY_BIAS, Names, llama_like

PHI = Names(
    norm="model.final_layernorm",
    norms=("input_layernorm",),
    qkvo=("q_proj", "k_proj", "v_proj", "dense"),
    qk_norms=("self_attn.q_layernorm", "self_attn.k_layernorm"),
    mlp=("fc1", "fc2"),
)
PHI_MSFT = Names(
    layer="transformer.h.{layer}",
    embed="transformer.embd.wte",
    head="lm_head.linear",
    norm="lm_head.ln",
    norms=("ln",),
    attention="mixer",
    qkvo=("Wqkv", "Wqkv", "Wqkv", "out_proj"),
    mlp=("fc1", "fc2"),
)


@family("phi", architectures=("PhiForCausalLM",))
def phi(config: Config) -> ModelShape:
    """Attention and MLP in parallel after one norm; biases everywhere. Defaults: PhiConfig."""
    dims = read_dims(
        config,
        layers=24,
        hidden=2048,
        heads=32,
        intermediate=8192,
        vocab=51200,
        max_positions=2048,
    )
    return _phi(config, dims, PHI)


@family("phi-msft", "mixformer-sequential", architectures=("MixFormerSequentialForCausalLM",))
def phi_msft(config: Config) -> ModelShape:
    """The same model under the names of its first publication; `n_inner` null means four times
    the width, `n_head_kv` null as many as query heads. Defaults: its PhiConfig.
    """
    hidden = config.integer("n_embd", "hidden_size", default=1024)
    dims = read_dims(
        config,
        layers=20,
        hidden=1024,
        heads=16,
        intermediate=config.integer("n_inner", default=4 * hidden),
        vocab=50304,
        max_positions=2048,
    )
    return _phi(config, dims, PHI_MSFT)


def _phi(config: Config, dims: Dims, names: Names) -> ModelShape:
    normed = config.boolean("qk_layernorm", default=False)
    return llama_like(
        config,
        dims,
        names=names,
        **EVERY_BIAS,
        head_bias=True,
        qk_norm=(dims.head_dim, dims.head_dim) if normed else None,
        qk_norm_bias=True,
    )
