"""Nemotron 3, 4 and Minitron (`nemotron`, dense)."""

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.common_shape import read_dims
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import Names, attention_bias, llama_like

NEMOTRON = Names(mlp=("up_proj", "down_proj"))


@family("nemotron", architectures=("NemotronForCausalLM",))
def nemotron(config: Config) -> ModelShape:
    """Full attention, layer norms with biases, an ungated MLP. Defaults: NemotronConfig."""
    dims = read_dims(
        config,
        layers=32,
        hidden=6144,
        heads=48,
        intermediate=24576,
        vocab=256000,
        max_positions=4096,
    )
    return llama_like(
        config,
        dims,
        names=NEMOTRON,
        **attention_bias(config),
        mlp_bias=config.boolean("mlp_bias", default=False),
        norm_bias=True,
    )
