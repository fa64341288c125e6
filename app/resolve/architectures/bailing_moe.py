"""Ling and Ring (Bailing) 1 and 2, LLaDA 2, Sarvam and Param 2 with grouped-query attention."""

from dataclasses import replace

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_moe import Moe, mtp_layers, read_moe, sparse_layers
from app.resolve.architectures.common_shape import Dims, read_dims
from app.resolve.architectures.fields import Config
from app.resolve.architectures.gqa_moe import moe_decoder
from app.resolve.architectures.llama_like import LLAMA

NAMES = replace(
    LLAMA,
    embed="model.word_embeddings",
    attention="attention",
    qkvo=("query_key_value", "query_key_value", "query_key_value", "dense"),
    qk_norms=("attention.query_layernorm", "attention.key_layernorm"),
)


@family(
    "bailing_moe",
    "bailing_moe_v2",
    architectures=("BailingMoeForCausalLM", "BailingMoeV2ForCausalLM"),
)
def bailing_moe(config: Config) -> ModelShape:
    """K and V of every token in every layer. The published files state every size."""
    dims = read_dims(config)
    corrected = config.boolean("moe_router_enable_expert_bias", default=False)
    return _decoder(
        config,
        dims,
        read_moe(config),
        first_dense=0,
        qk_norm=config.boolean("use_qk_norm", default=False),
        corrected=corrected,
    )


@family("sarvam_moe", architectures=("SarvamMoEForCausalLM",))
def sarvam_moe(config: Config) -> ModelShape:
    """As Ling 2. Defaults: SarvamMoEConfig."""
    dims = read_dims(
        config,
        layers=19,
        hidden=4096,
        heads=64,
        kv_heads=4,
        intermediate=8192,
        vocab=262144,
        max_positions=131072,
    )
    return _decoder(
        config,
        dims,
        read_moe(config, experts=128, top_k=6, width=1024, shared=1),
        first_dense=1,
        qk_norm=config.boolean("use_qk_norm", default=True),
        corrected=True,
    )


@family("llada2_moe", architectures=("LLaDA2MoeModelLM",))
def llada2_moe(config: Config) -> ModelShape:
    """As Ling 2, but drafting blocks by diffusion: a finished block's K and V are kept, those of
    the block in work are made anew in each step. The published files state every size.
    """
    shape = _decoder(
        config,
        read_dims(config),
        read_moe(config),
        first_dense=0,
        qk_norm=True,
        corrected=config.boolean("moe_router_enable_expert_bias", default=True),
    )
    return replace(shape, traits=shape.traits | {"block_diffusion"})


@family("param2moe", architectures=("Param2MoEForCausalLM",))
def param2moe(config: Config) -> ModelShape:
    """As Ling 2. The published files state every size."""
    dims = read_dims(config)
    return _decoder(
        config,
        dims,
        read_moe(config),
        first_dense=1,
        qk_norm=config.boolean("use_qk_norm", default=False),
        corrected=True,
    )


def _decoder(
    config: Config, dims: Dims, moe: Moe, *, first_dense: int, qk_norm: bool, corrected: bool
) -> ModelShape:
    bias = config.boolean("use_bias", default=False)
    qkv_bias = config.boolean("use_qkv_bias", "attention_bias", default=False)
    return moe_decoder(
        config,
        dims,
        moe,
        sparse_layers(config, dims.layers, first_dense=first_dense),
        names=NAMES,
        qkv_bias=bias or qkv_bias,
        out_bias=bias,
        mlp_bias=bias,
        qk_norm=(dims.head_dim, dims.head_dim) if qk_norm else None,
        correction_name="mlp.gate.expert_bias" if corrected else "",
        modules=mtp_layers(config, dims),
    )
