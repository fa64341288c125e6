"""What vLLM reads off a model before it plans: which kinds of layers there are, and how wide.

Worked out once a shape; the rest of the planning asks these facts instead of the layers.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from app.core.cache import (
    CachePart,
    ChunkedLocal,
    CompressedLatent,
    CrossAttention,
    FullAttention,
    MlaLatent,
    RecurrentState,
    SparseIndexer,
    WindowedLatent,
)
from app.core.inventory import Part, Split
from app.core.model import LayerGroup, ModelShape

ATTENTION_FREE = frozenset({"mamba", "mamba2", "falcon_mamba"})
"""Model types of classes that the engine calls attention-free: no prefix caching by default."""
IGNORING_CACHE_DTYPE = frozenset({"falcon", "RefinedWeb", "RefinedWebModel"})
"""Model types whose attention is built without the cache's settings (`falcon.py`)."""
UNDIVIDED_TOWERS = frozenset(
    {
        "deepseek_v4",
        "diffusion_gemma",
        "gemma3n",
        "gemma4",
        "gemma4_unified",
        "interns1",
        "internvl",
        "internvl_chat",
        "kimi_k25",
        "kimi_k3",
        "muse_glimmer",
    }
)
"""Model types whose vision towers every rank runs whole, at least where heads do not divide."""
GEMMA4 = ("gemma4", "diffusion_gemma", "embedding_gemma2")
"""Model types whose class asks for one FlashAttention version over mixed head widths."""

CachedLayers = tuple[tuple[CachePart, tuple[int, ...]], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """A model as vLLM's planning sees it.

    Attributes:
        layers: Cached parts with the layers that have them, in order of first appearance.
        drafts: The same for prediction modules, numbered after the layers.
        attention: Parts served by ordinary attention backends.
        head_dim: Widest key head, which the engine takes for the model's.
        split_widths: Widths that tensor parallelism divides, each with a module that has it.
    """

    layers: CachedLayers
    drafts: CachedLayers
    attention: tuple[FullAttention, ...]
    latents: tuple[MlaLatent, ...]
    states: tuple[RecurrentState, ...]
    head_dim: int
    mixed_head_dims: bool
    sparse: bool
    index_keys_in_model_dtype: bool
    compressed: bool
    chunked: bool
    attention_free: bool
    pooling: bool
    encoder_decoder: bool
    alibi: bool
    sinks: bool
    prefix_lm: bool
    diffusion: bool
    ignores_cache_dtype: bool
    max_item_tokens: int
    split_widths: tuple[tuple[int, str], ...]

    @property
    def is_hybrid(self) -> bool:
        """Recurrent states in a class that is not attention-free."""
        return bool(self.states) and not self.attention_free


GENERATING_MODELS = frozenset(
    {"LlamaModel", "MistralModel", "Qwen2Model", "ChatGLMModel", "GPT2LMHeadModel", "Gemma2Model"}
)
"""Class names without a head that the engine maps to a generating class all the same."""
GEMMA4_VIDEO_TOKENS = 32 * (70 + 2 + 6)
"""32 frames of 70 tokens, with their marks (`gemma4_mm.py`): the largest item of a request."""


@lru_cache(maxsize=512)
def model_facts(shape: ModelShape) -> Facts:
    """The facts of a shape; shapes are compared by identity, so each is read once."""
    layers = _cached(shape.groups)
    drafts = _cached(
        LayerGroup(
            layers=tuple(shape.num_hidden_layers + index for _ in group.layers),
            parts=group.parts,
            num_attention_heads=group.num_attention_heads,
        )
        for index, group in enumerate(shape.draft_groups)
    )
    parts = [part for part, _ in layers]
    attention = tuple(part for part in parts if isinstance(part, FullAttention))
    widths = {part.head_dim for part in attention}
    traits = shape.traits
    gemma4 = shape.model_type.startswith(GEMMA4)
    prefix_lm = "prefix_lm" in traits
    return Facts(
        layers=layers,
        drafts=drafts,
        attention=attention,
        latents=tuple(part for part in parts if isinstance(part, MlaLatent)),
        states=tuple(part for part in parts if isinstance(part, RecurrentState)),
        head_dim=max(widths, default=0),
        mixed_head_dims=gemma4 and len(widths) > 1,
        sparse=any(isinstance(part, SparseIndexer) and part.quantised for part in parts),
        index_keys_in_model_dtype=any(
            isinstance(part, SparseIndexer) and not part.quantised for part in parts
        ),
        compressed=any(isinstance(part, CompressedLatent | WindowedLatent) for part in parts),
        chunked=any(isinstance(part, ChunkedLocal) for part in parts),
        attention_free=shape.model_type in ATTENTION_FREE,
        pooling="pooling" in traits and shape.architecture not in GENERATING_MODELS,
        encoder_decoder="encoder_decoder" in traits
        or any(isinstance(part, CrossAttention) for part in parts),
        alibi="alibi" in traits,
        sinks="attention_sinks" in traits,
        prefix_lm=prefix_lm,
        diffusion="block_diffusion" in traits,
        ignores_cache_dtype=shape.model_type in IGNORING_CACHE_DTYPE,
        max_item_tokens=GEMMA4_VIDEO_TOKENS
        if gemma4 and prefix_lm and "multimodal" in traits
        else 0,
        split_widths=_split_widths(shape),
    )


def _split_widths(shape: ModelShape) -> tuple[tuple[int, str], ...]:
    """Outputs of column-parallel and inputs of row-parallel matrices, each width once. Towers for
    sound run whole; so do some for pictures.
    """
    widths: dict[int, str] = {}
    whole_vision = shape.model_type in UNDIVIDED_TOWERS
    for weight in shape.weights:
        towers = weight.part is Part.AUDIO or (whole_vision and weight.part is Part.VISION)
        if not weight.linear or towers or weight.part is Part.MTP:
            continue
        if weight.split is Split.COLUMN:
            widths.setdefault(weight.shape[0], weight.name)
        elif weight.split is Split.ROW:
            widths.setdefault(weight.shape[-1], weight.name)
    if not whole_vision:
        widths |= dict.fromkeys(shape.tower_widths, "a vision or audio tower's attention")
    return tuple(widths.items())


def _cached(groups: Iterable[LayerGroup]) -> CachedLayers:
    """Parts that keep anything, in the order in which layers come and parts stand in them."""
    found: dict[CachePart, list[int]] = {}
    first: dict[CachePart, tuple[int, int]] = {}
    for group in groups:
        if not group.layers:
            continue
        for position, part in enumerate(group.parts):
            found.setdefault(part, []).extend(group.layers)
            start = (min(group.layers), position)
            first[part] = min(first.get(part, start), start)
    order = sorted(found, key=first.__getitem__)
    return tuple((part, tuple(sorted(found[part]))) for part in order)
