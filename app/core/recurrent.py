"""The recurrent states: what a layer keeps of a sequence instead of its tokens.

Each class says what one sequence keeps in one layer on one rank, in the engine's order. Shapes are
those vLLM 0.33 allocates (`MambaStateShapeCalculator`), at any tensor-parallel size.
"""

from dataclasses import dataclass
from typing import ClassVar

from app.core.cache import CacheLayout, RecurrentState, StateArray
from app.core.parallel import split_evenly
from app.core.precision import FLOAT32


@dataclass(frozen=True, kw_only=True, slots=True)
class Mamba1State(RecurrentState):
    """Selective state space (arXiv:2312.00752): convolution tail and one state a channel."""

    kind: ClassVar[str] = "mamba1"
    intermediate_size: int
    state_size: int
    conv_kernel: int

    def arrays(self, layout: CacheLayout) -> tuple[StateArray, ...]:
        """Channels are split over ranks; speculation adds nothing to the convolution."""
        d = split_evenly(self.intermediate_size, layout.tensor_parallel_size, "intermediate_size")
        tail = (self.conv_kernel - 1) * d
        return (
            StateArray(name="conv", elements=tail, dtype=layout.model_dtype),
            self.state(layout, d * self.state_size),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Mamba2State(RecurrentState):
    """State space duality (arXiv:2405.21060): heads are split over ranks, and groups with them; a
    single group is replicated.
    """

    kind: ClassVar[str] = "mamba2"
    num_heads: int
    head_dim: int
    state_size: int
    n_groups: int
    conv_kernel: int

    def arrays(self, layout: CacheLayout) -> tuple[StateArray, ...]:
        """Convolution over x, B and C; one `head_dim x state_size` state a head."""
        tp = layout.tensor_parallel_size
        heads = split_evenly(self.num_heads, tp, "mamba num_heads")
        groups = 1 if self.n_groups == 1 else split_evenly(self.n_groups, tp, "mamba n_groups")
        width = heads * self.head_dim
        return (
            self.tail(layout, self.conv_kernel, width + 2 * groups * self.state_size),
            self.state(layout, width * self.state_size),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class GatedDeltaState(RecurrentState):
    """Gated delta net (arXiv:2412.06464; Qwen3-Next, Qwen3.5, OLMo hybrid)."""

    kind: ClassVar[str] = "gated_delta_net"
    num_key_heads: int
    num_value_heads: int
    key_head_dim: int
    value_head_dim: int
    conv_kernel: int

    def arrays(self, layout: CacheLayout) -> tuple[StateArray, ...]:
        """Convolution over q, k, v; one `value x key` matrix a value head."""
        tp = layout.tensor_parallel_size
        key_heads = split_evenly(self.num_key_heads, tp, "linear_num_key_heads")
        value_heads = split_evenly(self.num_value_heads, tp, "linear_num_value_heads")
        channels = 2 * key_heads * self.key_head_dim + value_heads * self.value_head_dim
        return (
            self.tail(layout, self.conv_kernel, channels),
            self.state(layout, value_heads * self.value_head_dim * self.key_head_dim),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class KimiDeltaState(RecurrentState):
    """Kimi delta attention (arXiv:2510.26692): three convolutions and a matrix a head, fp32 unless
    `state_dtype` says otherwise.
    """

    kind: ClassVar[str] = "kimi_delta_attention"
    num_heads: int
    head_dim: int
    conv_kernel: int

    def arrays(self, layout: CacheLayout) -> tuple[StateArray, ...]:
        """Convolutions over q, k and v; one `head_dim x head_dim` matrix a head."""
        heads = split_evenly(self.num_heads, layout.tensor_parallel_size, "kda num_heads")
        width = heads * self.head_dim
        dtype = self.state_dtype or FLOAT32
        return (
            self.tail(layout, self.conv_kernel, 3 * width),
            StateArray(name="state", elements=width * self.head_dim, dtype=dtype),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class ShortConvState(RecurrentState):
    """Gated short convolution (LFM2): only the convolution's tail. `replicated`: every rank keeps
    all channels (Qwen4's n-gram convolution).
    """

    kind: ClassVar[str] = "short_conv"
    channels: int
    conv_kernel: int
    replicated: bool = False

    def arrays(self, layout: CacheLayout) -> tuple[StateArray, ...]:
        """Channels are split over ranks."""
        tp = 1 if self.replicated else layout.tensor_parallel_size
        channels = split_evenly(self.channels, tp, "hidden_size")
        return (self.tail(layout, self.conv_kernel, channels),)


@dataclass(frozen=True, kw_only=True, slots=True)
class LightningState(RecurrentState):
    """Lightning attention (arXiv:2401.04658; MiniMax-01 and M1, Ring-linear): one matrix a head, in
    the model's precision.
    """

    kind: ClassVar[str] = "lightning_attention"
    num_heads: int
    head_dim: int

    def arrays(self, layout: CacheLayout) -> tuple[StateArray, ...]:
        """One `head_dim x head_dim` matrix a head."""
        heads = split_evenly(self.num_heads, layout.tensor_parallel_size, "num_attention_heads")
        return (self.state(layout, heads * self.head_dim * self.head_dim),)


@dataclass(frozen=True, kw_only=True, slots=True)
class UnitState(RecurrentState):
    """A recurrence of `units` equal heads or channels, each with `state_per_unit` elements of state
    and `tail_per_unit` elements in the model's precision (a convolution's tail); `shifted` elements
    in the model's precision are the same on every rank (RWKV's token shift).

    For recurrences that no engine we plan for serves (RWKV, RG-LRU, xLSTM): units are split over
    ranks as heads are.
    """

    kind: ClassVar[str] = "recurrence"
    units: int
    state_per_unit: int
    tail_per_unit: int = 0
    shifted: int = 0

    def arrays(self, layout: CacheLayout) -> tuple[StateArray, ...]:
        """Tails and shifted inputs, then states."""
        units = split_evenly(self.units, layout.tensor_parallel_size, "recurrent heads")
        tail = units * self.tail_per_unit + self.shifted
        return (
            StateArray(name="conv", elements=tail, dtype=layout.model_dtype),
            self.state(layout, units * self.state_per_unit),
        )
