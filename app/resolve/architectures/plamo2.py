"""PLaMo 2: Mamba 2 layers without B and C in the convolution, and windowed attention between."""

from collections.abc import Sequence
from typing import Any

from app.core.inventory import Part, Split, Weight
from app.core.model import ModelShape
from app.core.recurrent import Mamba2State
from app.resolve.architectures import family
from app.resolve.architectures.blocks_state import small
from app.resolve.architectures.common_shape import (
    Dims,
    attention_part,
    group_layers,
    model_shape,
    read_dims,
)
from app.resolve.architectures.common_weights import attention, linear, norms, vector, vocabulary
from app.resolve.architectures.fields import MAX_LAYERS, Config
from app.resolve.architectures.hybrid import HYBRID
from app.resolve.architectures.llama_like import Names, dense_mlp

FUSED = ("qkv_proj", "qkv_proj", "qkv_proj", "o_proj")
GATE_UP = Names(mlp=("gate_up_proj", "gate_up_proj", "down_proj"))
NORMS = ("pre_mixer_norm", "post_mixer_norm", "pre_mlp_norm", "post_mlp_norm")


@family("plamo2", architectures=("Plamo2ForCausalLM",))
def plamo2(config: Config) -> ModelShape:
    """Of every `mamba_step` layers the middle one attends: in a window, or to everything where
    `full_attention_idx` names it. The others keep a convolution's tail and a state. Defaults: the
    published Plamo2Config.
    """
    dims = read_dims(
        config.overlay(head_dim=config.integer("hidden_size_per_head", default=128)),
        layers=32,
        hidden=4096,
        heads=32,
        intermediate=13312,
        vocab=32000,
        max_positions=10_485_760,
        tied=True,
    )
    step = config.integer("mamba_step", default=2, minimum=2)
    enabled = config.boolean("mamba_enabled", default=True)
    middle = step // 2
    attends = [not enabled or i % step == middle for i in dims.all_layers]
    if enabled and dims.layers <= middle:
        attends = [i == dims.layers - 1 for i in dims.all_layers]
    everything = set(config.integers("full_attention_idx", maximum=MAX_LAYERS) or ())
    window = config.integer("attention_window_size", default=2048)
    heads = config.integer("mamba_num_heads", default=64)
    state = Mamba2State(
        num_heads=heads,
        head_dim=dims.head_dim,
        state_size=config.integer("mamba_d_state", default=64),
        n_groups=0,
        conv_kernel=config.integer("mamba_d_conv", default=4),
    )
    windowed, full = attention_part(dims, window=window), attention_part(dims)
    attended = [i for i in dims.all_layers if attends[i]]
    recurrent = [i for i in dims.all_layers if not attends[i]]
    at = config.prefix + "model.layers.layers.{layer}"
    qk = (("q", dims.heads), ("k", dims.kv_heads))
    mixers = [
        *attention(at, dims, attended, names=FUSED, module="mixer"),
        *(
            vector(f"{at}.mixer.{name}_weight", count * dims.head_dim, layers=attended)
            for name, count in qk
        ),
    ]
    return model_shape(
        config,
        dims,
        groups=group_layers(
            [
                ((full if i in everything else windowed) if attends[i] else state,)
                for i in dims.all_layers
            ],
            dims.heads,
        ),
        weights=[
            *vocabulary(dims, prefix=config.prefix),
            *(mixers if attended else ()),
            *_mamba(f"{at}.mixer", dims, state, recurrent),
            *dense_mlp(at, dims, dims.all_layers, names=GATE_UP),
            *norms(at, dims.hidden, dims.all_layers, *NORMS),
            vector(config.prefix + "model.norm", dims.hidden),
        ],
        traits=(HYBRID,),
    )


def _mamba(at: str, dims: Dims, state: Mamba2State, layers: Sequence[int]) -> list[Weight]:
    if not layers:
        return []
    common: dict[str, Any] = {"part": Part.STATE, "layers": layers}
    inner = state.num_heads * state.head_dim
    rank = max(64, dims.hidden // 16)
    sizes = (("dt", rank), ("B", state.state_size), ("C", state.state_size))
    low = rank + 2 * state.state_size
    return [
        linear(f"{at}.in_proj", 2 * inner, dims.hidden, split=Split.COLUMN, **common),
        small(f"{at}.conv1d", inner, 1, state.conv_kernel, layers=layers),
        linear(f"{at}.bcdt_proj", low, inner, split=Split.ROW, **common),
        linear(f"{at}.dt_proj", state.num_heads, rank, split=Split.COLUMN, **common),
        *(small(f"{at}.{n}", state.num_heads, layers=layers) for n in ("dt_bias", "A_log", "D")),
        *(vector(f"{at}.{name}_norm_weight", size, **common) for name, size in sizes),
        linear(f"{at}.out_proj", dims.hidden, inner, split=Split.ROW, **common),
    ]
