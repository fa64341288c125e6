"""What families read alike: the common sizes of a config, and the shape put together from them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from app.core.cache import CachePart, FullAttention, SlidingWindow
from app.core.inventory import Weight
from app.core.model import LayerGroup, ModelShape
from app.core.precision import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, Precision, precision
from app.resolve.architectures.fields import MAX_COUNT, MAX_LAYERS, Config
from app.resolve.architectures.positions import native_length

HIDDEN = ("hidden_size", "n_embd", "n_embed", "d_model", "dim")
LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_head_kv", "n_kv_heads")
VOCAB = ("vocab_size", "padded_vocab_size")
_SIZES = (LAYERS, HIDDEN, HEADS, VOCAB)
MAX_POSITIONS = (
    "max_position_embeddings",
    "n_positions",
    "n_ctx",
    "seq_length",
    "max_seq_len",
    "max_sequence_length",
    "model_max_length",
    "context_length",
)
NO_FLOAT16 = frozenset({"gemma2", "gemma3", "gemma3_text", "glm4"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Dims:
    """The common sizes of a decoder, read once."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    max_positions: int | None
    tied: bool
    defaulted: tuple[str, ...] = ()
    """Sizes that the config does not state."""

    @property
    def all_layers(self) -> tuple[int, ...]:
        """Indices of all layers."""
        return tuple(range(self.layers))


def read_dims(
    config: Config,
    *,
    layers: int | None = None,
    hidden: int | None = None,
    heads: int | None = None,
    kv_heads: int | None = None,
    head_dim: int | None = None,
    intermediate: int | None = None,
    vocab: int | None = None,
    max_positions: int | None = None,
    tied: bool = False,
) -> Dims:
    """The common sizes in their usual spellings; keyword arguments are the class defaults.

    A missing KV head count means multi-head attention (= query heads) unless the class says
    otherwise (with a count that divides the query heads), a null one means that always; a missing
    head_dim means hidden / heads unless the class says otherwise, a null one means that always.
    """
    n_layers = config.integer(*LAYERS, default=layers, maximum=MAX_LAYERS)
    width = config.integer(*HIDDEN, default=hidden)
    n_heads = config.integer(*HEADS, default=heads)
    default_kv = n_heads
    if kv_heads and n_heads % kv_heads == 0 and KV_HEADS[0] not in config.data:
        default_kv = kv_heads
    dim = config.optional_integer("head_dim")
    if dim is None and "head_dim" not in config.data:
        dim = head_dim
    if dim is None:
        if width % n_heads:
            raise config.fail(HEADS[0], f"{n_heads} heads do not divide hidden_size {width}")
        dim = width // n_heads
    n_kv_heads = config.integer(*KV_HEADS, default=default_kv)
    if n_heads % n_kv_heads and config.has(*KV_HEADS):
        raise config.fail(KV_HEADS[0], f"{n_kv_heads} does not divide the {n_heads} query heads")
    return Dims(
        layers=n_layers,
        hidden=width,
        heads=n_heads,
        kv_heads=n_kv_heads,
        head_dim=dim,
        intermediate=config.integer("intermediate_size", default=intermediate),
        vocab=config.integer(*VOCAB, default=vocab),
        max_positions=config.optional_integer(*MAX_POSITIONS, maximum=MAX_COUNT) or max_positions,
        tied=config.boolean("tie_word_embeddings", default=tied),
        defaulted=tuple(names[0] for names in _SIZES if not config.has(*names)),
    )


def checkpoint_dtype(config: Config) -> Precision | None:
    """`dtype` or `torch_dtype` of a config ("torch.bfloat16" counts), None where unstated."""
    name = config.text("dtype", "torch_dtype", "model_dtype")
    return precision(name, field="config.dtype") if name and name != "auto" else None


def stated_quantization(config: Config) -> dict[str, Any] | None:
    """The checkpoint's own description of its quantisation, None where it is not quantised."""
    stated = config.get("quantization_config")
    if stated is not None and not isinstance(stated, dict):
        raise config.fail("quantization_config", "must be an object")
    others = (config.get(name) for name in ("compression_config", "quantization"))
    return stated or next((other for other in others if isinstance(other, dict) and other), None)


