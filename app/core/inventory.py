"""The vocabulary of weights: every parameter tensor of a model, by name, shape and use.

An entry stands for all its copies: one a layer in `layers`, `experts` of them in each. Names are
those of the published checkpoint's modules, with `{layer}` and `{expert}` where they count, since
quantised checkpoints name the modules they leave alone.
"""

from dataclasses import dataclass
from enum import StrEnum
from math import prod

from app.core.precision import Precision


class Part(StrEnum):
    """What a weight belongs to."""

    EMBEDDING = "embedding"
    ATTENTION = "attention"
    STATE = "state"
    MLP = "mlp"
    ROUTED_EXPERTS = "routed_experts"
    SHARED_EXPERTS = "shared_experts"
    ROUTER = "router"
    NORM = "norm"
    HEAD = "head"
    VISION = "vision"
    AUDIO = "audio"
    PROJECTOR = "projector"
    MTP = "mtp"
    OTHER = "other"


class Split(StrEnum):
    """What tensor parallelism does to a weight."""

    REPLICATED = "replicated"
    COLUMN = "column"
    """Rows of the (out, in) matrix are split: q, gate, up."""
    ROW = "row"
    """Columns of the (out, in) matrix are split: o, down; the bias is not."""
    KV_HEADS = "kv_heads"
    """As COLUMN, but replicated beyond `kv_heads` ranks."""
    VOCAB = "vocab"
    """The vocabulary is padded and split."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Weight:
    """One kind of parameter tensor and all its copies.

    `shape` is (out, in) for a matrix; `bias` counts the elements of a bias that goes with one
    copy. `active` says how many of `experts` one token uses. `linear` marks what quantisers touch
    (matrices of linear layers); `fused` names the engine's merged parameter it is loaded into
    (`qkv_proj`, `gate_up_proj`). `dtype` is set where it is stored in a precision of its own.
    A `buffer` is stored in the checkpoint and held by an engine but is no parameter (a router's
    correction bias, a table of hashed experts), so no count includes it.
    """

    name: str
    shape: tuple[int, ...]
    part: Part
    layers: tuple[int, ...] | None = None
    experts: int = 1
    active: int = 1
    bias: int = 0
    split: Split = Split.REPLICATED
    kv_heads: int = 0
    linear: bool = False
    fused: str | None = None
    dtype: Precision | None = None
    buffer: bool = False

    def moved(
        self, part: Part, layers: tuple[int, ...] | None = None, name: str | None = None
    ) -> "Weight":
        """The same weight counted as belonging to `part`, in other layers and under another name
        where these are given (written out: a hot path).
        """
        return Weight(
            name=self.name if name is None else name,
            shape=self.shape,
            part=part,
            layers=self.layers if layers is None else layers,
            experts=self.experts,
            active=self.active,
            bias=self.bias,
            split=self.split,
            kv_heads=self.kv_heads,
            linear=self.linear,
            fused=self.fused,
            dtype=self.dtype,
            buffer=self.buffer,
        )

    @property
    def elements(self) -> int:
        """Parameters of one copy, bias included."""
        return prod(self.shape) + self.bias

    @property
    def occurrences(self) -> int:
        """Layers it occurs in; 1 for what stands outside the layers."""
        return 1 if self.layers is None else len(self.layers)

    @property
    def total(self) -> int:
        """Parameters of all copies."""
        return self.elements * self.occurrences * self.experts


@dataclass(frozen=True, kw_only=True, slots=True)
class ParameterCount:
    """Parameters of a model, and of its parts."""

    total: int
    active: int
    by_part: dict[Part, int]


def count_parameters(weights: tuple[Weight, ...]) -> ParameterCount:
    """Parameters in total, active for one token, and by part.

    Multi-token-prediction modules are not counted: neither transformers nor a served model
    without speculation has them. Nor are buffers.
    """
    by_part: dict[Part, int] = {}
    total = active = 0
    for weight in weights:
        if weight.buffer:
            continue
        part, one_expert = weight.part, weight.elements * weight.occurrences
        here = one_expert * weight.experts
        by_part[part] = by_part.get(part, 0) + here
        if part is not Part.MTP:
            total += here
            active += one_expert * weight.active
    return ParameterCount(total=total, active=active, by_part=by_part)
