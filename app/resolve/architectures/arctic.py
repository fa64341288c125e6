"""Snowflake Arctic: a mixture beside a dense residual MLP."""

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks import gated_mlp, norms, read_dims
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import LLAMA, llama_like, mixture

EXPERT = ("w1", "w3", "w2")


@family("arctic", architectures=("ArcticForCausalLM",))
def arctic(config: Config) -> ModelShape:
    """Each `moe_layer_frequency`-th layer routes its tokens and, with `use_residual`, has an MLP as
    wide as the model beside the experts. Defaults: ArcticConfig of the checkpoints.
    """
    dims = read_dims(
        config,
        layers=32,
        hidden=4096,
        heads=32,
        intermediate=14336,
        vocab=32000,
        max_positions=4096,
    )
    period = config.integer("moe_layer_frequency", default=2)
    sparse = [index for index in range(dims.layers) if (index + 1) % period == 0]
    dense = [index for index in range(dims.layers) if (index + 1) % period]
    at = LLAMA.at(config)
    mlp = mixture(
        at,
        dims.hidden,
        dims.intermediate,
        sparse,
        num_experts=config.integer("num_local_experts", default=8),
        top_k=config.integer("num_experts_per_tok", default=1),
        module="block_sparse_moe",
        names=EXPERT,
    )
    if dense:
        module = "block_sparse_moe.mlp"
        mlp += gated_mlp(at, dims.hidden, dims.intermediate, dense, module=module, names=EXPERT)
    if config.boolean("use_residual", default=False) and sparse:
        mlp += gated_mlp(at, dims.hidden, dims.hidden, sparse, module="residual_mlp", names=EXPERT)
        mlp += norms(at, dims.hidden, sparse, "residual_layernorm")
    return llama_like(config, dims, mlp=mlp)
