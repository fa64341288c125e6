"""DeepSeek-V4: a short window in every layer, and compressed caches of everything before it."""

from app.core.cache import CachePart, CompressedLatent, WindowedLatent
from app.core.model import ModelShape
from app.core.precision import MXFP4, Precision, precision
from app.resolve.architectures import family
from app.resolve.architectures.blocks_moe import drafts, mtp_layers, read_moe
from app.resolve.architectures.common_shape import Dims, group_layers, model_shape, read_dims
from app.resolve.architectures.deepseek_v4_weights import INDEXED_RATIO, Sizes, v4_weights
from app.resolve.architectures.fields import Config

KINDS = {
    "sliding_attention": 0,
    "compressed_sparse_attention": INDEXED_RATIO,
    "heavily_compressed_attention": 128,
}
SCALE_BYTES = 8


@family("deepseek_v4", "deepseek_ref", architectures=("DeepseekV4ForCausalLM",))
def deepseek_v4(config: Config) -> ModelShape:
    """Each layer keeps the last `sliding_window` tokens. Layers of ratio 4 or 128 add one entry
    for that many tokens and the fp32 state of the compressor that makes it; those of ratio 4 have
    an indexer with a compressed cache and a state of its own. Entries have a fixed format: 8-bit
    numbers, a 16-bit rotary part, 8 bytes of scales. Defaults: DeepseekV4Config.
    """
    dims = read_dims(
        config,
        layers=43,
        hidden=4096,
        heads=64,
        kv_heads=1,
        head_dim=512,
        intermediate=2048,
        vocab=129280,
        max_positions=1048576,
    )
    ratios, hashed = _ratios(config, dims.layers), _hash_layers(config, dims.layers)
    sizes = read_sizes(config, dims, ratios, hashed=hashed)
    modules = mtp_layers(config, dims, default=1)
    per_layer = {ratio: _parts(sizes, ratio) for ratio in set(sizes.ratios)}
    return model_shape(
        config,
        dims,
        groups=group_layers([per_layer[ratio] for ratio in sizes.ratios], dims.heads),
        weights=v4_weights(config.prefix, dims, sizes, modules),
        draft_groups=drafts(modules, dims.heads, *_parts(sizes, 0)),
        traits=("compressed_cache", "sparse_attention"),
    )


def read_sizes(config: Config, dims: Dims, ratios: list[int], *, hashed: int = 0) -> Sizes:
    """The sizes beyond the common ones, by the defaults of DeepseekV4Config."""
    sizes = Sizes(
        head_dim=dims.head_dim,
        rope=config.integer("qk_rope_head_dim", default=64),
        window=config.integer("sliding_window", default=128),
        q_rank=config.integer("q_lora_rank", default=1024),
        o_groups=config.integer("o_groups", default=8),
        o_rank=config.integer("o_lora_rank", default=1024),
        index_heads=config.integer("index_n_heads", default=64),
        index_dim=config.integer("index_head_dim", default=128),
        streams=config.integer("hc_mult", default=4),
        hashed=hashed,
        ratios=tuple(ratios),
        moe=read_moe(config, experts=256, top_k=6, width=2048, shared=1),
        expert_dtype=_expert_dtype(config),
    )
    if sizes.rope > sizes.head_dim:
        raise config.fail("qk_rope_head_dim", f"is larger than head_dim {sizes.head_dim}")
    if dims.heads * dims.head_dim % sizes.o_groups:
        raise config.fail("o_groups", "does not divide the width of all heads")
    return sizes


def _ratios(config: Config, layers: int) -> list[int]:
    """Tokens an entry in each layer, 0 where there is only the window: from `layer_types`, from
    `compress_ratios` (which list the prediction modules too), else two layers of 128 and then 128
    and 4 in turn.
    """
    kinds = config.texts("layer_types")
    if kinds is not None:
        rates = config.section("compress_rates")
        by_kind = {kind: rates.integer(kind, default=r, minimum=0) for kind, r in KINDS.items()}
        if unknown := set(kinds).difference(by_kind):
            raise config.fail("layer_types", f"has kinds this family does not know: {unknown}")
        return [by_kind[kind] for kind in config.per_layer(kinds, "layer_types", layers)]
    ratios = config.integers("compress_ratios")
    if ratios is None:
        return [INDEXED_RATIO if index > 1 and index % 2 else 128 for index in range(layers)]
    return [r if r > 1 else 0 for r in config.per_layer(ratios, "compress_ratios", layers)]


def _hash_layers(config: Config, layers: int) -> int:
    kinds = config.texts("mlp_layer_types")
    if kinds is not None:
        return config.per_layer(kinds, "mlp_layer_types", layers).count("hash_moe")
    return min(config.integer("num_hash_layers", default=3, minimum=0), layers)


def _expert_dtype(config: Config) -> Precision | None:
    """MXFP4 where the config says so itself; other formats are told by its quantization."""
    quantization = config.section("quantization_config")
    if quantization.has("moe_quant_algo"):
        return None
    name = config.text("expert_dtype") or quantization.text("expert_dtype")
    if not name:
        return None
    return MXFP4 if name == "fp4" else precision(name, field="config.expert_dtype")


def _parts(sizes: Sizes, ratio: int) -> tuple[CachePart, ...]:
    entry = sizes.head_dim - sizes.rope + 2 * sizes.rope + SCALE_BYTES
    window = WindowedLatent(window=sizes.window, entry_bytes=entry)
    if not ratio:
        return (window,)
    main = (
        window,
        CompressedLatent(compress_ratio=ratio, entry_bytes=entry),
        _state(sizes.head_dim, ratio),
    )
    if ratio != INDEXED_RATIO:
        return main
    scales = 4 * -(-sizes.index_dim // 128)
    keys = CompressedLatent(
        compress_ratio=ratio, entry_bytes=sizes.index_dim + scales, indexer=True
    )
    return (*main, keys, _state(sizes.index_dim, ratio))


def _state(width: int, ratio: int) -> WindowedLatent:
    """What a compressor carries: fp32 values and scores of the tokens it still reads, which
    overlap by one group where the ratio is 4.
    """
    overlap = 2 if ratio == INDEXED_RATIO else 1
    return WindowedLatent(
        window=overlap * ratio, entry_bytes=4 * 2 * overlap * width, compressor=True
    )
