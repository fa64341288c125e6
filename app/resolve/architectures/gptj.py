"""GPT-J, CodeGen and MOSS: rotary positions, attention and MLP in parallel after one norm."""

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.common_shape import Dims, read_dims
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import Names, llama_like

GPTJ = Names(
    layer="transformer.h.{layer}",
    embed="transformer.wte",
    norm="transformer.ln_f",
    norms=("ln_1",),
    attention="attn",
    qkvo=("q_proj", "k_proj", "v_proj", "out_proj"),
    mlp=("fc_in", "fc_out"),
)
CODEGEN = Names(
    layer="transformer.h.{layer}",
    embed="transformer.wte",
    norm="transformer.ln_f",
    norms=("ln_1",),
    attention="attn",
    qkvo=("qkv_proj", "qkv_proj", "qkv_proj", "out_proj"),
    mlp=("fc_in", "fc_out"),
)


@family("gptj", architectures=("GPTJForCausalLM",))
def gptj(config: Config) -> ModelShape:
    """Multi-head attention; biases in the MLP and on the head. Defaults: GPTJConfig."""
    return _parallel(config, _dims(config), GPTJ)


@family("codegen", architectures=("CodeGenForCausalLM",))
def codegen(config: Config) -> ModelShape:
    """GPT-J with a fused projection. Defaults: CodeGenConfig."""
    return _parallel(config, _dims(config), CODEGEN)


@family("moss", architectures=("MossForCausalLM",))
def moss(config: Config) -> ModelShape:
    """CodeGen with another vocabulary. Defaults: MossConfig of the checkpoints."""
    return _parallel(config, _dims(config, vocab=107008), CODEGEN)


def _dims(config: Config, *, vocab: int = 50400) -> Dims:
    hidden = config.integer("n_embd", "hidden_size", default=4096)
    return read_dims(
        config,
        layers=28,
        hidden=4096,
        heads=16,
        intermediate=config.integer("n_inner", default=4 * hidden),
        vocab=vocab,
        max_positions=2048,
    )


def _parallel(config: Config, dims: Dims, names: Names) -> ModelShape:
    return llama_like(config, dims, names=names, mlp_bias=True, norm_bias=True, head_bias=True)
