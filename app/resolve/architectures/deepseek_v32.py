"""DeepSeek-V3.2 and GLM-5 to 5.3: latent attention that reads what an indexer picks."""

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_moe import read_moe, sparse_layers
from app.resolve.architectures.common_shape import Dims, read_dims
from app.resolve.architectures.fields import Config
from app.resolve.architectures.mla import Indexer, Latent, mla_decoder, read_latent

KINDS = {"F": True, "S": False, "full": True, "shared": False}


@family("deepseek_v32", architectures=("DeepseekV32ForCausalLM",))
def deepseek_v32(config: Config) -> ModelShape:
    """A latent and an 8-bit index key a token in every layer. Defaults: DeepseekV32Config."""
    dims = read_dims(
        config,
        layers=61,
        hidden=7168,
        heads=128,
        head_dim=64,
        intermediate=18432,
        vocab=129280,
        max_positions=163840,
    )
    return _indexed(config, dims, read_latent(config), index_heads=64)


@family("glm_moe_dsa", architectures=("GlmMoeDsaForCausalLM",))
def glm_moe_dsa(config: Config) -> ModelShape:
    """As DeepSeek-V3.2; layers of kind "shared" (GLM-5.2) read the picks of the last layer with an
    indexer and keep no index keys. Defaults: GlmMoeDsaConfig.
    """
    dims = read_dims(
        config,
        layers=78,
        hidden=6144,
        heads=64,
        head_dim=64,
        intermediate=12288,
        vocab=154880,
        max_positions=202752,
    )
    latent = read_latent(config, q=2048, nope=192, v=256)
    return _indexed(config, dims, latent, index_heads=32)


def _indexed(config: Config, dims: Dims, latent: Latent, *, index_heads: int) -> ModelShape:
    return mla_decoder(
        config,
        dims,
        latent,
        read_moe(config, experts=256, top_k=8, width=2048, shared=1),
        sparse_layers(config, dims.layers, first_dense=3),
        indexer=Indexer(
            heads=config.integer("index_n_heads", default=index_heads),
            head_dim=config.integer("index_head_dim", default=128),
        ),
        indexed=own_indexers(config, dims.layers),
        mtp=1,
        traits=("sparse_attention",),
    )


def own_indexers(config: Config, layers: int) -> list[bool]:
    """Layers that run their own indexer: listed, as a pattern of F and S, or each n-th."""
    name = "indexer_types" if config.has("indexer_types") else "index_topk_pattern"
    kinds = config.get(name)
    if kinds is None:
        step = config.integer("index_topk_freq", default=1)
        offset = config.integer("index_skip_topk_offset", default=2, minimum=0)
        return [max(index - offset + 1, 0) % step == 0 for index in range(layers)]
    if not isinstance(kinds, str | list):
        raise config.fail(name, "must be a list or a string of F and S")
    flags = [KINDS.get(kind) if isinstance(kind, str) else None for kind in kinds[: layers + 1]]
    flags = config.per_layer(flags, name, layers)
    if None in flags:
        raise config.fail(name, 'may hold only "full" (F) and "shared" (S)')
    return [flag is True for flag in flags]