def serving_dtype(
    stored: Precision | None, *, model_type: str = "", pooling: bool = False
) -> Precision:
    """What an engine computes and caches in (vLLM's `--dtype auto`): checkpoints of fp32, and those
    that state nothing, are served in bfloat16, or in float16 where they are served for pooling.
    Models that float16 breaks are served in bfloat16 whatever they are stored in.
    """
    breaks = model_type in NO_FLOAT16
    if stored in (None, FLOAT32, FLOAT64):
        return FLOAT16 if pooling and not breaks else BFLOAT16
    return BFLOAT16 if stored is FLOAT16 and breaks else stored


def attention_part(
    dims: Dims, *, window: int | None = None, v_head_dim: int | None = None
) -> FullAttention:
    """The cache part of an ordinary attention layer, windowed where `window` is given."""
    sizes: dict[str, int] = {
        "num_key_value_heads": dims.kv_heads,
        "head_dim": dims.head_dim,
        "v_head_dim": dims.head_dim if v_head_dim is None else v_head_dim,
    }
    return FullAttention(**sizes) if window is None else SlidingWindow(**sizes, window=window)


def group_layers(
    per_layer: Sequence[tuple[CachePart, ...]], heads: int | Sequence[int]
) -> tuple[LayerGroup, ...]:
    """Layers with the same parts (and query heads) together, in order of first appearance."""
    members: dict[tuple[tuple[CachePart, ...], int], list[int]] = {}
    known: dict[tuple[int, int], list[int]] = {}  # by identity: hashing parts is slow
    for index, parts in enumerate(per_layer):
        n_heads = heads if isinstance(heads, int) else heads[index]
        layers = known.get((id(parts), n_heads))
        if layers is None:
            layers = members.setdefault((parts, n_heads), [])
            known[id(parts), n_heads] = layers
        layers.append(index)
    return tuple(
        LayerGroup(layers=tuple(layers), parts=parts, num_attention_heads=n_heads)
        for (parts, n_heads), layers in members.items()
    )


def uniform_groups(dims: Dims, *parts: CachePart) -> tuple[LayerGroup, ...]:
    """Every layer keeps the same parts."""
    return (LayerGroup(layers=dims.all_layers, parts=parts, num_attention_heads=dims.heads),)


def model_shape(
    config: Config,
    dims: Dims,
    *,
    groups: tuple[LayerGroup, ...],
    weights: Iterable[Weight],
    traits: Iterable[str] = (),
    draft_groups: tuple[LayerGroup, ...] = (),
    max_positions: int | None = None,
    assumptions: tuple[str, ...] = (),
) -> ModelShape:
    """Put a shape together from a config's own labels and what the family worked out."""
    stored = checkpoint_dtype(config)
    named = frozenset(traits)
    architectures = config.texts("architectures") or [""]
    return ModelShape(
        model_type=config.text("model_type"),
        architecture=architectures[0],
        num_hidden_layers=dims.layers,
        hidden_size=dims.hidden,
        vocab_size=dims.vocab,
        num_attention_heads=dims.heads,
        groups=groups,
        weights=tuple(weights),
        dtype=serving_dtype(
            stored, model_type=config.text("model_type"), pooling="pooling" in named
        ),
        checkpoint_dtype=stored,
        max_position_embeddings=max_positions or native_length(config, dims.max_positions),
        stated_positions=dims.max_positions,
        tie_word_embeddings=dims.tied,
        traits=named,
        draft_groups=draft_groups,
        quantization=stated_quantization(config),
        assumptions=(*assumptions, *_said_of(dims.defaulted)),
    )


def _said_of(defaulted: tuple[str, ...]) -> tuple[str, ...]:
    if not defaulted:
        return ()
    return (f"the config does not state {', '.join(defaulted)}: the class's own defaults count",)
