"""Jamba: Mamba layers with attention in every eighth and experts in every second layer."""

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_state import (
    FULL,
    HYBRID,
    LINEAR,
    Mamba1,
    dt_rank,
    kind_groups,
    pick,
    with_kv_heads,
)
from app.resolve.architectures.common_shape import attention_part, model_shape, read_dims
from app.resolve.architectures.common_weights import attention, norms, vector, vocabulary
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import Names, dense_mlp, mixture

FEED_FORWARD = Names(mlp_module="feed_forward")


@family("jamba", architectures=("JambaForCausalLM", "JambaForSequenceClassification"))
def jamba(config: Config) -> ModelShape:
    """Attention layers (`attn_layer_period`, `attn_layer_offset`) cache K and V, the others a
    Mamba state. Defaults: JambaConfig.
    """
    dims = read_dims(
        with_kv_heads(config, 8),
        layers=32,
        hidden=4096,
        heads=32,
        intermediate=14336,
        vocab=65536,
        max_positions=262144,
    )
    period = config.integer("attn_layer_period", default=8)
    offset = config.integer("attn_layer_offset", default=4, minimum=0)
    kinds = [FULL if i % period == offset else LINEAR for i in dims.all_layers]
    full, recurrent = pick(kinds, FULL), pick(kinds, LINEAR)
    num_experts = config.integer("num_experts", default=16)
    every = config.integer("expert_layer_period", default=2)
    first = config.integer("expert_layer_offset", default=1, minimum=0)
    sparse = [i for i in dims.all_layers if i % every == first] if num_experts > 1 else []
    dense = sorted(set(dims.all_layers).difference(sparse))
    mixer = Mamba1(
        hidden=dims.hidden,
        inner=config.integer("mamba_expand", default=2) * dims.hidden,
        state=config.integer("mamba_d_state", default=16),
        kernel=config.integer("mamba_d_conv", default=4),
        dt_rank=dt_rank(config, "mamba_dt_rank", dims.hidden),
        bias=config.boolean("mamba_proj_bias", default=False),
        conv_bias=config.boolean("mamba_conv_bias", default=True),
        inner_norms=True,
    )
    at = config.prefix + "model.layers.{layer}"
    cached, state = (attention_part(dims),), (mixer.part(),)
    return model_shape(
        config,
        dims,
        groups=kind_groups(kinds, {FULL: cached, LINEAR: state}, dims.heads),
        weights=[
            *vocabulary(dims, prefix=config.prefix),
            *(attention(at, dims, full) if full else ()),
            *mixer.weights(f"{at}.mamba", recurrent),
            *dense_mlp(at, dims, dense, names=FEED_FORWARD),
            *mixture(
                at,
                dims.hidden,
                dims.intermediate,
                sparse,
                num_experts=num_experts,
                top_k=config.integer("num_experts_per_tok", default=2),
                module="feed_forward",
                gate="router",
            ),
            *norms(at, dims.hidden, dims.all_layers, "input_layernorm", "pre_ff_layernorm"),
            vector(config.prefix + "model.final_layernorm", dims.hidden),
        ],
        traits=(HYBRID,),
    )
