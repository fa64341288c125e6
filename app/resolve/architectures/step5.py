"""Step-5: Step-3.5's decoder with an indexer in its full layers, behind a perception encoder."""

from app.core.cache import PooledIndexer
from app.core.inventory import Part, Weight
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_encoder import array
from app.resolve.architectures.blocks_mixed import Kind
from app.resolve.architectures.common_shape import read_dims
from app.resolve.architectures.common_weights import linear, vector
from app.resolve.architectures.fields import Config
from app.resolve.architectures.multimodal import multimodal, text_model
from app.resolve.architectures.step import AT, step_moe, step_sparse, windowed_step
from app.resolve.architectures.step3p7 import perception


@family("step5", architectures=("Step5ForCausalLM",))
def step5(config: Config) -> ModelShape:
    """Full layers also keep one 8-bit key for each region of eight tokens, from which they choose
    what to read. The published config states every size; the engine's class has none of its model.
    """
    for name in ("layer_types", "sparse_config"):
        if not config.has(name):
            raise config.fail(name, "is missing")
    dims = read_dims(
        config.overlay(num_key_value_heads=config.get("num_attention_groups")),
        max_positions=4096,
    )
    moe = step_moe(config)
    sparse = step_sparse(config, dims.layers, default=range(1, dims.layers))
    index = config.section("sparse_config")
    if not index.boolean("enabled", default=True):
        return windowed_step(config, dims, moe, sparse, embedded=False)
    size = index.integer("proxy_dim", default=256)
    heads = index.integer("sparse_indexer_num_heads", default=16)
    keys = index.integer("sparse_indexer_num_k_heads", default=1)
    # a token of the open region waits as key and gate in 16 bits
    pooled = PooledIndexer(
        pool=index.integer("region_block_size", default=8, maximum=4096),
        entry_bytes=keys * size,
        open_token_bytes=2 * 2 * keys * size,
    )

    def indexer(kind: Kind) -> list[Weight]:
        if not kind.beside:
            return []
        inside, layers, attn = f"{config.prefix}{AT}.self_attn", kind.layers, Part.ATTENTION
        rows = {"q": heads * size, "k": keys * size, "z": keys * size}
        return [
            *(
                linear(f"{inside}.sparse_indexer_{x}", n, dims.hidden, part=attn, layers=layers)
                for x, n in rows.items()
            ),
            array(f"{inside}.sparse_indexer_w", heads, dims.hidden, part=attn, layers=layers),
            vector(f"{inside}.sparse_indexer_q_norm", size, layers=layers),
            vector(f"{inside}.sparse_indexer_k_norm", size, layers=layers, bias=True),
            array(f"{inside}.ssmax_s", kind.dims.heads, part=attn, layers=layers),
        ]

    return windowed_step(config, dims, moe, sparse, beside=(pooled,), also=indexer, embedded=False)


@family("step5_vl", architectures=("Step5ForConditionalGeneration",))
def step5_vl(config: Config) -> ModelShape:
    """The text model's cache. Defaults of the encoder: the engine's PerceptionEncoderConfig."""
    text = text_model(config, prefix="", model_type="step5")
    return multimodal(config, text, perception(config, text.hidden_size))
