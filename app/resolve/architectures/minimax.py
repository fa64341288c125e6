"""MiniMax Text-01 and M1: lightning attention with ordinary attention in every eighth layer."""

from dataclasses import replace
from typing import Any

from app.core.inventory import Part, Split, Weight
from app.core.model import ModelShape
from app.core.precision import FLOAT32
from app.core.recurrent import LightningState
from app.resolve.architectures import architecture_names, family
from app.resolve.architectures.common_shape import Dims, attention_part, read_dims
from app.resolve.architectures.common_weights import (
    attention,
    gated_mlp,
    linear,
    routed_experts,
    router,
    vector,
)
from app.resolve.architectures.fields import Config
from app.resolve.architectures.hybrid import (
    FULL,
    LINEAR,
    checked_kinds,
    hybrid_decoder,
    pick,
    with_kv_heads,
)
from app.resolve.architectures.llama_like import window_size
from app.resolve.architectures.minimax_m2 import minimax_m2

MODULE = "block_sparse_moe"
M2 = "MiniMaxM2ForCausalLM"


@family(
    "minimax",
    "minimax_text_01",
    "minimax_m1",
    architectures=("MiniMaxForCausalLM", "MiniMaxText01ForCausalLM", "MiniMaxM1ForCausalLM"),
)
def minimax(config: Config) -> ModelShape:
    """`attn_type_list` says which layers cache K and V (1) and which a matrix a head (0); else
    `layer_types`, else every second layer. Checkpoints keep routers in fp32. M2 was first
    published under this model type. Defaults: MiniMaxConfig.
    """
    if M2 in architecture_names(config):
        return minimax_m2(config)
    dims = read_dims(
        with_kv_heads(config, 8),
        layers=32,
        hidden=4096,
        heads=32,
        intermediate=14336,
        vocab=32000,
        max_positions=131072,
    )
    kinds = _kinds(config, dims)
    light = pick(kinds, LINEAR)
    cached = (attention_part(dims, window=window_size(config)),)
    state = (LightningState(num_heads=dims.heads, head_dim=dims.head_dim),)
    width = dims.heads * dims.head_dim
    experts = config.integer("num_local_experts", "num_experts", default=8)
    shared = config.integer("shared_intermediate_size", default=0, minimum=0)
    at = config.prefix + "model.layers.{layer}"
    inside = f"{at}.self_attn"
    column: dict[str, Any] = {"part": Part.STATE, "layers": light, "split": Split.COLUMN}
    lightning = [
        linear(f"{inside}.qkv_proj", 3 * width, dims.hidden, **column),
        linear(f"{inside}.output_gate", width, dims.hidden, **column),
        linear(f"{inside}.out_proj", dims.hidden, width, **{**column, "split": Split.ROW}),
        vector(f"{inside}.norm", width, **column),
    ]
    layers = dims.all_layers
    weights = [
        *(lightning if light else ()),
        *attention(at, dims, pick(kinds, FULL)),
        replace(router(at, dims.hidden, experts, layers, module=f"{MODULE}.gate"), dtype=FLOAT32),
        *routed_experts(
            at,
            dims.hidden,
            dims.intermediate,
            layers,
            num_experts=experts,
            top_k=config.integer("num_experts_per_tok", default=2),
            module=f"{MODULE}.experts.{{expert}}",
            names=("w1", "w3", "w2"),
        ),
        *(_shared(at, dims, shared) if shared else ()),
    ]
    return hybrid_decoder(config, dims, kinds, {FULL: cached, LINEAR: state}, weights)


def _kinds(config: Config, dims: Dims) -> list[str]:
    flags = config.integers("attn_type_list", "decoder_attention_types", maximum=1)
    if flags is not None:
        flags = config.per_layer(flags, "attn_type_list", dims.layers)
        return [FULL if flag else LINEAR for flag in flags]
    kinds = config.texts("layer_types")
    if kinds is None:
        return [LINEAR if i % 2 else FULL for i in dims.all_layers]
    return checked_kinds(config, "layer_types", kinds, dims.layers, FULL, LINEAR)


def _shared(at: str, dims: Dims, width: int) -> list[Weight]:
    layers = dims.all_layers
    part = Part.SHARED_EXPERTS
    return [
        *gated_mlp(at, dims.hidden, width, layers, module="shared_mlp", part=part),
        linear(f"{at}.coefficient", 1, dims.hidden, part=part, layers=layers),
    ]
