"""MiniMax-M3: block-sparse attention over an index key a token, experts, and a vision tower."""

from collections.abc import Sequence

from app.core.cache import CachePart, SparseIndexer
from app.core.inventory import Part, Weight
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_encoder import (
    dense_chain,
    encoder_layers,
    layer_norm,
    patch_conv,
    read_tower,
)
from app.resolve.architectures.blocks_moe import (
    EXPERTS,
    TOP_K,
    Moe,
    as_mtp,
    chosen,
    correction,
    drafts,
    mtp_layers,
    shared_width,
    sparse_layers,
)
from app.resolve.architectures.common_shape import (
    Dims,
    attention_part,
    group_layers,
    model_shape,
    read_dims,
)
from app.resolve.architectures.common_weights import (
    attention,
    gated_mlp,
    linear,
    norms,
    vector,
    vocabulary,
)
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import dense_mlp, mixture
from app.resolve.architectures.multimodal import multimodal, text_model

SPARSE = "minimax_m3_sparse"
FIRST_SPARSE = 3


@family("minimax_m3_vl_text", architectures=("MiniMaxM3SparseForCausalLM",))
def minimax_m3_text(config: Config) -> ModelShape:
    """K and V of every token in every layer; the sparse ones add an index key in the model's own
    precision, whatever that of the cache. Defaults: MiniMaxM3VLTextConfig.
    """
    dims = read_dims(
        config.overlay(intermediate_size=config.get("dense_intermediate_size")),
        layers=60,
        hidden=6144,
        heads=64,
        kv_heads=4,
        head_dim=128,
        intermediate=12288,
        vocab=200064,
        max_positions=524288,
    )
    sizes = config.section("sparse_attention_config")
    heads = sizes.integer(
        "sparse_num_index_heads", default=config.integer("index_n_heads", default=4)
    )
    index_dim = sizes.integer(
        "sparse_index_dim", default=config.integer("index_head_dim", default=128)
    )
    width = config.integer("intermediate_size", default=3072)
    moe = Moe(
        num_experts=config.integer(*EXPERTS, default=128),
        top_k=config.integer(*TOP_K, default=4),
        width=width,
        shared_width=shared_width(config.overlay(**_shared(config)), width, shared=1),
    )
    routed = chosen(sparse_layers(config, dims.layers), True)
    dense = tuple(sorted(set(dims.all_layers).difference(routed)))
    cached, indexed = _indexed(config, sizes, dims.layers)
    at = config.prefix + "model.layers.{layer}"
    main: tuple[CachePart, ...] = (attention_part(dims),)
    both = (*main, SparseIndexer(index_head_dim=index_dim, quantised=False))
    modules = mtp_layers(config, dims)
    places = tuple(range(len(modules)))
    ahead = config.prefix + "model.mtp.layers.{layer}"
    shared = [
        *_attention(at, dims, dims.all_layers),
        *_indexer(at, dims, heads, index_dim, chosen(indexed, True)),
        *_mixture(at, dims, moe, routed),
    ]
    own = [
        *norms(ahead, dims.hidden, places, "enorm", "hnorm", "final_layernorm"),
        linear(f"{ahead}.eh_proj", dims.hidden, 2 * dims.hidden, part=Part.MTP, layers=places),
    ]
    drafting = [
        *as_mtp(own, places),
        *as_mtp(shared, places, at=at, to=f"{ahead}.transformer_layer"),
    ]
    return model_shape(
        config,
        dims,
        groups=group_layers([both if flag else main for flag in cached], dims.heads),
        weights=[
            *vocabulary(dims, prefix=config.prefix),
            *shared,
            *dense_mlp(at, dims, dense),
            vector(config.prefix + "model.norm", dims.hidden),
            *(drafting if modules else ()),
        ],
        draft_groups=drafts(modules, dims.heads, *both),
        traits=("sparse_attention",),
    )


@family("minimax_m3_vl", architectures=("MiniMaxM3SparseForConditionalGeneration",))
def minimax_m3_vl(config: Config) -> ModelShape:
    """The text model's cache. Defaults: MiniMaxM3VLConfig."""
    text = text_model(config, prefix="language_model.", model_type="minimax_m3_vl_text", force=True)
    return multimodal(config, text, _vision(config, text.hidden_size))


