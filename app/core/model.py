"""What the arithmetic knows of a model: groups of layers that cache alike, and its weights."""

from dataclasses import dataclass
from functools import cached_property

from app.core.cache import CachePart
from app.core.inventory import ParameterCount, Weight, count_parameters
from app.core.precision import BFLOAT16, Precision


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerGroup:
    """Layers that keep the same parts; `layers` are their indices, from 0, in order; one that
    runs again and caches each pass is named once a pass.

    `num_attention_heads` are the query heads, which tensor parallelism has to divide.
    A group without parts keeps nothing (shared caches, MLP-only or skipped layers).
    """

    layers: tuple[int, ...]
    parts: tuple[CachePart, ...]
    num_attention_heads: int = 0

    @property
    def count(self) -> int:
        """Layers in the group."""
        return len(self.layers)


@dataclass(frozen=True, kw_only=True, slots=True)
class RotaryTable:
    """Cosines and sines of rotary positions, as engines keep them beside the weights: one row a
    position. In the model's precision, or in fp32 where the family's kernels want that.
    """

    rows: int
    width: int
    fp32: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelShape:
    """A model as the formulas see it. Compared by identity, so that results can be kept by it.

    `dtype` is what an engine computes and caches in, `checkpoint_dtype` what the published weights
    are stored in (None where the config does not say). `quantization` is the checkpoint's own description (a plain mapping out of its config, or
    None). `traits` are named facts that engines act on (`encoder_decoder`, `pooling`, `alibi`,
    `attention_sinks`, ...). `draft_groups` are the cache groups of multi-token-prediction modules,
    one entry a module, which exist only under speculation. `tower_widths` are numbers of vision
    and audio towers that tensor parallelism has to divide: attention heads, split outputs.
    `max_position_embeddings` is the longest sequence that engines derive from the config,
    `stated_positions` what it says itself. `rotary_tables` are what engines hold beside the weights, one entry a distinct table.
    """

    model_type: str
    architecture: str
    num_hidden_layers: int
    hidden_size: int
    vocab_size: int
    num_attention_heads: int
    groups: tuple[LayerGroup, ...]
    weights: tuple[Weight, ...]
    dtype: Precision = BFLOAT16
    checkpoint_dtype: Precision | None = None
    max_position_embeddings: int | None = None
    stated_positions: int | None = None
    tie_word_embeddings: bool = False
    draft_groups: tuple[LayerGroup, ...] = ()
    traits: frozenset[str] = frozenset()
    tower_widths: tuple[int, ...] = ()
    rotary_tables: tuple[RotaryTable, ...] = ()
    quantization: dict[str, object] | None = None
    assumptions: tuple[str, ...] = ()

    @cached_property
    def longest_context(self) -> int | None:
        """The model's own maximum: what its config states, or what engines derive where that is
        more (LongRoPE models state more than engines serve them at unless told otherwise)."""
        known = [n for n in (self.max_position_embeddings, self.stated_positions) if n is not None]
        return max(known, default=None)

    @cached_property
    def parameters(self) -> ParameterCount:
        """Parameters in total, active, and by part."""
        return count_parameters(self.weights)
