"""BERT-like query transformers that read a tower: BLIP-2, InstructBLIP, Granite Speech."""

from collections.abc import Sequence
from typing import Any

from app.core.inventory import Part, Weight
from app.resolve.architectures.blocks_encoder import array, layer_norm
from app.resolve.architectures.common_weights import linear
from app.resolve.architectures.fields import MAX_LAYERS, Config


def qformer(config: Config, at: str, *, source: int, text_input: bool = False) -> list[Weight]:
    """Learned queries attend to each other and, every `cross_attention_frequency` layers, to
    features of width `source`; `text_input` adds an embedding and MLPs for text beside them.
    Defaults: Blip2QFormerConfig.
    """
    part = Part.PROJECTOR
    hidden = config.integer("hidden_size", default=768)
    ffn = config.integer("intermediate_size", default=3072)
    depth = config.integer("num_hidden_layers", default=12, maximum=MAX_LAYERS)
    period = config.integer("cross_attention_frequency", default=2, maximum=MAX_LAYERS)
    layers = range(depth)
    inside = f"{at}.encoder.layer.{{layer}}"
    weights = [
        *_attention(f"{inside}.attention", hidden, hidden, layers),
        *_attention(f"{inside}.crossattention", hidden, source, range(0, depth, period)),
        *_mlp(inside, ("intermediate_query", "output_query"), hidden, ffn, layers),
    ]
    if not text_input:
        return [*weights, layer_norm(f"{at}.layernorm", hidden, part=part)]
    return [
        *weights,
        *_mlp(inside, ("intermediate", "output"), hidden, ffn, layers),
        array(
            f"{at}.embeddings.word_embeddings",
            config.integer("vocab_size", default=30522),
            hidden,
            part=part,
        ),
        array(
            f"{at}.embeddings.position_embeddings",
            config.integer("max_position_embeddings", default=512),
            hidden,
            part=part,
        ),
        layer_norm(f"{at}.embeddings.layernorm", hidden, part=part),
    ]


def _attention(at: str, hidden: int, source: int, layers: Sequence[int]) -> list[Weight]:
    common: dict[str, Any] = {"part": Part.PROJECTOR, "layers": layers, "bias": True}
    return [
        linear(f"{at}.attention.query", hidden, hidden, **common),
        linear(f"{at}.attention.key", hidden, source, **common),
        linear(f"{at}.attention.value", hidden, source, **common),
        linear(f"{at}.output.dense", hidden, hidden, **common),
        layer_norm(f"{at}.output.LayerNorm", hidden, part=Part.PROJECTOR, layers=layers),
    ]


def _mlp(
    at: str, names: tuple[str, str], hidden: int, ffn: int, layers: Sequence[int]
) -> list[Weight]:
    up, down = names
    common: dict[str, Any] = {"part": Part.PROJECTOR, "layers": layers, "bias": True}
    return [
        linear(f"{at}.{up}.dense", ffn, hidden, **common),
        linear(f"{at}.{down}.dense", hidden, ffn, **common),
        layer_norm(f"{at}.{down}.LayerNorm", hidden, part=Part.PROJECTOR, layers=layers),
    ]
