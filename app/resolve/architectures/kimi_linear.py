"""Kimi Linear and Kimi K3: Kimi delta attention with latent attention in every fourth layer.

K3 adds latent experts, output gates of full rank, a residual taken from blocks of earlier layers,
and MoonViT.
"""

from collections.abc import Sequence
from typing import Any

from app.core.inventory import Part, Split, Weight
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_moe import (
    Moe,
    chosen,
    correction,
    drafts,
    mtp_layers,
    mtp_module,
    read_moe,
    sparse_layers,
)
from app.resolve.architectures.blocks_moonvit import moonvit3d
from app.resolve.architectures.blocks_state import read_kimi_delta, state_dtype
from app.resolve.architectures.common_shape import Dims, read_dims
from app.resolve.architectures.common_weights import (
    gated_mlp,
    linear,
    norms,
    routed_experts,
    router,
    vector,
)
from app.resolve.architectures.fields import MAX_LAYERS, Config
from app.resolve.architectures.hybrid import (
    FULL,
    LINEAR,
    checked_kinds,
    hybrid_decoder,
    pick,
)
from app.resolve.architectures.llama_like import dense_mlp
from app.resolve.architectures.mla import Latent, latent_attention, latent_part, read_latent
from app.resolve.architectures.multimodal import multimodal, text_model

NORMS = ("input_layernorm", "post_attention_layernorm")
MODULE = "block_sparse_moe"


@family("kimi_k3", architectures=("KimiK3ForConditionalGeneration",))
def kimi_k3(config: Config) -> ModelShape:
    """A Kimi Linear text model with a vision tower. Defaults: KimiK3Config of vLLM."""
    text = text_model(config, model_type="kimi_linear", prefix="language_model.")
    vision = config.section("vision_config").data
    defaults = {
        "vt_hidden_size": 1024,
        "vt_intermediate_size": 4096,
        "qkv_hidden_size": 1536,
        "norm_type": "rmsnorm",
        "attn_bias": False,
        "linear_bias": False,
        "patch_embed_proj_bias": False,
        "mm_projector_type": "patchmergerv2",
    }
    tower = Config({**defaults, **vision}, path=(*config.path, "vision_config"))
    weights = moonvit3d(tower, "vision_tower", "mm_projector", text.hidden_size)
    return multimodal(config, text, weights)


@family("kimi_linear", architectures=("KimiLinearForCausalLM",))
def kimi_linear(config: Config) -> ModelShape:
    """Full layers keep a latent a token, the others an fp32 state. Which is which stands in
    `linear_attn_config` (counted from 1) or `layer_types`. Defaults: KimiLinearConfig.
    """
    dims = read_dims(
        config,
        layers=27,
        hidden=2304,
        heads=32,
        head_dim=72,
        intermediate=9216,
        vocab=163840,
        max_positions=1048576,
    )
    kinds = _kinds(config, dims)
    mixer = read_kimi_delta(config, dims.hidden, heads=32)
    latent = read_latent(config, q=None)
    moe = read_moe(config, experts=256, top_k=8, width=1024, shared=1)
    sparse = sparse_layers(config, dims.layers, first_dense=1)
    at = config.prefix + "model.layers.{layer}"
    cached = latent_part(latent)
    state = mixer.part(state_dtype(config, "mamba_ssm_dtype"))
    modules = mtp_layers(config, dims)
    block = [
        *_latent_attention(config, dims, latent, at, modules),
        *_experts(config, dims, moe, at, modules),
        *norms(at, dims.hidden, modules, *NORMS),
    ]
    return hybrid_decoder(
        config,
        dims,
        kinds,
        {FULL: (cached,), LINEAR: (state,)},
        [
            *mixer.weights(f"{at}.self_attn", pick(kinds, LINEAR)),
            *_latent_attention(config, dims, latent, at, pick(kinds, FULL)),
            *dense_mlp(at, dims, chosen(sparse, False) if moe.num_experts else dims.all_layers),
            *_experts(config, dims, moe, at, chosen(sparse, True) if moe.num_experts else ()),
            *_residuals(config, dims, at),
            *mtp_module(at, dims, modules, block),
        ],
        draft_groups=drafts(modules, dims.heads, cached),
    )


