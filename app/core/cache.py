"""The vocabulary of cache parts: what one layer keeps for one sequence.

A part is a frozen fact about an architecture. Given a `CacheLayout` (how the model is deployed)
it says how many bytes one token adds on one rank and what it keeps whatever the length; by
itself, up to which context it grows. Bytes here are content: what the tokens themselves need.
What an engine reserves on top (blocks, padding, tokens in flight) is worked out in
`app.core.engines` from the same parts.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import ceil
from typing import ClassVar

from app.core.parallel import kv_heads_per_rank
from app.core.precision import BFLOAT16, Precision


@dataclass(frozen=True, kw_only=True, slots=True)
class CacheLayout:
    """What a deployment decides about the bytes of a cache, on one rank."""

    tensor_parallel_size: int = 1
    attention_dtype: Precision = BFLOAT16
    model_dtype: Precision = BFLOAT16
    num_speculative_tokens: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class CachePart(ABC):
    """One thing a layer keeps. Without overrides: nothing that grows, nothing that is fixed."""

    kind: ClassVar[str]

    def bytes_per_token(self, layout: CacheLayout) -> int:
        """Bytes one kept token takes in one layer on one rank."""
        return 0

    def fixed_bytes(self, layout: CacheLayout) -> int:
        """Bytes one sequence takes in one layer on one rank whatever its length."""
        return 0

    @property
    def limit(self) -> int | None:
        """Context from which the part stops growing, or None where it never does."""
        return None

    @property
    def stride(self) -> int:
        """Tokens that share one stored entry (compressed caches), else 1."""
        return 1


@dataclass(frozen=True, kw_only=True, slots=True)
class FullAttention(CachePart):
    """K and V of every token. `v_head_dim` differs from `head_dim` in a few models (MiMo-V2)."""

    kind: ClassVar[str] = "full_attention"
    num_key_value_heads: int
    head_dim: int
    v_head_dim: int

    def bytes_per_token(self, layout: CacheLayout) -> int:
        """KV heads of the rank x (K width + V width) x bytes an element."""
        heads = kv_heads_per_rank(self.num_key_value_heads, layout.tensor_parallel_size)
        elements = heads * (self.head_dim + self.v_head_dim)
        return ceil(elements * layout.attention_dtype.bytes_per_element)


@dataclass(frozen=True, kw_only=True, slots=True)
class SlidingWindow(FullAttention):
    """K and V of the last `window` tokens."""

    kind: ClassVar[str] = "sliding_window"
    window: int

    @property
    def limit(self) -> int | None:
        """The window."""
        return self.window


@dataclass(frozen=True, kw_only=True, slots=True)
class ConvWindow(CachePart):
    """Inputs of a layer's short convolutions for the last `window` tokens (Inkling): `width`
    elements a KV head, always in the model's precision.
    """

    kind: ClassVar[str] = "conv_window"
    num_key_value_heads: int
    width: int
    window: int

    @property
    def padded_width(self) -> int:
        """The width as an engine stores it: the next power of two."""
        return 1 << (self.width - 1).bit_length()

    def bytes_per_token(self, layout: CacheLayout) -> int:
        """KV heads of the rank x width x bytes an element."""
        heads = kv_heads_per_rank(self.num_key_value_heads, layout.tensor_parallel_size)
        return ceil(heads * self.width * layout.model_dtype.bytes_per_element)

    @property
    def limit(self) -> int | None:
        """The window."""
        return self.window


@dataclass(frozen=True, kw_only=True, slots=True)
class ChunkedLocal(FullAttention):
    """K and V of the current chunk (Llama 4): at most `chunk` tokens; the peak is counted."""

    kind: ClassVar[str] = "chunked_local"
    chunk: int

    @property
    def limit(self) -> int | None:
        """The chunk."""
        return self.chunk


@dataclass(frozen=True, kw_only=True, slots=True)
class MlaLatent(CachePart):
    """Multi-head latent attention: one compressed vector a token, the same on every rank.

    DeepSeek-V2 (arXiv:2405.04434) section 2.1: `kv_lora_rank` for K and V together and
    `qk_rope_head_dim` for the decoupled rotary key. `qk_nope_head_dim`, a head's part of the key
    without rotation, is not cached; kernels are chosen by it.
    """

    kind: ClassVar[str] = "mla"
    kv_lora_rank: int
    qk_rope_head_dim: int
    qk_nope_head_dim: int = 128

    def bytes_per_token(self, layout: CacheLayout) -> int:
        """(latent + rotary key) x bytes an element; tensor parallelism does not divide it."""
        elements = self.kv_lora_rank + self.qk_rope_head_dim
        return ceil(elements * layout.attention_dtype.bytes_per_element)


@dataclass(frozen=True, kw_only=True, slots=True)
class SparseIndexer(CachePart):
    """Keys of a sparse-attention indexer: one small vector a token, the same on every rank.

    DeepSeek-V3.2 and GLM-5 keep 8-bit keys with one fp32 scale per 128 (`scale_bytes_per_token`);
    MiniMax-M3 keeps the model's precision (`quantised` false). The cache precision the caller
    asks for changes neither.
    """

    kind: ClassVar[str] = "sparse_indexer"
    index_head_dim: int
    quantised: bool

    def bytes_per_token(self, layout: CacheLayout) -> int:
        """One key, with its scales where it is quantised."""
        if self.quantised:
            return self.index_head_dim + 4 * ceil(self.index_head_dim / 128)
        return ceil(self.index_head_dim * layout.model_dtype.bytes_per_element)


@dataclass(frozen=True, kw_only=True, slots=True)
class PooledIndexer(CachePart):
    """Index keys pooled over `pool` tokens (GLM-5.3-Flash, Qwen4): one key of `entry_bytes` a pool,
    and `open_token_bytes` for every token of the unfinished pool. The cache precision the caller
    asks for changes neither.
    """

    kind: ClassVar[str] = "pooled_indexer"
    pool: int
    entry_bytes: int
    open_token_bytes: int

    def bytes_per_token(self, layout: CacheLayout) -> int:
        """One pooled key."""
        return self.entry_bytes

    def fixed_bytes(self, layout: CacheLayout) -> int:
        """Room for one unfinished pool."""
        return self.pool * self.open_token_bytes

    @property
    def stride(self) -> int:
        """Tokens a pool."""
        return self.pool


@dataclass(frozen=True, kw_only=True, slots=True)
class CompressedLatent(CachePart):
    """DeepSeek-V4: one stored entry per `compress_ratio` tokens, its bytes fixed by the format.

    The main cache takes `entry_bytes` 584 (448 fp8 + 64 bf16 rotary + 8 scale bytes), the
    indexer 132. The last, unfinished group of tokens has no entry yet.
    """

    kind: ClassVar[str] = "compressed_latent"
    compress_ratio: int
    entry_bytes: int
    indexer: bool = False

    def bytes_per_token(self, layout: CacheLayout) -> int:
        """Bytes of one stored entry."""
        return self.entry_bytes

    @property
    def stride(self) -> int:
        """Tokens an entry."""
        return self.compress_ratio


@dataclass(frozen=True, kw_only=True, slots=True)
class WindowedLatent(CachePart):
    """A latent of fixed format kept for the last `window` tokens (DeepSeek-V4's local layers and
    the fp32 states its compressors carry).
    """

    kind: ClassVar[str] = "windowed_latent"
    window: int
    entry_bytes: int
    compressor: bool = False

    def bytes_per_token(self, layout: CacheLayout) -> int:
        """Bytes of one stored entry."""
        return self.entry_bytes

    @property
    def limit(self) -> int | None:
        """The window."""
        return self.window


@dataclass(frozen=True, kw_only=True, slots=True)
class CrossAttention(FullAttention):
    """K and V of the encoder's output: fixed by the encoder's length, not by the context."""

    kind: ClassVar[str] = "cross_attention"
    encoder_tokens: int

    def fixed_bytes(self, layout: CacheLayout) -> int:
        """K and V of every encoder position."""
        return self.encoder_tokens * FullAttention.bytes_per_token(self, layout)

    @property
    def limit(self) -> int | None:
        """It never grows."""
        return 0


@dataclass(frozen=True, kw_only=True, slots=True)
class StateArray:
    """One array of a recurrent state: elements on one rank and their precision."""

    name: str
    elements: int
    dtype: Precision

    @property
    def bytes(self) -> int:
        """Bytes of the array."""
        return ceil(self.elements * self.dtype.bytes_per_element)


@dataclass(frozen=True, kw_only=True, slots=True)
class RecurrentState(CachePart):
    """A state of fixed size. Cache quantisation never touches it; `state_dtype` None means the
    model's own precision. Convolution tails are kept in the model's precision.
    """

    state_dtype: Precision | None = None

    @abstractmethod
    def arrays(self, layout: CacheLayout) -> tuple[StateArray, ...]:
        """The arrays one sequence keeps in one layer on one rank, in the engine's order."""

    def fixed_bytes(self, layout: CacheLayout) -> int:
        """All arrays together."""
        return sum(array.bytes for array in self.arrays(layout))

    @property
    def limit(self) -> int | None:
        """It never grows."""
        return 0

    def tail(self, layout: CacheLayout, kernel: int, channels: int) -> StateArray:
        """Inputs a causal convolution looks back on, and one more for each drafted token."""
        length = kernel - 1 + layout.num_speculative_tokens
        return StateArray(name="conv", elements=length * channels, dtype=layout.model_dtype)

    def state(self, layout: CacheLayout, elements: int) -> StateArray:
        """The recurrence itself, in `state_dtype`."""
        dtype = self.state_dtype or layout.model_dtype
        return StateArray(name="state", elements=elements, dtype=dtype)
