"""DeepSeek-V4.1: a short window in every layer, compressed caches that many layers read, tables of
n-grams, and images.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from app.core.cache import CachePart, CompressedLatent, WindowedLatent
from app.core.inventory import Part, Split, Weight
from app.core.model import ModelShape
from app.core.precision import MXFP8
from app.resolve.architectures import family
from app.resolve.architectures.blocks_encoder import array, encoder_layers, layer_norm, read_tower
from app.resolve.architectures.blocks_moe import as_mtp, correction, drafts, mtp_layers, read_moe
from app.resolve.architectures.common_shape import Dims, group_layers, model_shape, read_dims
from app.resolve.architectures.common_weights import linear, norms, vector, vocabulary
from app.resolve.architectures.deepseek_v4 import read_sizes
from app.resolve.architectures.deepseek_v4_weights import Sizes, v4_layer
from app.resolve.architectures.fields import MAX_COUNT, Config
from app.resolve.architectures.multimodal import multimodal

ENTRY, KEY, LOCAL = 288, 68, 528
"""Bytes of an entry (512 numbers of 4 bits, 32 scales), of an index key (128 and 4), and of a token
in the window (512 numbers of 8 bits, 16 scales).
"""
FORMAT = (
    "entries and index keys are counted in the model's own 4-bit format; engines that keep 8 bits "
    "take up to twice as much"
)
SIZES = ("hidden_size", "num_hidden_layers", "head_dim", "compress_ratios", "kv_source_layer_ids")


@family("deepseek_v41", architectures=("DeepseekV41ForCausalLM",))
def deepseek_v41(config: Config) -> ModelShape:
    """Layers of `kv_source_layer_ids` keep an entry and an index key for each token or pair of
    tokens, which the layers after them read; all keep their window. The published config states
    every size; what it left out would be as in DeepSeek-V4.
    """
    text = config.section("text_config").overlay(
        quantization_config=config.get("quantization_config")
    )
    for name in SIZES:
        if not text.has(name):
            raise text.fail(name, "is missing")
    dims = read_dims(text.overlay(intermediate_size=text.get("moe_intermediate_size")))
    ratios = text.integers("compress_ratios", maximum=2) or []
    sizes = read_sizes(text, dims, text.per_layer(ratios, "compress_ratios", dims.layers))
    sources = _indices(text, "kv_source_layer_ids", dims.layers)
    modules = mtp_layers(text, dims)
    parts = {
        (ratio, owns): _parts(sizes, ratio if owns else 0) for ratio in (0, 1, 2) for owns in (0, 1)
    }
    kept = [parts[ratio, index in sources] for index, ratio in enumerate(sizes.ratios)]
    shape = model_shape(
        text,
        dims,
        groups=group_layers(kept, dims.heads),
        weights=_weights(text, dims, sizes, sources, len(modules)),
        traits=("compressed_cache", "sparse_attention"),
        draft_groups=drafts(modules, dims.heads, *_parts(sizes, 0)),
        assumptions=(FORMAT,),
    )
    return multimodal(config, shape, _vision(config.section("vision_config"), dims.hidden))


def _indices(config: Config, name: str, layers: int) -> tuple[int, ...]:
    """The layers a list names."""
    return tuple(sorted(set(config.integers(name, maximum=layers - 1) or ())))


def _parts(sizes: Sizes, ratio: int) -> tuple[CachePart, ...]:
    window = WindowedLatent(window=sizes.window, entry_bytes=LOCAL)
    if not ratio:
        return (window,)
    owned = (
        window,
        CompressedLatent(compress_ratio=ratio, entry_bytes=ENTRY),
        CompressedLatent(compress_ratio=ratio, entry_bytes=KEY, indexer=True),
    )
    if ratio == 1:
        return owned
    # of a pair that is not complete: fp32 values and scores
    pair = WindowedLatent(window=ratio, entry_bytes=4 * 2 * sizes.head_dim, compressor=True)
    return (*owned, pair)


def _weights(
    config: Config, dims: Dims, sizes: Sizes, sources: tuple[int, ...], modules: int
) -> list[Weight]:
    at = "layers.{layer}"
    return [
        *vocabulary(dims, embed="embed", head="head"),
        *v4_layer(at, dims, sizes, dims.all_layers),
        *_corrections(at, sizes, dims.all_layers),
        *_compressors(config, at, dims, sizes, sources),
        *_ngrams(config, at, dims, sizes.streams),
        vector("norm", dims.hidden),
        *_drafter(config, dims, sizes, modules),
    ]


def _corrections(at: str, sizes: Sizes, layers: Sequence[int]) -> list[Weight]:
    """Of the router, for text and for images."""
    names = ("ffn.gate.bias", "ffn.gate.bias_vl")
    return [weight for name in names for weight in correction(at, sizes.moe, layers, name=name)]


def _compressors(
    config: Config, at: str, dims: Dims, sizes: Sizes, sources: tuple[int, ...]
) -> list[Weight]:
    """Entries and index keys where they are made, index queries where they are asked."""
    asking = _indices(config, "index_source_layer_ids", dims.layers)
    pooled = tuple(index for index in sources if sizes.ratios[index] > 1)
    attn, inner = Part.ATTENTION, f"{at}.attn.indexer"
    width = sizes.index_heads * sizes.index_dim
    entry = (sizes.head_dim, dims.hidden)
    return [
        linear(f"{inner}.wq_b", width, sizes.q_rank, part=attn, layers=asking),
        array(f"{inner}.weights_proj", sizes.index_heads, dims.hidden, part=attn, layers=asking),
        array(f"{inner}.wk", sizes.index_dim, sizes.head_dim, part=attn, layers=sources),
        vector(f"{inner}.k_norm", sizes.index_dim, layers=sources),
        array(f"{at}.attn.compressor.wkv", *entry, part=attn, layers=sources),
        array(f"{at}.attn.compressor.wgate", *entry, part=attn, layers=pooled),
        vector(f"{at}.attn.compressor.norm", sizes.head_dim, layers=sources),
    ]


def _ngrams(config: Config, at: str, dims: Dims, streams: int) -> list[Weight]:
    """Tables of n-grams, of which a token reads a row a head and length (so a row is an expert that
    is not chosen by a router), and what brings the rows into the streams.
    """
    layers = _indices(config, "engram_layer_ids", dims.layers)
    rows = config.integers("engram_num_embeddings", minimum=1, maximum=MAX_COUNT) or []
    if len(rows) != len(layers):
        raise config.fail("engram_num_embeddings", f"has {len(rows)} tables for {len(layers)}")
    width = config.integer("engram_head_dim", default=256)
    orders = config.integer("engram_max_ngram_size", default=4, minimum=2, maximum=64) - 1
    columns = orders * config.integer("engram_n_heads", default=8, maximum=1024)
    tables = [
        Weight(
            name=f"{at}.engram.embed",
            shape=(width,),
            part=Part.EMBEDDING,
            layers=(layer,),
            experts=count,
            active=min(columns, count),
            split=Split.COLUMN,
            dtype=MXFP8 if config.has("quantization_config") else None,
        )
        for layer, count in zip(layers, rows, strict=True)
    ]
    return [
        *tables,
        linear(
            f"{at}.engram.wkv",
            (streams + 1) * dims.hidden,
            columns * width,
            part=Part.MLP,
            layers=layers,
        ),
        *(
            array(f"{at}.engram.{name}", streams, dims.hidden, part=Part.NORM, layers=layers)
            for name in ("q_weight", "k_weight")
        ),
    ]


def _drafter(config: Config, dims: Dims, sizes: Sizes, count: int) -> list[Weight]:
    """Layers with a window and fewer experts, which read some of the model's last layers; the last
    predicts with a table of pairs and says how sure it is.
    """
    if not count:
        return []
    at, size, places = "mtp.{layer}", dims.hidden, tuple(range(count))
    moe = read_moe(
        config.overlay(
            n_routed_experts=config.get("dspark_n_routed_experts"),
            num_experts_per_tok=config.get("dspark_num_experts_per_tok"),
        )
    )
    own = replace(sizes, moe=moe)
    read = len(config.integers("dspark_target_layer_ids") or ()) or 1
    rank = config.integer("dspark_markov_rank", default=256)
    mtp: dict[str, Any] = {"part": Part.MTP}
    return as_mtp(
        [
            *v4_layer(at, dims, own, places),
            *_corrections(at, own, places),
            vector("mtp.0.main_norm", size),
            linear("mtp.0.main_proj", size, read * size, **mtp),
            *norms(f"mtp.{count - 1}", size, (0,), "norm"),
            array(f"mtp.{count - 1}.markov_head.embed", dims.vocab, rank, **mtp),
            array(f"mtp.{count - 1}.markov_head.head", dims.vocab, rank, **mtp),
            array(f"mtp.{count - 1}.confidence_head.proj", 1, size + rank, **mtp),
        ]
    )


def _vision(config: Config, width: int) -> list[Weight]:
    """Rotary positions, gated MLPs; `downsample_ratio` squared patches a token. The checkpoint
    leaves all of it in 16 bits.
    """
    if not config.data:
        return []
    tower = read_tower(config, layers=32, hidden=1024, heads=16, intermediate=2816)
    merged = tower.hidden * config.integer("downsample_ratio", default=3, maximum=64) ** 2
    part, projector = Part.VISION, Part.PROJECTOR
    weights = [
        linear("vision.patch_embed.proj", tower.hidden, 3 * tower.patch**2, part=part, bias=True),
        *encoder_layers(
            "vision.blocks.{layer}",
            tower.hidden,
            tower.intermediate,
            tower.all_layers,
            attention="attn",
            qkvo=("wqkv", "wo"),
            mlp=("mlp.w1", "mlp.w1", "mlp.w2"),
            mlp_bias=False,
            norms=("norm1", "norm2"),
            norm_bias=False,
        ),
        layer_norm("vision.norm", tower.hidden, part=part, bias=False),
        linear("aligner.w1", width, merged, part=projector, bias=True),
        linear("aligner.w2", width, width, part=projector, bias=True),
        *(
            array(name, width, part=projector)
            for name in ("image_start", "image_end", "image_newline")
        ),
    ]
    return [replace(weight, linear=False) for weight in weights]
