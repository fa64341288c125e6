"""LFM2, LFM2-MoE and LFM3: gated short convolutions with attention in some layers."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from app.core.cache import CachePart
from app.core.inventory import Part, Split, Weight
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_moe import Moe, correction
from app.resolve.architectures.blocks_state import ShortConv
from app.resolve.architectures.common_shape import Dims, attention_part, read_dims
from app.resolve.architectures.common_weights import attention, linear, norms
from app.resolve.architectures.fields import MAX_LAYERS, MAX_WIDTH, Config
from app.resolve.architectures.hybrid import (
    checked_kinds,
    hybrid_decoder,
    pick,
    with_kv_heads,
)
from app.resolve.architectures.llama_like import LLAMA, Names, dense_mlp, mixture, window_size

FULL, SLIDING, CONV = "full_attention", "sliding_attention", "conv"
LFM2 = Names(
    norm="model.embedding_norm",
    norms=("operator_norm", "ffn_norm"),
    qkvo=("q_proj", "k_proj", "v_proj", "out_proj"),
    qk_norms=("self_attn.q_layernorm", "self_attn.k_layernorm"),
    mlp_module="feed_forward",
    mlp=("w1", "w3", "w2"),
)
LFM3 = replace(LFM2, qkvo=LLAMA.qkvo, qk_norms=LLAMA.qk_norms)


@family("lfm2", architectures=("Lfm2ForCausalLM", "Lfm2BidirectionalModel"))
def lfm2(config: Config) -> ModelShape:
    """Attention layers (`layer_types`, else `full_attn_idxs`, else all) cache K and V, the others
    `conv_L_cache` - 1 inputs. Defaults: Lfm2Config.
    """
    dims = _dims(config, layers=32, hidden=2560, heads=32, intermediate=12288, vocab=65536)
    kinds = config.texts("layer_types")
    if kinds is None:
        full = config.integers("full_attn_idxs", maximum=MAX_LAYERS)
        attended = set(dims.all_layers if full is None else full)
        kinds = [FULL if i in attended else CONV for i in dims.all_layers]
    width = config.integer("block_ff_dim", "intermediate_size", default=12288)
    dims = replace(dims, intermediate=_adjusted(config, width))
    at = config.prefix + "model.layers.{layer}"
    mlp = dense_mlp(at, dims, dims.all_layers, names=LFM2)
    channels = config.integer("conv_dim", default=dims.hidden)
    return _model(config, dims, kinds, mlp, channels)


@family("lfm2_moe", architectures=("Lfm2MoeForCausalLM",))
def lfm2_moe(config: Config) -> ModelShape:
    """As LFM2, with experts in all but the first `num_dense_layers`. Defaults: Lfm2MoeConfig."""
    dims = _dims(config, layers=32, hidden=2048, heads=32, intermediate=7168, vocab=65536)
    kinds = config.texts("layer_types")
    if kinds is None:
        raise config.fail("layer_types", "is missing: which layers are convolutions")
    first = config.integer("num_dense_layers", default=2, minimum=0)
    experts = config.integer("num_experts", default=32)
    moe = Moe(
        num_experts=experts,
        top_k=config.integer("num_experts_per_tok", default=4),
        width=config.integer("moe_intermediate_size", default=1792),
    )
    at = config.prefix + "model.layers.{layer}"
    sparse = dims.all_layers[first:]
    corrected = sparse if config.boolean("use_expert_bias", default=True) else ()
    mlp = [
        *dense_mlp(at, dims, dims.all_layers[:first], names=LFM2),
        *mixture(
            at,
            dims.hidden,
            moe.width,
            sparse,
            num_experts=moe.num_experts,
            top_k=moe.top_k,
            module="feed_forward",
            names=("w1", "w3", "w2"),
        ),
        *correction(at, moe, corrected, name="feed_forward.expert_bias"),
    ]
    return _model(config, dims, kinds, mlp, dims.hidden)


@family("lfm3", architectures=("Lfm3ForCausalLM",))
def lfm3(config: Config) -> ModelShape:
    """Of four layers one has full attention, one a window (not the first layer), two convolve;
    a gate a head on attention, norms after each half too. Defaults: Lfm3Config.
    """
    dims = _dims(
        config,
        layers=24,
        hidden=2048,
        heads=16,
        intermediate=7680,
        vocab=128000,
        kv_heads=4,
        head_dim=128,
    )
    kinds = config.texts("layer_types") or [
        FULL if i % 4 == 2 else SLIDING if i and i % 4 == 0 else CONV for i in dims.all_layers
    ]
    at = config.prefix + "model.layers.{layer}"
    mlp = dense_mlp(at, dims, dims.all_layers, names=LFM2)
    if config.boolean("use_sandwich_norm", default=True):
        mlp += norms(at, dims.hidden, dims.all_layers, "post_operator_norm", "post_ffn_norm")
    attended = pick(kinds, FULL, SLIDING)
    if attended and config.boolean("use_attention_gate", default=True):
        gate: dict[str, Any] = {"part": Part.ATTENTION, "layers": attended, "split": Split.COLUMN}
        mlp.append(linear(f"{at}.self_attn.g_proj", dims.heads, dims.hidden, **gate))
    return _model(config, dims, kinds, mlp, dims.hidden, third=True)


def _dims(
    config: Config,
    *,
    layers: int,
    hidden: int,
    heads: int,
    intermediate: int,
    vocab: int,
    kv_heads: int = 8,
    head_dim: int | None = None,
) -> Dims:
    if config.has("tie_embedding"):
        config = config.overlay(tie_word_embeddings=config.get("tie_embedding"))
    return read_dims(
        with_kv_heads(config, kv_heads),
        layers=layers,
        hidden=hidden,
        heads=heads,
        head_dim=head_dim,
        intermediate=intermediate,
        vocab=vocab,
        max_positions=128_000,
        tied=True,
    )


def _adjusted(config: Config, width: int) -> int:
    """Two thirds of the stated width, scaled, up to a multiple (as Llama 1 did)."""
    if not config.boolean("block_auto_adjust_ff_dim", default=True):
        return width
    width = 2 * width // 3
    stated = "block_ffn_dim_multiplier" in config.data
    if stated and not config.has("block_ffn_dim_multiplier"):
        return width
    width = int(config.number("block_ffn_dim_multiplier", default=1.0, maximum=1024.0) * width)
    multiple = config.integer("block_multiple_of", default=256)
    width = -(-width // multiple) * multiple
    if not 0 < width <= MAX_WIDTH:
        raise config.fail("block_ffn_dim_multiplier", "makes no MLP of a possible width")
    return width


def _model(
    config: Config,
    dims: Dims,
    kinds: Sequence[str],
    mlp: Sequence[Weight],
    channels: int,
    *,
    third: bool = False,
) -> ModelShape:
    kinds = checked_kinds(config, "layer_types", list(kinds), dims.layers, FULL, SLIDING, CONV)
    mixer = ShortConv(
        hidden=dims.hidden,
        channels=channels,
        kernel=config.integer("conv_L_cache", default=7 if third else 3),
        bias=config.boolean("conv_bias", default=False),
    )
    full = pick(kinds, FULL, SLIDING)
    parts: dict[str, tuple[CachePart, ...]] = {
        FULL: (attention_part(dims),),
        CONV: (mixer.part(),),
    }
    if SLIDING in kinds:
        window = window_size(config, default=256)
        if not third or window is None:
            raise config.fail("sliding_window", "is missing, and some layers have one")
        parts[SLIDING] = (attention_part(dims, window=window),)
    at = config.prefix + "model.layers.{layer}"
    names = LFM3 if third else LFM2
    bias = config.boolean("attention_bias", default=False) if third else False
    weights = [
        *attention(at, dims, full, bias=bias, out_bias=bias, names=names.qkvo),
        *norms(at, dims.head_dim, full, *names.qk_norms),
        *mixer.weights(f"{at}.conv", pick(kinds, CONV)),
        *mlp,
    ]
    return hybrid_decoder(config, dims, kinds, parts, weights, names=names)