def _shared(config: Config) -> dict[str, int]:
    """The width of one shared expert, by the name that `shared_width` reads."""
    return {"shared_intermediate_size": config.integer("shared_intermediate_size", default=3072)}


def _indexed(config: Config, sizes: Config, layers: int) -> tuple[list[bool], list[bool]]:
    """Layers that cache index keys, and layers that have an indexer's weights.

    Engines read only the sparse attention's own list, and take all but the first three layers
    where there is none; the model's code takes `layer_types` first, and no layer by default.
    """
    listed = sizes.integers("sparse_attention_freq", maximum=1)
    if listed is not None:
        listed = sizes.per_layer(listed, "sparse_attention_freq", layers)
    cached = [
        index >= FIRST_SPARSE if listed is None else listed[index] == 1 for index in range(layers)
    ]
    types = config.texts("layer_types")
    if types is not None:
        types = config.per_layer(types, "layer_types", layers)
        return cached, [kind == SPARSE for kind in types]
    return cached, cached if listed is not None else [False] * layers


def _attention(at: str, dims: Dims, layers: Sequence[int]) -> list[Weight]:
    return [
        *attention(at, dims, layers),
        *norms(f"{at}.self_attn", dims.head_dim, layers, "q_norm", "k_norm"),
        *norms(at, dims.hidden, layers, "input_layernorm", "post_attention_layernorm"),
    ]


def _indexer(at: str, dims: Dims, heads: int, head_dim: int, layers: Sequence[int]) -> list[Weight]:
    if not layers:
        return []
    base = f"{at}.self_attn"
    attn = Part.ATTENTION
    return [
        linear(f"{base}.index_q_proj", heads * head_dim, dims.hidden, part=attn, layers=layers),
        linear(f"{base}.index_k_proj", head_dim, dims.hidden, part=attn, layers=layers),
        *norms(base, head_dim, layers, "index_q_norm", "index_k_norm"),
    ]


def _mixture(at: str, dims: Dims, moe: Moe, layers: Sequence[int]) -> list[Weight]:
    module = "block_sparse_moe"
    return [
        *mixture(
            at,
            dims.hidden,
            moe.width,
            layers,
            num_experts=moe.num_experts,
            top_k=moe.top_k,
            module=module,
            names=("w1", "w3", "w2"),
        ),
        *(
            gated_mlp(
                f"{at}.{module}",
                dims.hidden,
                moe.shared_width,
                layers,
                module="shared_experts",
                part=Part.SHARED_EXPERTS,
            )
            if moe.shared_width
            else ()
        ),
        *correction(at, moe, layers, name=f"{module}.e_score_correction_bias"),
    ]


def _vision(config: Config, text_width: int) -> list[Weight]:
    """A ViT over pairs of frames, a projector, and an MLP that merges neighbouring patches."""
    section = config.section("vision_config")
    tower = read_tower(
        section, layers=32, hidden=1280, heads=16, intermediate=5120, image=2016, patch=14
    )
    compression = section.section("img_token_compression_config")
    merge = compression.integer(
        "spatial_merge_size", default=section.integer("spatial_merge_size", default=2), maximum=64
    )
    frames = compression.integer(
        "temporal_patch_size", default=section.integer("temporal_patch_size", default=2), maximum=64
    )
    width = config.integer("projector_hidden_size", default=6144)
    at = "vision_tower.vision_model"
    return [
        patch_conv(f"{at}.embeddings.patch_embedding", tower, frames=frames, bias=False),
        layer_norm(f"{at}.pre_layrnorm", tower.hidden, part=Part.VISION),
        *encoder_layers(
            f"{at}.encoder.layers.{{layer}}", tower.hidden, tower.intermediate, tower.all_layers
        ),
        *dense_chain(
            "multi_modal_projector",
            ("linear_1", width, tower.hidden),
            ("linear_2", text_width, width),
        ),
        *dense_chain(
            "patch_merge_mlp",
            ("linear_1", width, text_width * merge**2),
            ("linear_2", text_width, width),
        ),
    ]
