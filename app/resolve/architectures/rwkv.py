"""RWKV 4 to 7: every layer keeps the last input of each half and a state, whatever the length."""

from collections.abc import Sequence
from typing import Any

from app.core.inventory import Part, Split, Weight
from app.core.model import LayerGroup, ModelShape
from app.core.precision import FLOAT32
from app.core.recurrent import UnitState
from app.resolve.architectures import family
from app.resolve.architectures.blocks_state import small
from app.resolve.architectures.common_shape import LAYERS, Dims, model_shape
from app.resolve.architectures.common_weights import linear, vector, vocabulary
from app.resolve.architectures.fields import MAX_LAYERS, Config
from app.resolve.architectures.hybrid import HYBRID
from app.resolve.architectures.mamba import ATTENTION_FREE

WIDE = 4096
"""From this width on RWKV 6 doubles the ranks of its generated mixing and decay."""


@family("rwkv", architectures=("RwkvForCausalLM",))
def rwkv4(config: Config) -> ModelShape:
    """RWKV 4: numerator, denominator and exponent a channel, in fp32. Defaults: RwkvConfig."""
    dims = _dims(config, layers=32, hidden=4096, vocab=50277)
    width = config.optional_integer("attention_hidden_size") or dims.hidden
    state = UnitState(units=width, state_per_unit=3, shifted=2 * dims.hidden, state_dtype=FLOAT32)
    at = "rwkv.blocks.{layer}.attention"
    mixer = [
        *_vectors(at, dims, width, "time_decay", "time_first"),
        *_vectors(at, dims, dims.hidden, *_mixed("key", "value", "receptance")),
        *_time_mix(at, dims, width, "key", "value", "receptance"),
    ]
    return _blocks(config, dims, state, mixer, _channel_mix(config, dims, 4 * dims.hidden))