def _kinds(config: Config, dims: Dims) -> list[str]:
    linear_config = config.section("linear_attn_config")
    kinds = config.texts("layer_types")
    if kinds is not None:
        return checked_kinds(config, "layer_types", kinds, dims.layers, FULL, LINEAR)
    recurrent = linear_config.integers("kda_layers", minimum=1, maximum=MAX_LAYERS)
    if recurrent is not None:
        stated = {index - 1 for index in recurrent}
        return [LINEAR if i in stated else FULL for i in dims.all_layers]
    full = linear_config.integers("full_attn_layers", minimum=1, maximum=MAX_LAYERS)
    attended = range(5, dims.layers + 1, 4) if full is None else full
    stated = {index - 1 for index in attended}
    return [FULL if i in stated else LINEAR for i in dims.all_layers]


def _latent_attention(
    config: Config, dims: Dims, latent: Latent, at: str, layers: Sequence[int]
) -> list[Weight]:
    if not layers:
        return []
    weights = latent_attention(at, dims, latent, layers)
    if config.boolean("mla_use_output_gate", default=False):
        width = dims.heads * latent.v_head_dim
        gate: dict[str, Any] = {"part": Part.ATTENTION, "layers": layers, "split": Split.COLUMN}
        weights.append(linear(f"{at}.self_attn.g_proj", width, dims.hidden, **gate))
    return weights


def _experts(config: Config, dims: Dims, moe: Moe, at: str, layers: Sequence[int]) -> list[Weight]:
    """Experts; with `routed_expert_hidden_size` the routed ones work in a narrower space."""
    if not layers or not moe.num_experts:
        return []
    narrow = config.optional_integer("routed_expert_hidden_size")
    weights = [
        router(at, dims.hidden, moe.num_experts, layers, module=f"{MODULE}.gate"),
        *correction(at, moe, layers, name=f"{MODULE}.gate.e_score_correction_bias"),
        *routed_experts(
            at,
            narrow or dims.hidden,
            moe.width,
            layers,
            num_experts=moe.num_experts,
            top_k=moe.top_k,
            module=f"{MODULE}.experts.{{expert}}",
            names=("w1", "w3", "w2"),
        ),
    ]
    if moe.shared_width:
        weights += gated_mlp(
            at,
            dims.hidden,
            moe.shared_width,
            layers,
            module=f"{MODULE}.shared_experts",
            part=Part.SHARED_EXPERTS,
        )
    if narrow:
        inside = f"{at}.{MODULE}"
        mlp: dict[str, Any] = {"part": Part.MLP, "layers": layers}
        weights += [
            linear(f"{inside}.routed_expert_down_proj", narrow, dims.hidden, **mlp),
            linear(f"{inside}.routed_expert_up_proj", dims.hidden, narrow, **mlp),
        ]
        if config.boolean("latent_moe_use_norm", default=False):
            weights.append(vector(f"{inside}.routed_expert_norm", narrow, layers=layers))
    return weights


def _residuals(config: Config, dims: Dims, at: str) -> list[Weight]:
    """K3 mixes the outputs of blocks of `attn_res_block_size` layers: a norm and one row each."""
    if config.optional_integer("attn_res_block_size") is None:
        return []
    weights = []
    for name in ("self_attention_res", "mlp_res"):
        weights += norms(at, dims.hidden, dims.all_layers, f"{name}_norm", f"{name}_proj")
    last = config.prefix + "model.output_attn_res_"
    return [*weights, vector(last + "norm", dims.hidden), vector(last + "proj", dims.hidden)]
