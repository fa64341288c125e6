"""Layers that keep a recurrent state: their sizes, what they keep, and their weights.

As in `common_weights`: shapes are (out, in), names those of published checkpoints, `at` the path of
a layer. Functions return nothing for no layers. What a state costs is in `app.core.recurrent`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from app.core.cache import CachePart
from app.core.inventory import Part, Split, Weight
from app.core.precision import Precision, precision
from app.core.recurrent import (
    GatedDeltaState,
    KimiDeltaState,
    Mamba1State,
    Mamba2State,
    ShortConvState,
)
from app.resolve.architectures.common_weights import linear, vector
from app.resolve.architectures.fields import Config


def state_dtype(config: Config, *names: str, default: str | None = None) -> Precision | None:
    """The precision a config states for its recurrent state; None: the model's own."""
    name = config.text(*names, default=default or "")
    return precision(name, field=f"config.{names[0]}") if name and name != "auto" else None


def small(name: str, *shape: int, layers: Sequence[int], bias: int = 0) -> Weight:
    """A parameter of the recurrence that tensor parallelism splits by channels or heads and no
    quantiser touches: a convolution, A, D, the time step's bias.
    """
    return Weight(
        name=name,
        shape=shape,
        part=Part.STATE,
        layers=tuple(layers),
        bias=bias,
        split=Split.COLUMN,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Mamba1:
    """A Mamba layer's sizes. `inner_norms` are norms on the time step, B and C (Jamba)."""

    hidden: int
    inner: int
    state: int
    kernel: int
    dt_rank: int
    bias: bool = False
    conv_bias: bool = True
    inner_norms: bool = False

    def part(self, dtype: Precision | None = None) -> CachePart:
        """What a layer keeps."""
        return Mamba1State(
            intermediate_size=self.inner,
            state_size=self.state,
            conv_kernel=self.kernel,
            state_dtype=dtype,
        )

    def weights(self, at: str, layers: Sequence[int]) -> list[Weight]:
        """All parameters of the mixers of `layers`."""
        if not layers:
            return []
        state: dict[str, Any] = {"part": Part.STATE, "layers": layers}
        column: dict[str, Any] = {"split": Split.COLUMN, **state}
        low = self.dt_rank + 2 * self.state
        inner = self.inner
        weights = [
            linear(f"{at}.in_proj", 2 * inner, self.hidden, bias=self.bias, **column),
            small(
                f"{at}.conv1d",
                inner,
                1,
                self.kernel,
                layers=layers,
                bias=inner if self.conv_bias else 0,
            ),
            linear(f"{at}.x_proj", low, inner, split=Split.ROW, **state),
            linear(f"{at}.dt_proj", inner, self.dt_rank, bias=True, **column),
            small(f"{at}.A_log", inner, self.state, layers=layers),
            small(f"{at}.D", inner, layers=layers),
            linear(f"{at}.out_proj", self.hidden, inner, bias=self.bias, split=Split.ROW, **state),
        ]
        if self.inner_norms:
            sizes = (("dt", self.dt_rank), ("b", self.state), ("c", self.state))
            weights += [
                vector(f"{at}.{name}_layernorm", size, part=Part.STATE, layers=layers)
                for name, size in sizes
            ]
        return weights


def dt_rank(config: Config, name: str, hidden: int) -> int:
    """The rank of Mamba's time step: "auto" is a sixteenth of the width."""
    return ceil(hidden / 16) if config.get(name) in (None, "auto") else config.integer(name)


def read_mamba1(config: Config, hidden: int, *, inner_norms: bool = False) -> Mamba1:
    """Mamba sizes in the spelling of Jamba and Zamba."""
    return Mamba1(
        hidden=hidden,
        inner=config.integer("mamba_expand", default=2) * hidden,
        state=config.integer("mamba_d_state", default=16),
        kernel=config.integer("mamba_d_conv", default=4),
        dt_rank=dt_rank(config, "mamba_dt_rank", hidden),
        bias=config.boolean("mamba_proj_bias", default=False),
        conv_bias=config.boolean("mamba_conv_bias", default=True),
        inner_norms=inner_norms,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Mamba2:
    """A Mamba 2 layer's sizes. `norm`: a gated norm before the output projection."""

    hidden: int
    heads: int
    head_dim: int
    groups: int
    state: int
    kernel: int
    bias: bool = False
    out_bias: bool = False
    conv_bias: bool = True
    norm: bool = True

    @property
    def inner(self) -> int:
        """Width of the mixer."""
        return self.heads * self.head_dim

    def part(self, dtype: Precision | None = None) -> CachePart:
        """What a layer keeps."""
        return Mamba2State(
            num_heads=self.heads,
            head_dim=self.head_dim,
            state_size=self.state,
            n_groups=self.groups,
            conv_kernel=self.kernel,
            state_dtype=dtype,
        )

    def weights(self, at: str, layers: Sequence[int]) -> list[Weight]:
        """All parameters of the mixers of `layers`. A single group's B and C are on every rank, so
        their rows of the input projection and the convolution are entries of their own.
        """
        if not layers:
            return []
        state: dict[str, Any] = {"part": Part.STATE, "layers": tuple(layers)}
        inner, groups = self.inner, 2 * self.groups * self.state
        weights = []
        for rows, channels, split in (
            (2 * inner + self.heads, inner, Split.COLUMN),
            (groups, groups, Split.COLUMN if self.groups > 1 else Split.REPLICATED),
        ):
            weights += [
                linear(f"{at}.in_proj", rows, self.hidden, bias=self.bias, split=split, **state),
                Weight(
                    name=f"{at}.conv1d",
                    shape=(channels, 1, self.kernel),
                    bias=channels if self.conv_bias else 0,
                    split=split,
                    **state,
                ),
            ]
        weights += [
            small(f"{at}.{name}", self.heads, layers=layers) for name in ("dt_bias", "A_log", "D")
        ]
        if self.norm:
            weights.append(small(f"{at}.norm", inner, layers=layers))
        out = linear(
            f"{at}.out_proj", self.hidden, inner, bias=self.out_bias, split=Split.ROW, **state
        )
        return [*weights, out]


def read_mamba2(
    config: Config,
    hidden: int,
    *,
    heads: int,
    groups: int,
    state: int,
    inner: int | None = None,
    out_bias: bool | None = None,
    norm: bool = True,
) -> Mamba2:
    """Mamba 2 sizes in the spelling of Bamba, Falcon-H1 and Granite (`mamba_n_heads`, ...).

    `inner` is the width where it is not `mamba_expand` x hidden; "auto" head sizes divide it.
    """
    if inner is None:
        inner = config.integer("mamba_expand", default=2) * hidden
    n_heads = config.integer("mamba_n_heads", default=heads)
    head_dim = (
        inner // n_heads
        if config.get("mamba_d_head") in (None, "auto")
        else config.integer("mamba_d_head")
    )
    if n_heads * head_dim != inner:
        raise config.fail("mamba_n_heads", f"{n_heads} heads of {head_dim} do not make {inner}")
    bias = config.boolean("mamba_proj_bias", default=False)
    return Mamba2(
        hidden=hidden,
        heads=n_heads,
        head_dim=head_dim,
        groups=config.integer("mamba_n_groups", default=groups),
        state=config.integer("mamba_d_state", default=state),
        kernel=config.integer("mamba_d_conv", default=4),
        bias=bias,
        out_bias=bias if out_bias is None else out_bias,
        conv_bias=config.boolean("mamba_conv_bias", default=True),
        norm=norm,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class DeltaNet:
    """A gated delta net's sizes."""

    hidden: int
    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    kernel: int

    @property
    def keys(self) -> int:
        """Width of all keys (and of all queries)."""
        return self.key_heads * self.key_dim

    @property
    def values(self) -> int:
        """Width of all values (and of the output gate)."""
        return self.value_heads * self.value_dim

    def part(self, dtype: Precision | None = None) -> CachePart:
        """What a layer keeps."""
        return GatedDeltaState(
            num_key_heads=self.key_heads,
            num_value_heads=self.value_heads,
            key_head_dim=self.key_dim,
            value_head_dim=self.value_dim,
            conv_kernel=self.kernel,
            state_dtype=dtype,
        )

    def weights(
        self,
        at: str,
        layers: Sequence[int],
        projections: Sequence[tuple[str, int]],
        *,
        convolutions: Sequence[tuple[str, int]] | None = None,
        norm: str = "norm",
        out: str = "out_proj",
    ) -> list[Weight]:
        """All parameters; `projections` and `convolutions` are (name, rows), as checkpoints differ
        in which of them are one matrix.
        """
        if not layers:
            return []
        common: dict[str, Any] = {"part": Part.STATE, "layers": layers}
        convs = convolutions or (("conv1d", 2 * self.keys + self.values),)
        return [
            *(
                linear(f"{at}.{name}", rows, self.hidden, split=Split.COLUMN, **common)
                for name, rows in projections
            ),
            *(small(f"{at}.{name}", rows, 1, self.kernel, layers=layers) for name, rows in convs),
            small(f"{at}.dt_bias", self.value_heads, layers=layers),
            small(f"{at}.A_log", self.value_heads, layers=layers),
            vector(f"{at}.{norm}", self.value_dim, **common),
            linear(f"{at}.{out}", self.hidden, self.values, split=Split.ROW, **common),
        ]


def read_delta_net(config: Config, hidden: int, *, heads: tuple[int, int] = (16, 32)) -> DeltaNet:
    """Gated delta net sizes in Qwen's spelling; defaults of Qwen3NextConfig."""
    return DeltaNet(
        hidden=hidden,
        key_heads=config.integer("linear_num_key_heads", default=heads[0]),
        value_heads=config.integer("linear_num_value_heads", default=heads[1]),
        key_dim=config.integer("linear_key_head_dim", default=128),
        value_dim=config.integer("linear_value_head_dim", default=128),
        kernel=config.integer("linear_conv_kernel_dim", default=4),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class KimiDelta:
    """A Kimi delta attention layer's sizes. Decay and output gate pass through a bottleneck of one
    head's width unless they have full rank.
    """

    hidden: int
    heads: int
    head_dim: int
    kernel: int
    full_rank_decay: bool = False
    full_rank_gate: bool = False

    @property
    def width(self) -> int:
        """Width of queries, keys and values each."""
        return self.heads * self.head_dim

    def part(self, dtype: Precision | None = None) -> CachePart:
        """What a layer keeps."""
        return KimiDeltaState(
            num_heads=self.heads,
            head_dim=self.head_dim,
            conv_kernel=self.kernel,
            state_dtype=dtype,
        )

    def weights(self, at: str, layers: Sequence[int]) -> list[Weight]:
        """q, k, v with a convolution each; decay and output gate a channel; beta a head."""
        if not layers:
            return []
        common: dict[str, Any] = {"part": Part.STATE, "layers": layers}
        column: dict[str, Any] = {"split": Split.COLUMN, **common}
        width, rank = self.width, self.head_dim
        gates = []
        for name, full in (("f", self.full_rank_decay), ("g", self.full_rank_gate)):
            if full:
                gates.append(linear(f"{at}.{name}_proj", width, self.hidden, **column))
            else:
                gates += [
                    linear(f"{at}.{name}_a_proj", rank, self.hidden, **common),
                    linear(f"{at}.{name}_b_proj", width, rank, **column),
                ]
        return [
            *(linear(f"{at}.{name}_proj", width, self.hidden, **column) for name in "qkv"),
            *(small(f"{at}.{name}_conv1d", width, 1, self.kernel, layers=layers) for name in "qkv"),
            small(f"{at}.A_log", self.heads, layers=layers),
            small(f"{at}.dt_bias", width, layers=layers),
            *gates,
            linear(f"{at}.b_proj", self.heads, self.hidden, **column),
            vector(f"{at}.o_norm", self.head_dim, **common),
            linear(f"{at}.o_proj", self.hidden, width, split=Split.ROW, **common),
        ]


def read_kimi_delta(config: Config, hidden: int, *, heads: int) -> KimiDelta:
    """Sizes in `linear_attn_config`, else in the `linear_*` keys beside it."""
    own = config.section("linear_attn_config")
    return KimiDelta(
        hidden=hidden,
        heads=own.optional_integer("num_heads")
        or config.integer("linear_num_heads", default=heads),
        head_dim=own.optional_integer("head_dim") or config.integer("linear_head_dim", default=128),
        kernel=own.optional_integer("short_conv_kernel_size")
        or config.integer("linear_conv_kernel_dim", default=4),
        full_rank_gate=own.boolean("use_full_rank_gate", default=False),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class ShortConv:
    """A gated short convolution's sizes."""

    hidden: int
    channels: int
    kernel: int
    bias: bool = False

    def part(self) -> CachePart:
        """What a layer keeps."""
        return ShortConvState(channels=self.channels, conv_kernel=self.kernel)

    def weights(self, at: str, layers: Sequence[int]) -> list[Weight]:
        """Input gates and values, the convolution, the output projection."""
        if not layers:
            return []
        common: dict[str, Any] = {"part": Part.STATE, "layers": layers, "bias": self.bias}
        rows = self.channels
        return [
            linear(f"{at}.in_proj", 3 * rows, self.hidden, split=Split.COLUMN, **common),
            small(f"{at}.conv", rows, 1, self.kernel, layers=layers, bias=rows if self.bias else 0),
            linear(f"{at}.out_proj", self.hidden, rows, split=Split.ROW, **common),
        ]
