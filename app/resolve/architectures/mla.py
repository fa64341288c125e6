"""The decoder that multi-head latent attention models share (DeepSeek-V2 and its descendants)."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from app.core.cache import CachePart, FullAttention, MlaLatent, SparseIndexer
from app.core.inventory import Part, Split, Weight
from app.core.model import LayerGroup, ModelShape
from app.resolve.architectures.blocks_moe import (
    Moe,
    chosen,
    drafts,
    mtp_layers,
    mtp_module,
    routed_mlp,
)
from app.resolve.architectures.common_shape import Dims, group_layers, model_shape, uniform_groups
from app.resolve.architectures.common_weights import (
    linear,
    mla_attention,
    norms,
    vector,
    vocabulary,
)
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import LLAMA, dense_mlp


@dataclass(frozen=True, kw_only=True, slots=True)
class Latent:
    """Sizes of multi-head latent attention."""

    q_lora_rank: int | None
    kv_lora_rank: int
    qk_nope_head_dim: int
    qk_rope_head_dim: int
    v_head_dim: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Indexer:
    """Sizes of a sparse-attention indexer (DeepSeek-V3.2)."""

    heads: int
    head_dim: int

    @property
    def part(self) -> SparseIndexer:
        """What it caches: one 8-bit key a token with its scale."""
        return SparseIndexer(index_head_dim=self.head_dim, quantised=True)


def read_latent(
    config: Config,
    *,
    q: int | None = 1536,
    kv: int = 512,
    nope: int = 128,
    rope: int = 64,
    v: int = 128,
) -> Latent:
    """The sizes; keyword arguments are the class defaults. A stated null rank of the queries means
    that they are not compressed.
    """
    stated = "q_lora_rank" in config.data
    return Latent(
        q_lora_rank=config.optional_integer("q_lora_rank") or (None if stated else q),
        kv_lora_rank=config.integer("kv_lora_rank", default=kv),
        qk_nope_head_dim=config.integer("qk_nope_head_dim", default=nope, minimum=0),
        qk_rope_head_dim=config.integer("qk_rope_head_dim", default=rope),
        v_head_dim=config.integer("v_head_dim", default=v),
    )


def latent_attention(
    at: str,
    dims: Dims,
    latent: Latent,
    layers: Sequence[int],
    *,
    bias: bool = False,
    module: str = "self_attn",
) -> list[Weight]:
    """The weights of latent attention."""
    return mla_attention(
        at,
        dims,
        layers,
        q_lora_rank=latent.q_lora_rank,
        kv_lora_rank=latent.kv_lora_rank,
        qk_nope_head_dim=latent.qk_nope_head_dim,
        qk_rope_head_dim=latent.qk_rope_head_dim,
        v_head_dim=latent.v_head_dim,
        bias=bias,
        module=module,
    )


def latent_part(latent: Latent) -> CachePart:
    """What latent attention caches."""
    return MlaLatent(
        kv_lora_rank=latent.kv_lora_rank,
        qk_rope_head_dim=latent.qk_rope_head_dim,
        qk_nope_head_dim=latent.qk_nope_head_dim,
    )


def indexer_weights(
    at: str, dims: Dims, latent: Latent, indexer: Indexer, layers: Sequence[int]
) -> list[Weight]:
    """The indexer's projections. The matrix of head weights stays unquantised."""
    if not layers:
        return []
    base = f"{at}.self_attn.indexer"
    queries = latent.q_lora_rank or dims.hidden
    width = indexer.heads * indexer.head_dim
    return [
        linear(f"{base}.wq_b", width, queries, part=Part.ATTENTION, layers=layers),
        linear(f"{base}.wk", indexer.head_dim, dims.hidden, part=Part.ATTENTION, layers=layers),
        vector(f"{base}.k_norm", indexer.head_dim, layers=layers, bias=True),
        Weight(
            name=f"{base}.weights_proj",
            shape=(indexer.heads, dims.hidden),
            part=Part.ATTENTION,
            layers=tuple(layers),
            split=Split.REPLICATED,
        ),
    ]


def latent_groups(
    dims: Dims, latent: Latent, indexer: Indexer | None, indexed: Sequence[bool]
) -> tuple[LayerGroup, ...]:
    """Latents in all layers, and index keys in those that have an indexer of their own."""
    main = latent_part(latent)
    if indexer is None or not any(indexed):
        return uniform_groups(dims, main)
    both = (main, indexer.part)
    return group_layers([both if flag else (main,) for flag in indexed], dims.heads)


def mla_decoder(
    config: Config,
    dims: Dims,
    latent: Latent,
    moe: Moe,
    sparse: Sequence[bool],
    *,
    corrected: bool = True,
    indexer: Indexer | None = None,
    indexed: Sequence[bool] = (),
    mtp: int = 0,
    each: Callable[[Sequence[int]], list[Weight]] = lambda _: [],
    extra: Iterable[Weight] = (),
    traits: Iterable[str] = (),
) -> ModelShape:
    """A decoder of latent attention and experts. `indexed` flags the layers with an indexer of
    their own, `mtp` is the class's count of prediction modules; `each` gives what else is in given
    layers, of modules too, `extra` what else there is outside them.
    """
    at = config.prefix + "model.layers.{layer}"
    layers = dims.all_layers
    bias = config.boolean("attention_bias", default=False)
    modules = mtp_layers(config, dims, default=mtp)
    routed = chosen(sparse, True) if moe.num_experts else ()
    dense = tuple(sorted(set(layers).difference(routed)))
    experts = routed_mlp(at, dims, moe, routed, corrected=corrected)
    block = [
        *latent_attention(at, dims, latent, layers, bias=bias),
        *norms(at, dims.hidden, layers, "input_layernorm", "post_attention_layernorm"),
        *each(layers),
    ]
    weights = [
        *vocabulary(dims, prefix=config.prefix),
        *block,
        *dense_mlp(at, dims, dense),
        *experts,
        vector(config.prefix + "model.norm", dims.hidden),
        *extra,
    ]
    block += experts
    parts: tuple[CachePart, ...] = (latent_part(latent),)
    if indexer is not None:
        own = indexer_weights(at, dims, latent, indexer, chosen(indexed, True))
        weights += own
        block += own
        parts = (*parts, indexer.part)
    return model_shape(
        config,
        dims,
        groups=latent_groups(dims, latent, indexer, indexed),
        weights=[*weights, *mtp_module(at, dims, modules, block)],
        traits=traits,
        draft_groups=drafts(modules, dims.heads, *parts),
    )


def expanded_decoder(
    config: Config, dims: Dims, latent: Latent, *, cached_v: int, mlp_bias: bool = False
) -> ModelShape:
    """A dense decoder of latent attention that keeps no latent: every head's keys and values are
    cached, the values `cached_v` wide.
    """
    at = LLAMA.at(config)
    layers = dims.all_layers
    cached = FullAttention(
        num_key_value_heads=dims.heads,
        head_dim=latent.qk_nope_head_dim + latent.qk_rope_head_dim,
        v_head_dim=cached_v,
    )
    bias = config.boolean("attention_bias", default=False)
    return model_shape(
        config,
        dims,
        groups=uniform_groups(dims, cached),
        weights=[
            *vocabulary(dims, prefix=config.prefix),
            *latent_attention(at, dims, latent, layers, bias=bias),
            *dense_mlp(at, dims, layers, bias=mlp_bias),
            *norms(at, dims.hidden, layers, *LLAMA.norms),
            vector(config.prefix + LLAMA.norm, dims.hidden),
        ],
    )
