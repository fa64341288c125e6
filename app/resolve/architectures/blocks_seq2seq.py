"""Encoder-decoders: a decoder caches its own tokens and, once, the keys and values of what the
encoder made of the input.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app.core.cache import CachePart, CrossAttention, FullAttention
from app.core.inventory import Part, Split, Weight
from app.core.model import LayerGroup, ModelShape
from app.resolve.architectures.common_shape import Dims, model_shape
from app.resolve.architectures.common_weights import linear, vector
from app.resolve.architectures.fields import MAX_LAYERS, Config
from app.resolve.architectures.llama_like import ENCODER_ONLY, uncached
from app.resolve.architectures.task_heads import ENCODER_DECODER, POOLING, SENTENCE, ends

SELF = ("q_proj", "k_proj", "v_proj", "out_proj")


@dataclass(frozen=True, kw_only=True, slots=True)
class Stack:
    """One side: its layers, heads, head size and MLP width."""

    layers: int
    heads: int
    head_dim: int
    ffn: int

    @property
    def all_layers(self) -> tuple[int, ...]:
        """Indices of all layers."""
        return tuple(range(self.layers))


def read_stack(
    config: Config, side: str, width: int, *, layers: int, heads: int, ffn: int
) -> Stack:
    """`{side}_layers`, `{side}_attention_heads` and `{side}_ffn_dim`, as BART and its kin have
    them.
    """
    n_heads = config.integer(f"{side}_attention_heads", default=heads)
    if width % n_heads:
        raise config.fail(f"{side}_attention_heads", f"{n_heads} heads do not divide {width}")
    return Stack(
        layers=config.integer(f"{side}_layers", default=layers, maximum=MAX_LAYERS),
        heads=n_heads,
        head_dim=width // n_heads,
        ffn=config.integer(f"{side}_ffn_dim", default=ffn),
    )


def has_sides(config: Config) -> tuple[bool, bool]:
    """Whether a class has an encoder, and a decoder: `...EncoderModel` is the first alone,
    `...ForCausalLM` the second (with the layers that would look at an encoder).
    """
    return not ends(config, "ForCausalLM"), not ends(config, "EncoderModel")


def sentence_layer(config: Config, width: int) -> list[Weight]:
    """The layer before a sentence's labels, where the class gives it any."""
    if not ends(config, SENTENCE):
        return []
    return [linear("classification_head.dense", width, width, part=Part.OTHER, bias=True)]


def decoder_groups(
    stack: Stack, encoder_tokens: int, *, kv_heads: int = 0
) -> tuple[LayerGroup, ...]:
    """Every decoder layer keeps its own tokens and `encoder_tokens` (0: there is no encoder) of the
    encoder's output.
    """
    sizes = {
        "num_key_value_heads": kv_heads or stack.heads,
        "head_dim": stack.head_dim,
        "v_head_dim": stack.head_dim,
    }
    parts: tuple[CachePart, ...] = (FullAttention(**sizes),)
    if encoder_tokens:
        parts = (*parts, CrossAttention(**sizes, encoder_tokens=encoder_tokens))
    return (LayerGroup(layers=stack.all_layers, parts=parts, num_attention_heads=stack.heads),)


def attention_weights(
    at: str,
    width: int,
    inner: int,
    layers: Sequence[int],
    *,
    names: tuple[str, str, str, str] = SELF,
    bias: bool = True,
    key_bias: bool | None = None,
    source: int | None = None,
    kv_inner: int | None = None,
) -> list[Weight]:
    """q, k, v and output; `source` is the width k and v are made of where it is another."""
    q, k, v, o = (f"{at}.{name}" for name in names)
    column: dict[str, Any] = {"part": Part.ATTENTION, "layers": layers, "split": Split.COLUMN}
    row: dict[str, Any] = {"part": Part.ATTENTION, "layers": layers, "split": Split.ROW}
    made_of = width if source is None else source
    kv = inner if kv_inner is None else kv_inner
    return [
        linear(q, inner, width, bias=bias, fused="qkv_proj", **column),
        linear(k, kv, made_of, bias=bias if key_bias is None else key_bias, **column),
        linear(v, kv, made_of, bias=bias, fused="qkv_proj", **column),
        linear(o, width, inner, bias=bias, **row),
    ]


def bart_layers(
    at: str, stack: Stack, width: int, *, cross: bool, key_bias: bool = True
) -> list[Weight]:
    """Layers as BART names them; the decoder's have `encoder_attn` too."""
    layers = stack.all_layers
    inner = stack.heads * stack.head_dim
    inside = f"{at}.layers.{{layer}}"
    modules = ("self_attn", "encoder_attn") if cross else ("self_attn",)
    norms = [f"{module}_layer_norm" for module in modules] + ["final_layer_norm"]
    weights = []
    for module in modules:
        weights += attention_weights(f"{inside}.{module}", width, inner, layers, key_bias=key_bias)
    common: dict[str, Any] = {"part": Part.MLP, "layers": layers, "bias": True}
    return [
        *weights,
        linear(f"{inside}.fc1", stack.ffn, width, split=Split.COLUMN, **common),
        linear(f"{inside}.fc2", width, stack.ffn, split=Split.ROW, **common),
        *(vector(f"{inside}.{name}", width, layers=layers, bias=True) for name in norms),
    ]


def seq2seq_shape(
    config: Config,
    decoder: Stack,
    weights: list[Weight],
    *,
    width: int,
    vocab: int,
    encoder_tokens: int,
    max_positions: int | None,
    tied: bool,
    kv_heads: int = 0,
    traits: tuple[str, ...] = (ENCODER_DECODER,),
    assumptions: tuple[str, ...] = (),
) -> ModelShape:
    """The shape of the decoder, with all weights. Without an encoder (0 tokens of it) the decoder
    keeps only its own.
    """
    dims = stack_dims(decoder, width, vocab, max_positions, kv_heads=kv_heads, tied=tied)
    return model_shape(
        config,
        dims,
        groups=decoder_groups(decoder, encoder_tokens, kv_heads=kv_heads),
        weights=weights,
        traits=traits if encoder_tokens else (),
        assumptions=assumptions if encoder_tokens else (),
    )


def encoder_shape(config: Config, dims: Dims, weights: list[Weight]) -> ModelShape:
    """The shape of an encoder by itself, which caches nothing."""
    traits = (ENCODER_ONLY, POOLING)
    return model_shape(config, dims, groups=uncached(dims), weights=weights, traits=traits)


def stack_dims(
    stack: Stack,
    width: int,
    vocab: int,
    max_positions: int | None,
    *,
    tied: bool = True,
    kv_heads: int = 0,
) -> Dims:
    """The sizes of one side as those of a model."""
    return Dims(
        layers=stack.layers,
        hidden=width,
        heads=stack.heads,
        kv_heads=kv_heads or stack.heads,
        head_dim=stack.head_dim,
        intermediate=stack.ffn,
        vocab=vocab,
        max_positions=max_positions,
        tied=tied,
    )
