"""Models that run layers again and cache each pass: Dory, IQuest-LoopCoder, Ouro."""

from collections.abc import Sequence

from app.core.inventory import Part
from app.core.model import LayerGroup, ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.common_shape import Dims, attention_part, read_dims
from app.resolve.architectures.common_weights import linear, output_gate, vector
from app.resolve.architectures.fields import MAX_LAYERS, Config
from app.resolve.architectures.llama_like import (
    Names,
    attention_bias,
    layer_windows,
    llama_like,
    window_size,
)

UNWEIGHTED = Names(norms=(), norm="")
BOTH_SIDES = Names(
    norms=(
        "input_layernorm",
        "input_layernorm_2",
        "post_attention_layernorm",
        "post_attention_layernorm_2",
    )
)
LOOP_WINDOW = 64


@family("dory", architectures=("DoryForCausalLM",))
def dory(config: Config) -> ModelShape:
    """The middle layers (`n_recurrent_layers`) run `n_recurrent_loops` times, with a cache a loop
    unless `recurrent_kv_cache_mode` is "last_loop"; three windowed layers, then a full one.
    Defaults: DoryConfig.

    A published config may count attention and MLP as layers of their own ("mlp" in
    `layer_types`): two of them are one layer here.
    """
    kinds = config.texts("layer_types") or []
    halves = 2 if "mlp" in kinds else 1
    stated = config.integer("num_hidden_layers", default=36, maximum=MAX_LAYERS)
    config = config.overlay(
        num_hidden_layers=max(stated // halves, 1), layer_types=kinds[::halves] or None
    )
    dims = read_dims(
        config,
        layers=36,
        hidden=2560,
        heads=16,
        kv_heads=4,
        head_dim=256,
        intermediate=7168,
        vocab=131072,
        max_positions=8192,
    )
    ends = [
        config.integer(name, default=8 * halves, minimum=0, maximum=MAX_LAYERS) // halves
        for name in ("n_input_layers", "n_output_layers")
    ]
    looping = config.optional_integer("n_recurrent_layers", minimum=0)
    looping = dims.layers - sum(ends) if looping is None else looping // halves
    if looping < 0 or looping + sum(ends) != dims.layers:
        raise config.fail("n_recurrent_layers", "does not sum up to the layers there are")
    loops = config.integer("n_recurrent_loops", default=2, maximum=64)
    if config.text("recurrent_kv_cache_mode", default="per_loop") != "per_loop":
        loops = 1
    pattern = [(index + 1) % 4 != 0 for index in range(dims.layers)]
    windows = layer_windows(config, dims.layers, window_size(config, default=1024), default=pattern)
    middle = range(ends[0], ends[0] + looping)
    passed = [(window, index in middle) for index, window in enumerate(windows)]
    at = UNWEIGHTED.at(config)
    layers = dims.all_layers
    width = dims.heads * dims.head_dim
    return llama_like(
        config,
        dims,
        names=UNWEIGHTED,
        groups=_passes(dims, [[window] * (loops if looped else 1) for window, looped in passed]),
        **attention_bias(config),
        mlp_bias=config.boolean("mlp_bias", default=False),
        extra=[
            output_gate(at, dims, layers),
            *(
                vector(f"{at}.{name}", size, part=part, layers=layers)
                for name, size, part in (
                    ("self_attn.sqk", width, Part.ATTENTION),
                    ("self_attn.s_gate", width, Part.ATTENTION),
                    ("mlp.suv_gate", dims.intermediate, Part.MLP),
                    ("mlp.suv_up", dims.intermediate, Part.MLP),
                    ("lambda_1", dims.hidden, Part.OTHER),
                    ("lambda_2", dims.hidden, Part.OTHER),
                )
            ),
            vector(config.prefix + "lm_head.logit_scale", dims.vocab, part=Part.OTHER),
        ],
    )


@family("iquestloopcoder", architectures=("IQuestLoopCoderForCausalLM",))
def iquest_loopcoder(config: Config) -> ModelShape:
    """All layers run `loop_num` times: the first pass caches in full, each later one its last
    `loop_window_size` tokens. Sizes must be stated.
    """
    dims = read_dims(config.overlay(head_dim=None))
    loops = config.integer("loop_num", default=2, maximum=64)
    window = config.integer("loop_window_size", default=LOOP_WINDOW)
    if loops * dims.layers > MAX_LAYERS:
        raise config.fail("loop_num", f"makes more than {MAX_LAYERS} passes over layers")
    first = layer_windows(config, dims.layers, window_size(config))
    name = config.prefix + "model.gate_projections.{layer}"
    gate = linear(
        name, dims.heads, dims.head_dim, part=Part.ATTENTION, layers=dims.all_layers, bias=True
    )
    return llama_like(
        config,
        dims,
        groups=_passes(dims, [[own, *[window] * (loops - 1)] for own in first]),
        extra=[gate],
    )


@family("ouro", architectures=("OuroForCausalLM",))
def ouro(config: Config) -> ModelShape:
    """All layers run `total_ut_steps` times, each pass with a cache of its own; norms on both
    sides, and a gate that may end the passes early. Sizes must be stated.
    """
    dims = read_dims(config)
    steps = config.integer("total_ut_steps", default=4, maximum=64)
    if steps * dims.layers > MAX_LAYERS:
        raise config.fail("total_ut_steps", f"makes more than {MAX_LAYERS} passes over layers")
    windows = layer_windows(config, dims.layers, window_size(config))
    gate = linear(
        config.prefix + "model.early_exit_gate", 1, dims.hidden, part=Part.OTHER, bias=True
    )
    return llama_like(
        config,
        dims,
        names=BOTH_SIDES,
        groups=_passes(dims, [[window] * steps for window in windows]),
        extra=[gate],
    )


def _passes(dims: Dims, windows: Sequence[Sequence[int | None]]) -> tuple[LayerGroup, ...]:
    """Groups of layers that are named once for each of their passes, whose windows are given."""
    members: dict[int | None, list[int]] = {}
    for index, passes in enumerate(windows):
        for window in passes:
            members.setdefault(window, []).append(index)
    return tuple(
        LayerGroup(
            layers=tuple(layers),
            parts=(attention_part(dims, window=window),),
            num_attention_heads=dims.heads,
        )
        for window, layers in members.items()
    )
