"""Qwen4-Exp: Qwen3.5's mixture with sparse full layers, hyper-connections and hashed n-grams."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app.core.cache import CachePart, PooledIndexer
from app.core.inventory import Part, Split, Weight
from app.core.model import LayerGroup, ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_moe import MAX_MTP, drafts
from app.resolve.architectures.blocks_qwen_vision import qwen3_vision
from app.resolve.architectures.blocks_state import ShortConv, read_delta_net, small, state_dtype
from app.resolve.architectures.common_shape import Dims, attention_part, model_shape, read_dims
from app.resolve.architectures.common_weights import linear, vector, vocabulary
from app.resolve.architectures.fields import MAX_LAYERS, MAX_WIDTH, Config
from app.resolve.architectures.hybrid import HYBRID, LINEAR, checked_kinds, pick, with_kv_heads
from app.resolve.architectures.multimodal import multimodal
from app.resolve.architectures.qwen3_next import gated_attention, qwen_mixture
from app.resolve.primes import primes_from

INDEXED = "indexed_attention"
NAMES = {"full_attention": INDEXED, "qwen_sparse_attention": INDEXED}
MAX_HASHES = 1024
POSITION_BYTES = 3 * 8
"""Three axes of positions in 64 bits, kept with the open keys of models that see pictures."""


@family("qwen4_exp", architectures=("Qwen4ExpForConditionalGeneration",))
def qwen4_exp(config: Config) -> ModelShape:
    """The text model with Qwen3.5's vision tower. Defaults: Qwen4ExpConfig."""
    text = config.section("text_config")
    tied = config.boolean("tie_word_embeddings", default=False)
    text = text.overlay(tie_word_embeddings=tied)
    shape = _model(text, "model.language_model.", position_bytes=POSITION_BYTES)
    vision = config.section("vision_config")
    return multimodal(config, shape, qwen3_vision(vision, config.prefix + "model.visual."))


