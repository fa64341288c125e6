"""Weights of encoders (vision and audio towers) and of what joins them to a text model.

Towers keep no cache: they only weigh. As elsewhere shapes are (out, in), `at` is the path of the
thing, layers are counted by "{layer}" in it. Every weight takes the `part` it is counted under.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app.core.inventory import Part, Split, Weight
from app.resolve.architectures.common_weights import linear, vector
from app.resolve.architectures.fields import MAX_LAYERS, Config

PLAIN_NORMS = ("layer_norm1", "layer_norm2")
SPLIT_QKV = ("q_proj", "k_proj", "v_proj", "out_proj")
ALL_BIASES = (True, True, True, True)
NO_BIASES = (False, False, False, False)
GATED = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Tower:
    """The common sizes of an encoder. `rows` and `columns` count patches of one image."""

    layers: int
    hidden: int
    heads: int
    intermediate: int
    patch: int
    rows: int
    columns: int
    channels: int

    @property
    def all_layers(self) -> tuple[int, ...]:
        """Indices of all layers."""
        return tuple(range(self.layers))

    @property
    def patches(self) -> int:
        """Patches of one image."""
        return self.rows * self.columns


def read_tower(
    config: Config,
    *,
    layers: int | None = None,
    hidden: int | None = None,
    heads: int | None = None,
    intermediate: int | None = None,
    image: int = 224,
    patch: int = 14,
    channels: int = 3,
) -> Tower:
    """The sizes in their usual spellings; keyword arguments are the class defaults.

    Without an intermediate size, `mlp_ratio` times the width where the config has one.
    """
    width = config.integer("hidden_size", "embed_dim", "width", "d_model", default=hidden)
    depth = config.integer(
        "num_hidden_layers", "depth", "layers", "encoder_layers", default=layers, maximum=MAX_LAYERS
    )
    if not config.has("intermediate_size") and config.has("mlp_ratio"):
        intermediate = int(width * config.number("mlp_ratio", default=4.0, maximum=64.0))
    side = _side(config, "patch_size", patch)
    return Tower(
        layers=depth,
        hidden=width,
        heads=config.integer("num_attention_heads", "num_heads", "heads", default=heads),
        intermediate=config.integer("intermediate_size", default=intermediate),
        patch=side,
        rows=_side(config, "image_size", image) // side,
        columns=_side(config, "image_size", image, last=True) // side,
        channels=config.integer("num_channels", "in_channels", "in_chans", default=channels),
    )


def _side(config: Config, name: str, default: int, *, last: bool = False) -> int:
    if isinstance(config.get(name), list | tuple):
        sides = config.integers(name, minimum=1, maximum=2**16)
        if not sides:
            raise config.fail(name, "must not be empty")
        return sides[-1 if last else 0]
    return config.integer(name, default=default, maximum=2**16)


def array(
    name: str, *shape: int, part: Part, layers: Sequence[int] | None = None, bias: int = 0
) -> Weight:
    """Any tensor that is no matrix of a linear layer: an embedding, a convolution, a scale."""
    placed = None if layers is None else tuple(layers)
    return Weight(name=name, shape=shape, part=part, layers=placed, bias=bias)


def conv(
    name: str,
    out_channels: int,
    in_channels: int,
    *kernel: int,
    part: Part,
    layers: Sequence[int] | None = None,
    bias: bool = True,
) -> Weight:
    """A convolution."""
    counted = out_channels if bias else 0
    return array(name, out_channels, in_channels, *kernel, part=part, layers=layers, bias=counted)


def patch_conv(
    name: str, tower: Tower, *, part: Part = Part.VISION, frames: int = 1, bias: bool = True
) -> Weight:
    """The convolution that turns pixels into patches."""
    kernel = (tower.patch, tower.patch) if frames == 1 else (frames, tower.patch, tower.patch)
    return conv(name, tower.hidden, tower.channels, *kernel, part=part, bias=bias)


def encoder_layers(
    at: str,
    hidden: int,
    intermediate: int,
    layers: Sequence[int],
    *,
    part: Part = Part.VISION,
    attention: str = "self_attn",
    qkvo: tuple[str, ...] = SPLIT_QKV,
    width: int | None = None,
    kv_width: int | None = None,
    biases: tuple[bool, bool, bool, bool] = ALL_BIASES,
    mlp: tuple[str, ...] = ("mlp.fc1", "mlp.fc2"),
    mlp_bias: bool = True,
    norms: tuple[str, ...] = PLAIN_NORMS,
    norm_bias: bool = True,
    qk_norms: tuple[str, ...] = (),
    qk_norm_size: int = 0,
    scales: tuple[str, ...] = (),
) -> list[Weight]:
    """Layers of a bidirectional transformer.

    `qkvo` has two names where one matrix holds q, k and v; `mlp` has three where it is gated;
    `scales` are layer scales of full width.
    """
    q_width = hidden if width is None else width
    kv = q_width if kv_width is None else kv_width
    inside = f"{at}.{attention}" if attention else at
    common: dict[str, Any] = {"part": part, "layers": layers}
    column: dict[str, Any] = {**common, "split": Split.COLUMN}
    row: dict[str, Any] = {**common, "split": Split.ROW}
    if len(qkvo) == 2:
        weights = [
            linear(f"{inside}.{qkvo[0]}", q_width + 2 * kv, hidden, bias=biases[0], **column)
        ]
    else:
        sizes = zip(qkvo[:3], (q_width, kv, kv), biases[:3], strict=True)
        weights = [
            linear(f"{inside}.{name}", size, hidden, bias=bias, fused="qkv_proj", **column)
            for name, size, bias in sizes
        ]
    weights.append(linear(f"{inside}.{qkvo[-1]}", hidden, q_width, bias=biases[3], **row))
    weights += mlp_layers(at, hidden, intermediate, layers, part=part, names=mlp, bias=mlp_bias)
    weights += [
        vector(f"{at}.{name}", hidden, layers=layers, bias=norm_bias, part=part) for name in norms
    ]
    weights += [
        vector(f"{inside}.{name}", qk_norm_size, layers=layers, part=part) for name in qk_norms
    ]
    weights += [vector(f"{at}.{name}", hidden, layers=layers, part=part) for name in scales]
    return weights


def mlp_layers(
    at: str,
    hidden: int,
    intermediate: int,
    layers: Sequence[int] | None,
    *,
    part: Part,
    names: tuple[str, ...],
    bias: bool = True,
) -> list[Weight]:
    """An MLP: up and down, or gate, up and down."""
    common: dict[str, Any] = {"part": part, "layers": layers, "bias": bias}
    *ups, down = names
    fused = "gate_up_proj" if len(names) == GATED else None
    return [
        *(
            linear(f"{at}.{up}", intermediate, hidden, split=Split.COLUMN, fused=fused, **common)
            for up in ups
        ),
        linear(f"{at}.{down}", hidden, intermediate, split=Split.ROW, **common),
    ]


def dense_chain(
    at: str,
    *steps: tuple[str, int, int],
    part: Part = Part.PROJECTOR,
    bias: bool = True,
    layers: Sequence[int] | None = None,
) -> list[Weight]:
    """Linear layers one after another: (name, out, in) each."""
    return [
        linear(f"{at}.{name}", out, into, part=part, bias=bias, layers=layers)
        for name, out, into in steps
    ]


def layer_norm(
    name: str, size: int, *, part: Part, bias: bool = True, layers: Sequence[int] | None = None
) -> Weight:
    """A norm of a tower or projector."""
    return vector(name, size, part=part, bias=bias, layers=layers)


def attention_pool(at: str, hidden: int, intermediate: int, *, part: Part) -> list[Weight]:
    """SigLIP's pooling head: one learned query attends to all patches, then an MLP."""
    return [
        array(f"{at}.probe", 1, 1, hidden, part=part),
        *multihead(f"{at}.attention", hidden, part=part),
        layer_norm(f"{at}.layernorm", hidden, part=part),
        *mlp_layers(at, hidden, intermediate, None, part=part, names=("mlp.fc1", "mlp.fc2")),
    ]


def multihead(at: str, hidden: int, *, part: Part, bias: bool = True) -> list[Weight]:
    """PyTorch's own multi-head attention: one input matrix for q, k and v."""
    counted = 3 * hidden if bias else 0
    return [
        array(f"{at}.in_proj", 3 * hidden, hidden, part=part, bias=counted),
        linear(f"{at}.out_proj", hidden, hidden, part=part, bias=bias),
    ]


def mlp_projector(
    at: str, width: int, out: int, *, bias: bool = True, inner: int | None = None
) -> list[Weight]:
    """Two linear layers with an activation between them, as LLaVA has them."""
    middle = out if inner is None else inner
    return dense_chain(at, ("linear_1", middle, width), ("linear_2", out, middle), bias=bias)


def feature_layers(config: Config, default: int) -> int:
    """How many of a tower's layers are read side by side (`vision_feature_layer`)."""
    stated = config.get("vision_feature_layer")
    if isinstance(stated, list | tuple):
        return max(1, min(len(stated), MAX_LAYERS))
    return default if stated is None else 1
