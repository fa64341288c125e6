"""GLM-4.5 to 4.7, Solar Open and Sarvam: grouped-query attention over a mixture of experts."""

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_moe import mtp_layers, read_moe, sparse_layers
from app.resolve.architectures.common_shape import read_dims
from app.resolve.architectures.fields import Config
from app.resolve.architectures.gqa_moe import floor_head_dim, moe_decoder
from app.resolve.architectures.mla import mla_decoder, read_latent


@family("glm4_moe", architectures=("Glm4MoeForCausalLM",))
def glm4_moe(config: Config) -> ModelShape:
    """K and V of every token in every layer. Defaults: Glm4MoeConfig."""
    dims = read_dims(
        config,
        layers=46,
        hidden=4096,
        heads=96,
        kv_heads=8,
        head_dim=floor_head_dim(config, hidden=4096, heads=96),
        intermediate=10944,
        vocab=151552,
        max_positions=131072,
    )
    bias = config.boolean("attention_bias", default=False)
    norm = (dims.head_dim, dims.head_dim)
    return moe_decoder(
        config,
        dims,
        read_moe(config, experts=128, top_k=8, width=1408, shared=1),
        sparse_layers(config, dims.layers, first_dense=1),
        qkv_bias=bias,
        qk_norm=norm if config.boolean("use_qk_norm", default=False) else None,
        modules=mtp_layers(config, dims, default=1),
    )


@family("glm4_moe_lite", architectures=("Glm4MoeLiteForCausalLM",))
def glm4_moe_lite(config: Config) -> ModelShape:
    """GLM-4.7-Flash: one latent a token in every layer. Defaults: Glm4MoeLiteConfig."""
    dims = read_dims(
        config,
        layers=47,
        hidden=2048,
        heads=20,
        head_dim=64,
        intermediate=10240,
        vocab=154880,
        max_positions=202752,
    )
    return mla_decoder(
        config,
        dims,
        read_latent(config, q=768, nope=192, v=256),
        read_moe(config, experts=64, top_k=4, width=1536, shared=1),
        sparse_layers(config, dims.layers, first_dense=1),
    )


@family("solar_open", architectures=("SolarOpenForCausalLM",))
def solar_open(config: Config) -> ModelShape:
    """Solar Open: a mixture in every layer. Defaults: SolarOpenConfig."""
    dims = read_dims(
        config,
        layers=48,
        hidden=4096,
        heads=64,
        kv_heads=8,
        head_dim=128,
        intermediate=10240,
        vocab=196608,
        max_positions=131072,
    )
    bias = config.boolean("attention_bias", default=False)
    return moe_decoder(
        config,
        dims,
        read_moe(config, experts=128, top_k=8, width=1280, shared=1),
        sparse_layers(config, dims.layers),
        qkv_bias=bias,
    )
