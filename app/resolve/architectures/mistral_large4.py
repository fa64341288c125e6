"""Mistral Large 4: latents, some without a rotary part or shared between layers, and index keys."""

from collections.abc import Sequence

from app.core.cache import CachePart, SparseIndexer
from app.core.inventory import Part, Split, Weight
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_moe import chosen, feed_forward, read_moe, sparse_layers
from app.resolve.architectures.blocks_vision import tower_of
from app.resolve.architectures.common_shape import Dims, group_layers, model_shape, read_dims
from app.resolve.architectures.common_weights import linear, norms, vector, vocabulary
from app.resolve.architectures.deepseek_v32 import own_indexers
from app.resolve.architectures.fields import Config
from app.resolve.architectures.mistral3 import patch_merger
from app.resolve.architectures.mla import Indexer, Latent, indexer_weights, latent_part, read_latent
from app.resolve.architectures.multimodal import inner, multimodal, text_model

TOWER = {
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "num_hidden_layers": 30,
    "num_attention_heads": 16,
    "patch_size": 14,
    "image_size": 1540,
}


@family("mistral_large4_text")
def mistral_large4_text(config: Config) -> ModelShape:
    """A latent a token in each layer that owns its cache (`kv_source_layers`), without its rotary
    part in each fourth (`no_rope_layers` holds 0), and an index key, in the model's precision, in
    each with an indexer of its own. Defaults: MistralLarge4TextConfig.
    """
    dims = read_dims(
        config,
        layers=72,
        hidden=6144,
        heads=64,
        head_dim=64,
        intermediate=24576,
        vocab=204800,
        max_positions=1048576,
    )
    latent = read_latent(config, q=None, nope=64)
    indexer = Indexer(
        heads=config.integer("index_n_heads", default=32),
        head_dim=config.integer("index_head_dim", default=128),
    )
    rotary = _rotary(config, dims.layers)
    own = _owners(config, dims.layers)
    indexed = own_indexers(config, dims.layers)
    keys: CachePart = SparseIndexer(index_head_dim=indexer.head_dim, quantised=False)
    parts = {flag: latent_part(_shape(latent, rotary=flag)) for flag in (True, False)}
    per_layer = [
        (*((parts[turns],) if owns else ()), *((keys,) if has else ()))
        for turns, owns, has in zip(rotary, own, indexed, strict=True)
    ]
    at = config.prefix + "model.layers.{layer}"
    layers = dims.all_layers
    moe = read_moe(config, experts=128, top_k=4, width=6144, shared=1)
    sparse = sparse_layers(config, dims.layers, first_dense=1)
    return model_shape(
        config,
        dims,
        groups=group_layers(per_layer, dims.heads),
        weights=[
            *vocabulary(dims, prefix=config.prefix),
            *_attention(config, at, dims, latent, rotary=rotary, own=own),
            *_indexers(at, dims, latent, indexer, chosen(indexed, True)),
            *feed_forward(at, dims, moe, sparse, corrected=False),
            *norms(at, dims.hidden, layers, "input_layernorm", "post_attention_layernorm"),
            vector(config.prefix + "model.norm", dims.hidden),
            vector(
                config.prefix + "model.rotary_emb.alpha",
                latent.qk_rope_head_dim // 2,
                part=Part.OTHER,
            ),
        ],
        traits=("sparse_attention",),
    )


@family("mistral_large4", architectures=("MistralLarge4ForConditionalGeneration",))
def mistral_large4(config: Config) -> ModelShape:
    """The text model's cache. Defaults: MistralLarge4Config."""
    text = text_model(config, prefix="language_model.", model_type="mistral_large4_text")
    vision = inner(config, "vision_config", model_type="pixtral", absent=TOWER)
    return multimodal(
        config, text, [*tower_of(vision, "vision_tower"), *patch_merger(config, vision, text)]
    )


def _rotary(config: Config, layers: int) -> list[bool]:
    flags = config.integers("no_rope_layers", maximum=1)
    if flags is not None:
        return [flag == 1 for flag in config.per_layer(flags, "no_rope_layers", layers)]
    period = config.integer("no_rope_layer_interval", default=4)
    return [(index + 1) % period != 0 for index in range(layers)]


def _owners(config: Config, layers: int) -> list[bool]:
    sources = config.integers("kv_source_layers")
    if sources is None:
        return [True] * layers
    sources = config.per_layer(sources, "kv_source_layers", layers)
    return [source == index for index, source in enumerate(sources)]


def _shape(latent: Latent, *, rotary: bool) -> Latent:
    """The latent of a layer: without a rotary part, keys come from the latent alone."""
    if rotary:
        return latent
    return Latent(
        q_lora_rank=None,
        kv_lora_rank=latent.kv_lora_rank,
        qk_nope_head_dim=latent.qk_nope_head_dim + latent.qk_rope_head_dim,
        qk_rope_head_dim=0,
        v_head_dim=latent.v_head_dim,
    )


def _attention(
    config: Config,
    at: str,
    dims: Dims,
    latent: Latent,
    *,
    rotary: Sequence[bool],
    own: Sequence[bool],
) -> list[Weight]:
    """Layers that read another's latents still expand them with a matrix of their own."""
    base = f"{at}.self_attn"
    bias = config.boolean("attention_bias", default=False)
    attn = Part.ATTENTION
    layers = dims.all_layers
    head = latent.qk_nope_head_dim + latent.qk_rope_head_dim
    out = dims.heads * latent.v_head_dim
    weights = [
        linear(
            f"{base}.q_proj",
            dims.heads * head,
            dims.hidden,
            part=attn,
            layers=layers,
            split=Split.COLUMN,
        ),
        linear(
            f"{base}.o_proj",
            dims.hidden,
            out,
            part=attn,
            layers=layers,
            bias=bias,
            split=Split.ROW,
        ),
        *_scaling(base, dims.heads, layers),
        *norms(base, latent.kv_lora_rank, chosen(own, True), "kv_a_layernorm"),
    ]
    for turns in (True, False):
        kind = _shape(latent, rotary=turns)
        these = chosen(rotary, turns)
        owners = tuple(index for index in these if own[index])
        width = dims.heads * (kind.qk_nope_head_dim + kind.v_head_dim)
        rank = kind.kv_lora_rank
        weights += [
            linear(
                f"{base}.kv_a_proj_with_mqa",
                rank + kind.qk_rope_head_dim,
                dims.hidden,
                part=attn,
                layers=owners,
                bias=bias,
            ),
            linear(f"{base}.kv_b_proj", width, rank, part=attn, layers=these, split=Split.COLUMN),
        ]
    return weights


def _indexers(
    at: str, dims: Dims, latent: Latent, indexer: Indexer, layers: Sequence[int]
) -> list[Weight]:
    base = f"{at}.self_attn.indexer"
    return [
        *indexer_weights(at, dims, latent, indexer, layers),
        vector(f"{base}.q_input_norm", dims.hidden, layers=layers, bias=True),
        *_scaling(base, indexer.heads, layers),
    ]


def _scaling(base: str, heads: int, layers: Sequence[int]) -> list[Weight]:
    """A learned temperature a head."""
    name = f"{base}.softmax_scaling"
    return [vector(name, heads, part=Part.ATTENTION, layers=layers, bias=True)]
