"""K2 Horizon: routed experts in the MLP and, in the same layers, for the values of attention."""

from collections.abc import Sequence
from dataclasses import replace

from app.core.inventory import Part, Split, Weight
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.common_shape import Dims, read_dims
from app.resolve.architectures.common_weights import linear, output_gate, router
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import (
    LLAMA,
    attention_bias,
    dense_mlp,
    llama_like,
    mixture,
)
from app.resolve.architectures.qwen2 import sparse_layers


@family("k2_horizon", architectures=("K2HorizonForCausalLM",))
def k2_horizon(config: Config) -> ModelShape:
    """K and V of every token in every layer, whichever expert made the values. Sizes must be
    stated.
    """
    dims = read_dims(config)
    sparse, dense = sparse_layers(config, dims.layers)
    num_experts = config.integer("num_experts", default=0, minimum=0)
    if not num_experts:
        sparse, dense = [], list(dims.all_layers)
    value_experts = config.integer("mova_num_experts", default=0, minimum=0)
    router_bias = config.boolean("moe_gate_bias", default=False)
    at = LLAMA.at(config)
    mlp = dense_mlp(at, dims, dense)
    if sparse:
        width = config.integer("moe_intermediate_size")
        mlp += mixture(
            at,
            dims.hidden,
            width,
            sparse,
            num_experts=num_experts,
            top_k=config.integer("num_experts_per_tok"),
            router_bias=router_bias,
            shared_width=width * config.integer("num_shared_experts", default=0, minimum=0),
        )
    routed = sparse if value_experts else []
    shape = llama_like(
        config,
        dims,
        **attention_bias(config),
        qk_norm=(dims.heads * dims.head_dim, dims.kv_heads * dims.head_dim)
        if config.boolean("query_key_norm", default=False)
        else None,
        mlp=mlp,
        extra=[
            *(
                [output_gate(at, dims, dims.all_layers)]
                if config.has("attention_gate_func")
                else ()
            ),
            *_values(config, at, dims, routed, num_experts=value_experts, bias=router_bias),
        ],
    )
    return replace(shape, weights=tuple(_plain_values(shape.weights, routed)))


def _values(
    config: Config, at: str, dims: Dims, layers: Sequence[int], *, num_experts: int, bias: bool
) -> list[Weight]:
    """The router and the value projections of the layers whose values are routed."""
    if not layers:
        return []
    top_k = config.integer("mova_num_experts_per_tok")
    name = f"{at}.self_attn.v_experts.{{expert}}"
    experts = linear(
        name,
        dims.kv_heads * dims.head_dim,
        dims.hidden,
        part=Part.ATTENTION,
        layers=layers,
        split=Split.KV_HEADS,
        kv_heads=dims.kv_heads,
        experts=num_experts,
        active=min(top_k, num_experts),
    )
    return [
        router(at, dims.hidden, num_experts, layers, module="self_attn.v_router", bias=bias),
        experts,
    ]


def _plain_values(weights: Sequence[Weight], routed: Sequence[int]) -> list[Weight]:
    """The same weights, with the plain value projection only where it is not routed."""
    away = set(routed)
    kept = []
    for weight in weights:
        if weight.name.endswith(".self_attn.v_proj") and away:
            layers = tuple(index for index in weight.layers or () if index not in away)
            if layers:
                kept.append(replace(weight, layers=layers))
        else:
            kept.append(weight)
    return kept
