"""HyperCLOVA X (SEED, Think): the text model."""

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.common_shape import read_dims
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import LLAMA, Names, attention_bias, llama_like

POST_NORMS = Names(norms=(*LLAMA.norms, "post_norm1", "post_norm2"))


@family("hyperclovax", architectures=("HyperCLOVAXForCausalLM",))
def hyperclovax(config: Config) -> ModelShape:
    """Full attention; norms after attention and MLP too (`use_post_norm`). HyperCLOVAXConfig."""
    dims = read_dims(
        config,
        layers=32,
        hidden=4096,
        heads=32,
        intermediate=11008,
        vocab=32000,
        max_positions=2048,
    )
    return llama_like(
        config,
        dims,
        names=POST_NORMS if config.boolean("use_post_norm", default=True) else LLAMA,
        **attention_bias(config),
        mlp_bias=config.boolean("mlp_bias", default=False),
    )
