"""Snowflake Arctic: a dense MLP and a mixture of experts side by side in each layer."""

from app.core.inventory import Weight
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_moe import EXPERTS, TOP_K
from app.resolve.architectures.common_shape import Dims, read_dims
from app.resolve.architectures.common_weights import gated_mlp, norms
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import llama_like, mixture, window_size

NAMES = ("w1", "w3", "w2")
MODULE = "block_sparse_moe"


@family("arctic", architectures=("ArcticForCausalLM",))
def arctic(config: Config) -> ModelShape:
    """K and V of every token in every layer. Each `moe_layer_frequency`-th layer routes, beside an
    MLP as wide as the model. Defaults: the model's own ArcticConfig.
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
    return llama_like(config, dims, windows=window_size(config), mlp=_mlps(config, dims))


def _mlps(config: Config, dims: Dims) -> list[Weight]:
    step = config.integer("moe_layer_frequency", default=2)
    routed = tuple(index for index in dims.all_layers if (index + 1) % step == 0)
    dense = tuple(index for index in dims.all_layers if (index + 1) % step)
    at = config.prefix + "model.layers.{layer}"
    weights: list[Weight] = []
    if dense:
        weights += gated_mlp(
            at, dims.hidden, dims.intermediate, dense, module=f"{MODULE}.mlp", names=NAMES
        )
    weights += mixture(
        at,
        dims.hidden,
        dims.intermediate,
        routed,
        num_experts=config.integer(*EXPERTS, default=8),
        top_k=config.integer(*TOP_K, default=1),
        module=MODULE,
        names=NAMES,
    )
    beside = config.boolean("parallel_attn_mlp_res", default=False)
    if routed and (beside or config.boolean("use_residual", default=False)):
        weights += gated_mlp(
            at, dims.hidden, dims.hidden, routed, module="residual_mlp", names=NAMES
        )
        weights += norms(at, dims.hidden, routed, "residual_layernorm") if beside else []
    return weights
