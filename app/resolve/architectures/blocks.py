"""Building blocks that families share: the weights of common layers, and common readings.

Each function returns `Weight` entries (shapes are (out, in)) for the layers it is given, with
module names relative to `prefix` as Hugging Face checkpoints spell them. `at` is the path of a
layer, "model.layers.{layer}" in most models.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.core.cache import CachePart, FullAttention, SlidingWindow
from app.core.inventory import Part, Split, Weight
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


# --- weights ------------------------------------------------------------------------------------


def linear(
    name: str,
    out_features: int,
    in_features: int,
    *,
    part: Part,
    layers: Sequence[int] | None = None,
    bias: bool = False,
    split: Split = Split.REPLICATED,
    kv_heads: int = 0,
    experts: int = 1,
    active: int = 1,
    fused: str | None = None,
) -> Weight:
    """One linear layer."""
    return Weight(
        name=name,
        shape=(out_features, in_features),
        part=part,
        layers=None if layers is None else tuple(layers),
        bias=out_features if bias else 0,
        split=split,
        kv_heads=kv_heads,
        experts=experts,
        active=active,
        linear=True,
        fused=fused,
    )


def vector(
    name: str,
    size: int,
    *,
    part: Part = Part.NORM,
    layers: Sequence[int] | None = None,
    bias: bool = False,
    split: Split = Split.REPLICATED,
    dtype: Precision | None = None,
) -> Weight:
    """A vector of parameters: a norm's scale (and bias), a router's correction, sinks."""
    return Weight(
        name=name,
        shape=(size,),
        part=part,
        layers=None if layers is None else tuple(layers),
        bias=size if bias else 0,
        split=split,
        dtype=dtype,
    )


def vocabulary(
    dims: Dims,
    *,
    prefix: str = "",
    embed: str = "model.embed_tokens",
    head: str = "lm_head",
    head_bias: bool = False,
) -> list[Weight]:
    """The token embedding and, where it is not tied, the output head."""
    table = Weight(
        name=prefix + embed,
        shape=(dims.vocab, dims.hidden),
        part=Part.EMBEDDING,
        split=Split.VOCAB,
    )
    if dims.tied:
        return [table]
    output = linear(
        prefix + head, dims.vocab, dims.hidden, part=Part.HEAD, bias=head_bias, split=Split.VOCAB
    )
    return [table, output]


def attention(
    at: str,
    dims: Dims,
    layers: Sequence[int],
    *,
    bias: bool = False,
    out_bias: bool = False,
    v_head_dim: int | None = None,
    names: tuple[str, str, str, str] = ("q_proj", "k_proj", "v_proj", "o_proj"),
    module: str = "self_attn",
    query_gate: bool = False,
    value_from_key: bool = False,
) -> list[Weight]:
    """Grouped-query attention: q, k, v and the output projection.

    `query_gate` doubles q's width (Qwen3-Next); `value_from_key` drops the v projection.
    """
    v_dim = dims.head_dim if v_head_dim is None else v_head_dim
    q, k, v, o = (f"{at}.{module}.{name}" for name in names)
    kv: dict[str, Any] = {"split": Split.KV_HEADS, "kv_heads": dims.kv_heads}
    common: dict[str, Any] = {"part": Part.ATTENTION, "layers": layers}
    q_width = dims.heads * dims.head_dim * (2 if query_gate else 1)
    weights = [
        linear(q, q_width, dims.hidden, bias=bias, split=Split.COLUMN, fused="qkv_proj", **common),
        linear(
            k,
            dims.kv_heads * dims.head_dim,
            dims.hidden,
            bias=bias,
            fused="qkv_proj",
            **kv,
            **common,
        ),
        linear(v, dims.kv_heads * v_dim, dims.hidden, bias=bias, fused="qkv_proj", **kv, **common),
        linear(o, dims.hidden, dims.heads * v_dim, bias=out_bias, split=Split.ROW, **common),
    ]
    if value_from_key:
        del weights[2]
    return weights


def mla_attention(
    at: str,
    dims: Dims,
    layers: Sequence[int],
    *,
    q_lora_rank: int | None,
    kv_lora_rank: int,
    qk_nope_head_dim: int,
    qk_rope_head_dim: int,
    v_head_dim: int,
    bias: bool = False,
    module: str = "self_attn",
) -> list[Weight]:
    """Multi-head latent attention (arXiv:2405.04434, section 2.1), DeepSeek's module names."""
    base = f"{at}.{module}"
    common: dict[str, Any] = {"part": Part.ATTENTION, "layers": layers}
    q_width = dims.heads * (qk_nope_head_dim + qk_rope_head_dim)
    if q_lora_rank is None:
        queries = [linear(f"{base}.q_proj", q_width, dims.hidden, split=Split.COLUMN, **common)]
    else:
        queries = [
            linear(f"{base}.q_a_proj", q_lora_rank, dims.hidden, bias=bias, **common),
            vector(f"{base}.q_a_layernorm", q_lora_rank, layers=layers),
            linear(f"{base}.q_b_proj", q_width, q_lora_rank, split=Split.COLUMN, **common),
        ]
    kv_width = dims.heads * (qk_nope_head_dim + v_head_dim)
    return [
        *queries,
        linear(
            f"{base}.kv_a_proj_with_mqa",
            kv_lora_rank + qk_rope_head_dim,
            dims.hidden,
            bias=bias,
            **common,
        ),
        vector(f"{base}.kv_a_layernorm", kv_lora_rank, layers=layers),
        linear(f"{base}.kv_b_proj", kv_width, kv_lora_rank, split=Split.COLUMN, **common),
        linear(
            f"{base}.o_proj",
            dims.hidden,
            dims.heads * v_head_dim,
            bias=bias,
            split=Split.ROW,
            **common,
        ),
    ]