@family("qwen4_exp_text", architectures=("Qwen4ExpForCausalLM",))
def qwen4_exp_text(config: Config) -> ModelShape:
    """Every fourth layer caches K and V and pooled index keys in 16 bits, the others a state; the
    layers that mix n-grams in keep a convolution's tail, whole on every rank. Defaults:
    Qwen4ExpTextConfig.
    """
    return _model(config, "model.", position_bytes=0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Ngrams:
    """Hashed n-gram features: how many tables of which width, and the streams they feed."""

    layers: tuple[int, ...]
    embed: int
    hashes: int
    base: int
    divisor: int
    conv: ShortConv


def _model(config: Config, root: str, *, position_bytes: int) -> ModelShape:
    dims = read_dims(
        with_kv_heads(config.overlay(intermediate_size=1), 2),
        layers=40,
        hidden=2048,
        heads=16,
        head_dim=256,
        vocab=248320,
        max_positions=32768,
    )
    kinds = config.texts("layer_types")
    if kinds is None:
        every = config.integer("full_attention_interval", default=4)
        kinds = [LINEAR if (i + 1) % every else INDEXED for i in dims.all_layers]
    kinds = [NAMES.get(kind, kind) for kind in kinds]
    kinds = checked_kinds(config, "layer_types", kinds, dims.layers, INDEXED, LINEAR)
    net = read_delta_net(config, dims.hidden)
    streams = config.integer("hc_count", default=4, maximum=64)
    ngrams = _ngrams(config, dims, streams)
    attends = _attended(config, dims, position_bytes)
    state = net.part(state_dtype(config, "mamba_ssm_dtype"))
    by_parts: dict[tuple[CachePart, ...], list[int]] = {}
    for index, kind in enumerate(kinds):
        own = attends if kind == INDEXED else (state,)
        mixes = index in ngrams.layers
        by_parts.setdefault((*own, ngrams.conv.part()) if mixes else own, []).append(index)
    at = f"{config.prefix}{root}layers.{{layer}}"
    indexed = pick(kinds, INDEXED)
    modules = config.integer("mtp_num_hidden_layers", default=0, minimum=0, maximum=MAX_MTP)
    rank = config.integer("hc_lowrank", default=320)
    return model_shape(
        config,
        dims,
        groups=tuple(
            LayerGroup(layers=tuple(layers), parts=parts, num_attention_heads=dims.heads)
            for parts, layers in by_parts.items()
        ),
        draft_groups=drafts(range(dims.layers, dims.layers + modules), dims.heads, *attends),
        weights=[
            *vocabulary(dims, prefix=config.prefix, embed=f"{root}embed_tokens"),
            *net.weights(
                f"{at}.linear_attn",
                pick(kinds, LINEAR),
                (
                    ("in_proj_qkv", 2 * net.keys + net.values),
                    ("in_proj_z", net.values),
                    ("in_proj_b", net.value_heads),
                    ("in_proj_a", net.value_heads),
                ),
            ),
            *gated_attention(config, dims, at, indexed),
            *_indexer(config, dims, at, indexed),
            *qwen_mixture(config, dims, at, dims.all_layers),
            *_streams(f"{at}.attn_hyper_connection", dims, streams, rank, dims.all_layers),
            *_streams(f"{at}.mlp_hyper_connection", dims, streams, rank, dims.all_layers),
            *_streams(f"{config.prefix}{root}hyper_connection_mixer", dims, streams, rank, None),
            *_ngram_weights(config, dims, at, ngrams),
        ],
        traits=(HYBRID, "sparse_attention"),
        assumptions=("weights of the prediction modules are not known",) if modules else (),
    )


def _attended(config: Config, dims: Dims, position_bytes: int) -> tuple[CachePart, ...]:
    if not config.has("indexer_n_heads"):
        return (attention_part(dims),)
    key = 2 * config.integer("indexer_head_dim")
    pooled = PooledIndexer(
        pool=config.integer("indexer_compress_ratio", maximum=4096),
        entry_bytes=key,
        open_token_bytes=key + position_bytes,
    )
    return (attention_part(dims), pooled)


def _indexer(config: Config, dims: Dims, at: str, layers: Sequence[int]) -> list[Weight]:
    if not layers or not config.has("indexer_n_heads"):
        return []
    size = config.integer("indexer_head_dim")
    heads = config.integer("indexer_n_heads") + config.integer("indexer_kv_heads", default=1)
    base = f"{at}.self_attn.indexer"
    return [
        linear(
            f"{base}.index_qk_proj", heads * size, dims.hidden, part=Part.ATTENTION, layers=layers
        ),
        vector(f"{base}.q_layernorm", size, layers=layers),
        vector(f"{base}.k_layernorm", size, layers=layers),
    ]


def _streams(
    at: str, dims: Dims, streams: int, rank: int, layers: Sequence[int] | None
) -> list[Weight]:
    """How the residual streams mix into one (and, inside layers, take the result back)."""
    width = streams * dims.hidden
    common: dict[str, Any] = {"part": Part.OTHER, "layers": layers}
    weights = [
        vector(f"{at}.hc_norm", width, layers=layers),
        linear(f"{at}.input_mix_weight_down", rank, width, **common),
        linear(f"{at}.input_mix_weight_up", width, rank, **common),
    ]
    if layers is not None:
        weights.append(linear(f"{at}.block_inject_weight", streams, width, **common))
    return weights


def _ngrams(config: Config, dims: Dims, streams: int) -> Ngrams:
    named = config.integers("ple_layer_ids", minimum=1, maximum=MAX_LAYERS) or ()
    size = config.integer("ngram_size", default=3, minimum=2, maximum=64)
    hashes = (size - 1) * config.integer("heads_per_ngram", default=8, maximum=MAX_HASHES)
    embed = config.integer("ple_embed_dim", default=dims.hidden)
    layers = tuple(sorted({index - 1 for index in named if index <= dims.layers}))
    if embed % hashes or len(layers) * hashes > MAX_HASHES:
        raise config.fail("heads_per_ngram", f"makes {hashes} hashes of a vector of {embed}")
    kernel = config.integer("ple_conv_kernel_size", default=4, maximum=1024)
    width = streams * dims.hidden
    if width > MAX_WIDTH:
        raise config.fail("hc_count", "makes streams of an impossible width")
    return Ngrams(
        layers=layers,
        embed=embed,
        hashes=hashes,
        base=config.integer("ngram_vocab_size_base", default=20_000_000, maximum=2**31),
        divisor=config.integer("make_ngram_vocab_size_divisible_by", default=128),
        conv=ShortConv(hidden=width, channels=width, kernel=(kernel - 1) * size + 1),
    )


def _ngram_weights(config: Config, dims: Dims, at: str, ngrams: Ngrams) -> list[Weight]:
    """Each hash has a table of its own prime size, and all tables of a layer are one matrix."""
    if not ngrams.layers:
        return []
    layers, width = ngrams.layers, ngrams.conv.channels
    kernel = config.integer("ple_conv_kernel_size", default=4, maximum=1024)
    common: dict[str, Any] = {"part": Part.OTHER, "layers": layers}
    base = f"{at}.ple"
    primes = primes_from(ngrams.base, len(layers) * ngrams.hashes)
    tables = []
    for number, layer in enumerate(layers):
        rows = sum(primes[number * ngrams.hashes : (number + 1) * ngrams.hashes])
        padded = -(-rows // ngrams.divisor) * ngrams.divisor
        tables.append(
            Weight(
                name=f"{base}.ple_embedding.ngram_embedding",
                shape=(padded, ngrams.embed // ngrams.hashes),
                part=Part.EMBEDDING,
                layers=(layer,),
                split=Split.VOCAB,
            )
        )
    return [
        *tables,
        linear(f"{base}.key_proj", width, ngrams.embed, **common),
        linear(f"{base}.value_proj", dims.hidden, ngrams.embed, **common),
        *(vector(f"{base}.norm_{name}", width, layers=layers) for name in ("key", "query", "conv")),
        small(f"{base}.conv1d", width, 1, kernel, layers=layers),
    ]
