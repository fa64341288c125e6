"""A.X K1, Mistral 4 and Sarvam with latent attention: DeepSeek-V3 with other sizes."""

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_moe import chosen, read_moe, sparse_layers
from app.resolve.architectures.common_shape import read_dims
from app.resolve.architectures.common_weights import norms
from app.resolve.architectures.fields import Config
from app.resolve.architectures.mla import mla_decoder, read_latent


@family("axk1", architectures=("AXK1ForCausalLM",))
def axk1(config: Config) -> ModelShape:
    """One latent a token in every layer; a norm after each mixture. Defaults: AXK1Config."""
    dims = read_dims(
        config,
        layers=61,
        hidden=7168,
        heads=64,
        head_dim=64,
        intermediate=18432,
        vocab=163840,
        max_positions=32768,
    )
    sparse = sparse_layers(config, dims.layers, first_dense=1)
    at = config.prefix + "model.layers.{layer}.mlp"
    return mla_decoder(
        config,
        dims,
        read_latent(config),
        read_moe(config, experts=192, top_k=8, width=2048, shared=1),
        sparse,
        extra=norms(at, dims.hidden, chosen(sparse, True), "post_mlp_layernorm"),
    )


@family("mistral4", architectures=("Mistral4ForCausalLM",))
def mistral4(config: Config) -> ModelShape:
    """One latent a token in every layer, all of them routed. Defaults: Mistral4Config."""
    dims = read_dims(
        config,
        layers=36,
        hidden=4096,
        heads=32,
        head_dim=128,
        intermediate=12288,
        vocab=131072,
        max_positions=1048576,
    )
    return mla_decoder(
        config,
        dims,
        read_latent(config, q=1024, kv=256, nope=64),
        read_moe(config, experts=128, top_k=4, width=2048, shared=1),
        sparse_layers(config, dims.layers),
        corrected=False,
    )


@family("sarvam_mla", architectures=("SarvamMLAForCausalLM",))
def sarvam_mla(config: Config) -> ModelShape:
    """One latent a token in every layer; queries are not compressed. Defaults: SarvamMLAConfig."""
    dims = read_dims(
        config,
        layers=32,
        hidden=4096,
        heads=64,
        head_dim=64,
        intermediate=16384,
        vocab=262144,
        max_positions=4096,
    )
    return mla_decoder(
        config,
        dims,
        read_latent(config, q=None),
        read_moe(config, experts=128, top_k=8, width=2048, shared=1),
        sparse_layers(config, dims.layers, first_dense=1),
    )
