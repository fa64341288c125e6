"""Jet-Nemotron: Qwen 2 with most layers replaced by gated delta nets with a generated convolution."""

from typing import Any

from app.core.cache import CachePart
from app.core.inventory import Part, Split, Weight
from app.core.model import ModelShape
from app.core.precision import FLOAT32
from app.core.recurrent import UnitState
from app.resolve.architectures import family
from app.resolve.architectures.blocks_state import small
from app.resolve.architectures.common_shape import Dims, attention_part, read_dims
from app.resolve.architectures.common_weights import attention, linear, vector
from app.resolve.architectures.fields import MAX_WIDTH, Config
from app.resolve.architectures.hybrid import (
    checked_kinds,
    hybrid_decoder,
    pick,
)
from app.resolve.architectures.llama_like import dense_mlp

JET, FULL, SLIDING = "jet", "attn", "swa"


@family("jet_nemotron", architectures=("JetNemotronForCausalLM",))
def jet_nemotron(config: Config) -> ModelShape:
    """`layer_types` says which layers keep an fp32 state and the values' convolution tail (jet),
    which a window (swa), which everything (attn). The published class has no defaults for them.
    """
    dims = read_dims(config, tied=True)
    kinds = config.texts("layer_types")
    if kinds is None:
        raise config.fail("layer_types", "is missing: which layers attend")
    kinds = checked_kinds(config, "layer_types", kinds, dims.layers, JET, FULL, SLIDING)
    efficient = config.section("efficient_attention_config")
    block = efficient.section("jet")
    heads = block.integer("num_heads", default=6)
    key_dim = block.integer("head_dim", default=256)
    value_dim = int(key_dim * block.number("expand_v", default=2.0, maximum=64.0))
    kernel = block.integer("conv_size", default=4, maximum=1024)
    if not 0 < heads * value_dim * kernel <= MAX_WIDTH:
        raise block.fail("expand_v", "makes no values of a possible width")
    parts: dict[str, tuple[CachePart, ...]] = {
        FULL: (attention_part(dims),),
        JET: (
            UnitState(
                units=heads,
                state_per_unit=key_dim * value_dim,
                tail_per_unit=(kernel - 1) * value_dim,
                state_dtype=FLOAT32,
            ),
        ),
    }
    if SLIDING in kinds:
        window = efficient.section("swa").integer("window_size")
        parts[SLIDING] = (attention_part(dims, window=window),)
    at = config.prefix + "model.layers.{layer}"
    reduction = block.integer("dconv_generator_reduction", default=8)
    weights = [
        *attention(at, dims, pick(kinds, FULL, SLIDING), bias=True),
        *_jet(
            f"{at}.self_attn",
            dims,
            (heads, key_dim, value_dim),
            (kernel, reduction),
            pick(kinds, JET),
        ),
        *dense_mlp(at, dims, dims.all_layers),
    ]
    return hybrid_decoder(config, dims, kinds, parts, weights)


def _jet(
    at: str,
    dims: Dims,
    sizes: tuple[int, int, int],
    convolution: tuple[int, int],
    layers: tuple[int, ...],
) -> list[Weight]:
    """The convolution's kernel is made from the layer's input by two matrices."""
    if not layers:
        return []
    (heads, key_dim, value_dim), (kernel, reduction) = sizes, convolution
    keys, values = heads * key_dim, heads * value_dim
    narrow = max(1, values // reduction)
    common: dict[str, Any] = {"part": Part.STATE, "layers": layers}
    column: dict[str, Any] = {"split": Split.COLUMN, **common}
    rows = (("q", keys), ("k", keys), ("v", values), ("b", heads), ("a", heads), ("g", values))
    generator = f"{at}.dynamic_conv1d.kernel_generator"
    return [
        *(linear(f"{at}.{name}_proj", width, dims.hidden, **column) for name, width in rows),
        small(f"{at}.A_log", heads, layers=layers),
        small(f"{at}.dt_bias", heads, layers=layers),
        linear(f"{generator}.w1", narrow, dims.hidden, **common),
        linear(f"{generator}.w2", values * kernel, narrow, bias=True, **column),
        vector(f"{at}.o_norm", value_dim, **common),
        linear(f"{at}.o_proj", dims.hidden, values, split=Split.ROW, **common),
    ]