def gated_mlp(
    at: str,
    hidden: int,
    intermediate: int,
    layers: Sequence[int] | None,
    *,
    bias: bool = False,
    module: str = "mlp",
    part: Part = Part.MLP,
    names: tuple[str, str, str] = ("gate_proj", "up_proj", "down_proj"),
    experts: int = 1,
    active: int = 1,
) -> list[Weight]:
    """Gate, up and down projections (SwiGLU, GeGLU); `experts` copies where it is routed."""
    gate, up, down = (f"{at}.{module}.{name}" for name in names)
    common: dict[str, Any] = {
        "part": part,
        "layers": layers,
        "bias": bias,
        "experts": experts,
        "active": active,
    }
    merged = "gate_up_proj"
    return [
        linear(gate, intermediate, hidden, split=Split.COLUMN, fused=merged, **common),
        linear(up, intermediate, hidden, split=Split.COLUMN, fused=merged, **common),
        linear(down, hidden, intermediate, split=Split.ROW, **common),
    ]


def plain_mlp(
    at: str,
    hidden: int,
    intermediate: int,
    layers: Sequence[int] | None,
    *,
    bias: bool = False,
    module: str = "mlp",
    part: Part = Part.MLP,
    names: tuple[str, str] = ("up_proj", "down_proj"),
    experts: int = 1,
    active: int = 1,
) -> list[Weight]:
    """Two projections with a pointwise activation between them."""
    up, down = (f"{at}.{module}.{name}" for name in names)
    common: dict[str, Any] = {
        "part": part,
        "layers": layers,
        "bias": bias,
        "experts": experts,
        "active": active,
    }
    return [
        linear(up, intermediate, hidden, split=Split.COLUMN, **common),
        linear(down, hidden, intermediate, split=Split.ROW, **common),
    ]


def routed_experts(
    at: str,
    hidden: int,
    intermediate: int,
    layers: Sequence[int],
    *,
    num_experts: int,
    top_k: int,
    bias: bool = False,
    module: str = "mlp.experts.{expert}",
    names: tuple[str, str, str] = ("gate_proj", "up_proj", "down_proj"),
) -> list[Weight]:
    """`num_experts` gated MLPs a layer, of which a token uses `top_k`."""
    return gated_mlp(
        at,
        hidden,
        intermediate,
        layers,
        bias=bias,
        module=module,
        part=Part.ROUTED_EXPERTS,
        names=names,
        experts=num_experts,
        active=min(top_k, num_experts),
    )


def router(
    at: str,
    hidden: int,
    num_experts: int,
    layers: Sequence[int],
    *,
    module: str = "mlp.gate",
    bias: bool = False,
) -> Weight:
    """The routing matrix; engines keep it replicated and unquantised."""
    weight = linear(
        f"{at}.{module}", num_experts, hidden, part=Part.ROUTER, layers=layers, bias=bias
    )
    return replace(weight, linear=False)


def norms(
    at: str, size: int, layers: Sequence[int], *names: str, bias: bool = False
) -> list[Weight]:
    """One norm vector a name in each layer."""
    return [vector(f"{at}.{name}", size, layers=layers, bias=bias) for name in names]
