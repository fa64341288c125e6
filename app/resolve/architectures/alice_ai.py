"""Alice AI: Qwen3-Next's gated attention and experts, Kimi delta attention in the other layers, and
a residual taken from blocks of earlier layers.
"""

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_moe import Moe, routed_mlp
from app.resolve.architectures.blocks_state import KimiDelta
from app.resolve.architectures.common_shape import attention_part, read_dims
from app.resolve.architectures.common_weights import norms, vector
from app.resolve.architectures.fields import Config
from app.resolve.architectures.hybrid import (
    FULL,
    LINEAR,
    hybrid_decoder,
    interval_kinds,
    pick,
)
from app.resolve.architectures.qwen3_next import gated_attention


@family("alice_ai", architectures=("AliceAIForCausalLM",))
def alice_ai(config: Config) -> ModelShape:
    """Full layers cache K and V, the others an fp32 state. Sizes have to be stated: no published
    class gives them defaults.
    """
    dims = read_dims(config.overlay(intermediate_size=config.get("intermediate_size") or 1))
    kinds = interval_kinds(config, dims.layers)
    full, recurrent = pick(kinds, FULL), pick(kinds, LINEAR)
    delta = KimiDelta(
        hidden=dims.hidden,
        heads=config.integer("linear_num_key_heads"),
        head_dim=config.integer("linear_key_head_dim"),
        kernel=config.integer("linear_conv_kernel_dim", default=4),
    )
    for key, value in (("heads", delta.heads), ("head_dim", delta.head_dim)):
        name = "linear_num_value_heads" if key == "heads" else "linear_value_head_dim"
        if config.integer(name, default=value) != value:
            raise config.fail(name, "must be that of the keys")
    moe = Moe(
        num_experts=config.integer("num_experts"),
        top_k=config.integer("num_experts_per_tok"),
        width=config.integer("moe_intermediate_size"),
        shared_width=config.integer("shared_expert_intermediate_size", default=0, minimum=0),
    )
    root = config.prefix + "model."
    at = root + "layers.{layer}"
    layers = dims.all_layers
    return hybrid_decoder(
        config,
        dims,
        kinds,
        {FULL: (attention_part(dims),), LINEAR: (delta.part(),)},
        [
            *delta.weights(f"{at}.linear_attn", recurrent),
            *gated_attention(config, dims, at, full),
            *routed_mlp(
                at, dims, moe, layers, shared="shared_expert", shared_gate="shared_expert_gate"
            ),
            *norms(at, dims.hidden, layers, "mlp_res_proj", "mlp_res_norm_weight"),
            *norms(at, dims.hidden, layers[1:], "attn_res_proj", "attn_res_norm_weight"),
            vector(root + "final_res_proj", dims.hidden),
            vector(root + "final_res_norm_weight", dims.hidden),
        ],
    )
