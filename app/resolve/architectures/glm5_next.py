"""GLM-5.3-Flash: Kimi delta attention with sparse latent attention in every fourth layer.

Its hyper-connections widen the residual stream, its indexer looks at keys pooled over
`index_kpool` tokens.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from app.core.cache import CacheLayout, CachePart, PooledIndexer
from app.core.inventory import Part, Split, Weight
from app.core.model import LayerGroup, ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_moe import (
    drafts,
    feed_forward,
    mtp_layers,
    mtp_module,
    read_moe,
    routed_mlp,
    sparse_layers,
)
from app.resolve.architectures.blocks_qwen_vision import patch_elements
from app.resolve.architectures.blocks_state import read_kimi_delta
from app.resolve.architectures.common_shape import Dims, model_shape, read_dims
from app.resolve.architectures.common_weights import gated_mlp, linear, norms, vector, vocabulary
from app.resolve.architectures.deepseek_v32 import own_indexers
from app.resolve.architectures.fields import MAX_LAYERS, Config
from app.resolve.architectures.hybrid import HYBRID, LINEAR, checked_kinds, pick
from app.resolve.architectures.mla import (
    Indexer,
    Latent,
    indexer_weights,
    latent_attention,
    latent_part,
)
from app.resolve.architectures.multimodal import multimodal

INDEXED = "indexed_attention"
NAMES = {"full_attention": INDEXED, "deepseek_sparse_attention": INDEXED}
NORMS = ("input_layernorm", "post_attention_layernorm")


@family("glm5_next", architectures=("Glm5NextForConditionalGeneration",))
def glm5_next(config: Config) -> ModelShape:
    """The text model with a vision tower. Defaults: Glm5NextConfig."""
    text = config.section("text_config") if config.has("text_config") else config
    tied = config.boolean("tie_word_embeddings", default=False)
    text = text.overlay(tie_word_embeddings=tied)
    shape = _model(text, "model.language_model.")
    vision = config.section("vision_config")
    return multimodal(config, shape, _vision(vision, config.prefix + "model.visual"))


@family("glm5_next_text", architectures=("Glm5NextForCausalLM",))
def glm5_next_text(config: Config) -> ModelShape:
    """Indexed layers keep a latent a token and, where they have their own indexer, a pooled key;
    the others an fp32 state. Defaults: Glm5NextTextConfig.
    """
    return _model(config, "model.")


def _model(config: Config, root: str) -> ModelShape:
    dims = read_dims(
        config.overlay(head_dim=None),
        layers=45,
        hidden=4096,
        heads=64,
        intermediate=12288,
        vocab=154880,
        max_positions=1048576,
    )
    kinds = config.texts("layer_types")
    if kinds is None:
        kinds = [INDEXED if i % 4 == 3 else LINEAR for i in dims.all_layers]
    kinds = [NAMES.get(kind, kind) for kind in kinds]
    kinds = checked_kinds(config, "layer_types", kinds, dims.layers, INDEXED, LINEAR)
    own = own_indexers(config, dims.layers)
    mixer = read_kimi_delta(config, dims.hidden, heads=64)
    latent = Latent(
        q_lora_rank=config.integer("q_lora_rank", default=1536),
        kv_lora_rank=config.integer("kv_lora_rank", default=512),
        qk_nope_head_dim=config.integer("qk_nope_head_dim", default=256),
        qk_rope_head_dim=config.integer("qk_rope_head_dim", default=0, minimum=0),
        v_head_dim=config.integer("v_head_dim", default=256),
    )
    indexer = Indexer(
        heads=config.integer("index_n_heads", default=32),
        head_dim=config.integer("index_head_dim", default=128),
    )
    pool = config.integer("index_kpool", default=16, maximum=4096)
    moe = read_moe(config, experts=288, top_k=8, width=2048, shared=1)
    at = config.prefix + root + "layers.{layer}"
    indexed = pick(kinds, INDEXED)
    owners = tuple(i for i in indexed if own[i])
    modules = mtp_layers(config, dims)

    def attention(layers: Sequence[int], indexers: Sequence[int]) -> list[Weight]:
        return [
            *latent_attention(at, dims, latent, layers),
            *indexer_weights(at, dims, latent, indexer, indexers),
            *_pooling(at, dims, indexer, pool, indexers),
        ]

    # an 8-bit key with a scale per 128; key and gate of an open token in 16 bits
    pooled = PooledIndexer(
        pool=pool,
        entry_bytes=indexer.part.bytes_per_token(CacheLayout()),
        open_token_bytes=4 * indexer.head_dim,
    )
    main = latent_part(latent)
    block = [
        *(attention(modules, modules) if modules else ()),
        *routed_mlp(at, dims, moe, modules),
        *norms(at, dims.hidden, modules, *NORMS),
    ]
    by_parts: dict[tuple[CachePart, ...], tuple[int, ...]] = {
        (mixer.part(),): pick(kinds, LINEAR),
        (main, pooled): owners,
        (main,): tuple(i for i in indexed if not own[i]),
    }
    return model_shape(
        config,
        dims,
        groups=tuple(
            LayerGroup(layers=layers, parts=parts, num_attention_heads=dims.heads)
            for parts, layers in by_parts.items()
            if layers
        ),
        draft_groups=drafts(modules, dims.heads, main, pooled),
        weights=[
            *vocabulary(dims, prefix=config.prefix, embed=f"{root}embed_tokens"),
            *mixer.weights(f"{at}.self_attn", pick(kinds, LINEAR)),
            *(attention(indexed, owners) if indexed else ()),
            *feed_forward(at, dims, moe, sparse_layers(config, dims.layers, first_dense=3)),
            *norms(at, dims.hidden, dims.all_layers, *NORMS),
            *_streams(config, dims, at),
            vector(f"{config.prefix}{root}norm", dims.hidden),
            *mtp_module(at, dims, modules, block),
        ],
        traits=(HYBRID, "sparse_attention"),
    )


def _pooling(
    at: str, dims: Dims, indexer: Indexer, pool: int, layers: Sequence[int]
) -> list[Weight]:
    if not layers:
        return []
    base = f"{at}.self_attn.indexer.index_kpool_compress"
    size = indexer.head_dim
    common: dict[str, Any] = {"part": Part.ATTENTION, "layers": tuple(layers)}
    return [
        Weight(name=f"{base}_ape", shape=(pool, size), **common),
        Weight(name=f"{base}_gate", shape=(size, dims.hidden), **common),
    ]


def _streams(config: Config, dims: Dims, at: str) -> list[Weight]:
    """Hyper-connections: how `hc_mult` residual streams mix before and after each half."""
    streams = config.integer("hc_mult", default=4, maximum=64)
    rows = streams * (streams + 2)
    common: dict[str, Any] = {"part": Part.OTHER, "layers": dims.all_layers}
    weights = []
    for half in ("attn_hc", "ffn_hc"):
        weights += [
            Weight(name=f"{at}.{half}.fn", shape=(rows, streams * dims.hidden), **common),
            Weight(name=f"{at}.{half}.base", shape=(rows,), **common),
            Weight(name=f"{at}.{half}.scale", shape=(3,), **common),
        ]
    return weights


def _vision(config: Config, at: str) -> list[Weight]:
    depth = config.integer("depth", "num_hidden_layers", default=24, maximum=MAX_LAYERS)
    hidden = config.integer("hidden_size", default=1024)
    width = config.integer("intermediate_size", default=4096)
    heads = config.integer("num_heads", "num_attention_heads", default=16, maximum=hidden)
    out = config.integer("out_hidden_size", default=1536)
    inner = config.integer("projection_intermediate_size", default=10240)
    merge = config.integer("spatial_merge_size", default=2, maximum=64)
    bias = config.boolean("attention_bias", default=True)
    patches = patch_elements(config.overlay(patch_size=config.get("patch_size") or 14))
    layers = tuple(range(depth))
    block = f"{at}.blocks.{{layer}}"
    vision: dict[str, Any] = {"part": Part.VISION, "layers": layers}
    projector = [
        linear(f"{at}.merger.proj", out, out, part=Part.PROJECTOR),
        vector(f"{at}.merger.post_projection_norm", out, part=Part.PROJECTOR, bias=True),
        *gated_mlp(at, out, inner, None, module="merger", part=Part.PROJECTOR),
    ]
    downsample = Weight(
        name=f"{at}.downsample", shape=(out, hidden, merge, merge), part=Part.VISION, bias=out
    )
    return [
        Weight(
            name=f"{at}.patch_embed.proj",
            shape=(hidden, patches),
            part=Part.VISION,
            bias=hidden,
        ),
        linear(f"{block}.attn.qkv", 3 * hidden, hidden, bias=bias, split=Split.COLUMN, **vision),
        linear(f"{block}.attn.proj", hidden, hidden, bias=bias, split=Split.ROW, **vision),
        *(vector(f"{block}.attn.{name}_norm", max(1, hidden // heads), **vision) for name in "qk"),
        *gated_mlp(block, hidden, width, layers, bias=bias, part=Part.VISION),
        *(vector(f"{block}.{name}", hidden, **vision) for name in ("norm1", "norm2")),
        vector(f"{at}.post_layernorm", hidden, part=Part.VISION),
        downsample,
        *(replace(weight, split=Split.REPLICATED) for weight in projector),
    ]
