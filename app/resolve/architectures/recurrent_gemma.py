"""RecurrentGemma (Griffin): two gated linear recurrences, then attention in a window."""

from typing import Any

from app.core.cache import CachePart
from app.core.inventory import Part, Split
from app.core.model import ModelShape
from app.core.precision import FLOAT32
from app.core.recurrent import UnitState
from app.resolve.architectures import family
from app.resolve.architectures.blocks_state import small
from app.resolve.architectures.common_shape import attention_part, read_dims
from app.resolve.architectures.common_weights import (
    attention,
    gated_mlp,
    linear,
)
from app.resolve.architectures.fields import Config
from app.resolve.architectures.hybrid import hybrid_decoder, pick
from app.resolve.architectures.llama_like import Names

RECURRENT, ATTENTION = "recurrent", "attention"
GRIFFIN = Names(norm="model.final_norm", norms=("temporal_pre_norm", "channel_pre_norm"))


@family("recurrent_gemma", architectures=("RecurrentGemmaForCausalLM",))
def recurrent_gemma(config: Config) -> ModelShape:
    """`block_types` repeats over the layers: a window of K and V, or an fp32 number a channel and a
    convolution's tail. Half of `intermediate_size` is the width of the MLP. Defaults:
    RecurrentGemmaConfig.
    """
    dims = read_dims(
        config,
        layers=26,
        hidden=2560,
        heads=10,
        intermediate=7680,
        vocab=256000,
        max_positions=None,
        tied=True,
    )
    pattern = config.texts("block_types", "_block_types")
    pattern = pattern or [RECURRENT, RECURRENT, ATTENTION]
    if unknown := sorted(set(pattern).difference((RECURRENT, ATTENTION))):
        raise config.fail("block_types", f"has kinds this family does not know: {unknown}"[:200])
    kinds = [pattern[i % len(pattern)] for i in dims.all_layers]
    full, recurrent = pick(kinds, ATTENTION), pick(kinds, RECURRENT)
    width = config.integer("lru_width", default=dims.hidden)
    kernel = config.integer("conv1d_width", default=4, maximum=1024)
    window = config.integer("attention_window_size", "sliding_window", default=2048)
    if width % dims.heads:
        raise config.fail("lru_width", f"{dims.heads} heads do not divide {width}")
    block = width // dims.heads
    parts: dict[str, tuple[CachePart, ...]] = {
        ATTENTION: (attention_part(dims, window=window),),
        RECURRENT: (
            UnitState(units=width, state_per_unit=1, tail_per_unit=kernel - 1, state_dtype=FLOAT32),
        ),
    }
    at = config.prefix + "model.layers.{layer}"
    inside = f"{at}.temporal_block"
    state: dict[str, Any] = {"part": Part.STATE, "layers": recurrent, "bias": True}
    gates = [
        small(
            f"{inside}.rg_lru.{name}_gate", dims.heads, block, block, layers=recurrent, bias=width
        )
        for name in ("input", "recurrent")
    ]
    mixer = [
        linear(f"{inside}.linear_x", width, dims.hidden, split=Split.COLUMN, **state),
        linear(f"{inside}.linear_y", width, dims.hidden, split=Split.COLUMN, **state),
        linear(f"{inside}.linear_out", dims.hidden, width, split=Split.ROW, **state),
        small(f"{inside}.conv_1d", width, 1, kernel, layers=recurrent, bias=width),
        small(f"{inside}.rg_lru.recurrent_param", width, layers=recurrent),
        *gates,
    ]
    bias = config.boolean("attention_bias", default=False)
    mlp = max(1, dims.intermediate // 2)
    weights = [
        *(mixer if recurrent else ()),
        *attention(at, dims, full, bias=bias, out_bias=True, module="temporal_block"),
        *gated_mlp(at, dims.hidden, mlp, dims.all_layers, bias=True, module="mlp_block"),
    ]
    return hybrid_decoder(config, dims, kinds, parts, weights, names=GRIFFIN)