@family("rwkv5", architectures=("Rwkv5ForCausalLM",))
def rwkv5(config: Config) -> ModelShape:
    """RWKV 5: a matrix a head, in fp32. Defaults: the published Rwkv5Config."""
    dims = _dims(config, layers=24, hidden=768, vocab=65536)
    width = config.optional_integer("attention_hidden_size") or dims.hidden
    at = "rwkv.blocks.{layer}.attention"
    mixer = [
        *_vectors(at, dims, width, "time_decay", "time_faaaa", "ln_x.weight", "ln_x.bias"),
        *_vectors(at, dims, dims.hidden, *_mixed("key", "value", "receptance", "gate")),
        *_time_mix(at, dims, width, "key", "value", "receptance", "gate"),
    ]
    mlp = _channel_mix(config, dims, 7 * dims.hidden // 2 // 32 * 32)
    return _blocks(config, dims, _matrices(config, dims, width), mixer, mlp)


@family("rwkv6", architectures=("Rwkv6ForCausalLM",))
def rwkv6(config: Config) -> ModelShape:
    """RWKV 6: as 5, with mixing and decay generated from the input. Defaults: the published
    Rwkv6Config.
    """
    dims = _dims(config, layers=24, hidden=768, vocab=65536)
    width = config.optional_integer("attention_hidden_size") or dims.hidden
    at = "rwkv.blocks.{layer}.attention"
    mixing, decay = (64, 128) if dims.hidden >= WIDE else (32, 64)
    own = ("time_decay", "time_faaaa", "ln_x.weight", "ln_x.bias")
    ranks = (
        ("time_maa_w1", dims.hidden, 5 * mixing),
        ("time_maa_w2", 5 * mixing, dims.hidden),
        ("time_decay_w1", dims.hidden, decay),
        ("time_decay_w2", decay, width),
    )
    mixer = [
        *_vectors(at, dims, width, *own),
        *_vectors(at, dims, dims.hidden, *(f"time_maa_{name}" for name in "xwkvrg")),
        *(small(f"{at}.{name}", *shape, layers=dims.all_layers) for name, *shape in ranks),
        *_time_mix(at, dims, width, "key", "value", "receptance", "gate"),
    ]
    mlp = _channel_mix(config, dims, 7 * dims.hidden // 2 // 32 * 32)
    return _blocks(config, dims, _matrices(config, dims, width), mixer, mlp)


@family("rwkv7", "rwkv7_fla", architectures=("RWKV7ForCausalLM", "Rwkv7ForCausalLM"))
def rwkv7(config: Config) -> ModelShape:
    """RWKV 7: a matrix a head under a generalised delta rule. Defaults: RWKV7Config of the
    flash-linear-attention package.
    """
    dims = _dims(config, layers=24, hidden=2048, vocab=32000)
    hidden, layers = dims.hidden, dims.all_layers
    if config.has("attn"):
        raise config.fail("attn", "mixes attention layers in, which is not known here")
    at = "model.layers.{layer}.attn"
    ranks = [
        ("w_lora", config.integer("decay_low_rank_dim", default=64), True, layers),
        ("a_lora", config.integer("a_low_rank_dim", default=64), True, layers),
        ("v_lora", config.integer("v_low_rank_dim", default=16), True, layers[1:]),
        ("g_lora", config.integer("gate_low_rank_dim", default=128), False, layers),
    ]
    state: dict[str, Any] = {"part": Part.STATE, "split": Split.COLUMN}
    adapters: list[Weight] = []
    for name, rank, bias, members in ranks:
        if members:
            down, up = f"{at}.{name}.lora.0", f"{at}.{name}.lora.2"
            adapters += [
                linear(down, rank, hidden, part=Part.STATE, layers=members),
                linear(up, hidden, rank, layers=members, bias=bias, **state),
            ]
    mixed = (f"x_{name}" for name in "rwkvag")
    ratio = config.number("hidden_ratio", default=4.0, minimum=0.01, maximum=64.0)
    width = config.optional_integer("intermediate_size") or -(-int(hidden * ratio) // 32) * 32
    ffn = "model.layers.{layer}.ffn"
    return model_shape(
        config,
        dims,
        groups=(LayerGroup(layers=layers, parts=(_matrices(config, dims, hidden),)),),
        weights=[
            *vocabulary(dims, prefix=config.prefix, embed="model.embeddings"),
            *_vectors(at, dims, hidden, *mixed, "k_k", "k_a", "r_k"),
            *_vectors(at, dims, hidden, "g_norm.weight", "g_norm.bias"),
            *(
                linear(f"{at}.{name}_proj", hidden, hidden, layers=layers, **state)
                for name in "rkv"
            ),
            linear(f"{at}.o_proj", hidden, hidden, part=Part.STATE, split=Split.ROW, layers=layers),
            *adapters,
            *_vectors(ffn, dims, hidden, "x_k"),
            linear(f"{ffn}.key", width, hidden, part=Part.MLP, split=Split.COLUMN, layers=layers),
            linear(f"{ffn}.value", hidden, width, part=Part.MLP, split=Split.ROW, layers=layers),
            *_norms(config, dims, "model.layers.{layer}", ("attn_norm", "ffn_norm"), "pre_norm"),
            vector("model.norm", hidden, bias=config.boolean("norm_bias", default=True)),
        ],
        traits=(HYBRID, ATTENTION_FREE),
    )


def _dims(config: Config, *, layers: int, hidden: int, vocab: int) -> Dims:
    return Dims(
        layers=config.integer(*LAYERS, default=layers, maximum=MAX_LAYERS),
        hidden=config.integer("hidden_size", "n_embd", default=hidden),
        heads=0,
        kv_heads=0,
        head_dim=0,
        intermediate=0,
        vocab=config.integer("vocab_size", default=vocab),
        max_positions=config.optional_integer("max_position_embeddings", "context_length"),
        tied=config.boolean("tie_word_embeddings", default=False),
    )


def _matrices(config: Config, dims: Dims, width: int) -> UnitState:
    size = config.integer("head_size", "head_dim", default=64)
    if width % size:
        raise config.fail("head_size", f"{size} does not divide {width}")
    return UnitState(
        units=width // size,
        state_per_unit=size * size,
        shifted=2 * dims.hidden,
        state_dtype=FLOAT32,
    )


def _mixed(*names: str) -> tuple[str, ...]:
    return tuple(f"time_mix_{name}" for name in names)


def _vectors(at: str, dims: Dims, size: int, *names: str) -> list[Weight]:
    return [small(f"{at}.{name}", size, layers=dims.all_layers) for name in names]


def _time_mix(at: str, dims: Dims, width: int, *names: str) -> list[Weight]:
    common: dict[str, Any] = {"part": Part.STATE, "layers": dims.all_layers}
    return [
        *(
            linear(f"{at}.{name}", width, dims.hidden, split=Split.COLUMN, **common)
            for name in names
        ),
        linear(f"{at}.output", dims.hidden, width, split=Split.ROW, **common),
    ]


def _channel_mix(config: Config, dims: Dims, default: int) -> list[Weight]:
    at, hidden = "rwkv.blocks.{layer}.feed_forward", dims.hidden
    width = config.integer("intermediate_size", default=default)
    common: dict[str, Any] = {"part": Part.MLP, "layers": dims.all_layers}
    return [
        *_vectors(at, dims, hidden, *_mixed("key", "receptance")),
        linear(f"{at}.key", width, hidden, split=Split.COLUMN, **common),
        linear(f"{at}.receptance", hidden, hidden, split=Split.COLUMN, **common),
        linear(f"{at}.value", hidden, width, split=Split.ROW, **common),
    ]


def _norms(config: Config, dims: Dims, at: str, names: tuple[str, str], first: str) -> list[Weight]:
    """Two layer norms a layer, and one before the first layer."""
    bias = config.boolean("norm_bias", default=True)
    weights = [
        vector(f"{at}.{name}", dims.hidden, layers=dims.all_layers, bias=bias) for name in names
    ]
    if config.boolean("norm_first", default=True):
        weights.append(vector(f"{at}.{first}", dims.hidden, layers=(0,), bias=bias))
    return weights


def _blocks(
    config: Config,
    dims: Dims,
    state: UnitState,
    mixer: Sequence[Weight],
    mlp: Sequence[Weight],
) -> ModelShape:
    return model_shape(
        config,
        dims,
        groups=(LayerGroup(layers=dims.all_layers, parts=(state,)),),
        weights=[
            *vocabulary(dims, prefix=config.prefix, embed="rwkv.embeddings", head="head"),
            *mixer,
            *mlp,
            *_norms(config, dims, "rwkv.blocks.{layer}", ("ln1", "ln2"), "pre_ln"),
            vector("rwkv.ln_out", dims.hidden, bias=True),
        ],
        traits=(HYBRID, ATTENTION_FREE),
    )
