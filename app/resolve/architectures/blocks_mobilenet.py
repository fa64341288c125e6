"""MobileNet-V5, the convolutional image encoder of Gemma 3n (timm's `mobilenetv5_300m_enc`)."""

from collections.abc import Iterator
from functools import cache

from app.core.inventory import Part, Weight

CHANNELS = (64, 128, 256, 640, 1280)
ATTENTION_BLOCKS = ((640, 12, 64, 14, 2), (1280, 16, 96, 19, 1))
FUSED = 1920
OUT = 2048

Row = tuple[str, tuple[int, ...], int]


@cache
def mobilenet_v5(at: str) -> tuple[Weight, ...]:
    """All its tensors, alike ones together: convolutions, batch norms, layer scales."""
    return tuple(
        Weight(name=f"{at}.{name}", shape=shape, part=Part.VISION, layers=tuple(range(copies)))
        for name, shape, copies in _rows()
    )


def _rows() -> Iterator[Row]:
    stem, first, second, third, fourth = CHANNELS
    yield "conv_stem.conv", (stem, 3, 3, 3), 1
    yield "conv_stem.conv_bias_and_bn", (2 * stem,), 1
    yield from _edge(stem, 4 * stem, first, 1)
    yield from _edge(first, 4 * first, first, 2)
    # Each stage opens with a strided block (two depthwise convolutions), then plain ones.
    yield from _inverted(first, 6 * first, second, 1, start=3, middle=5)
    yield from _inverted(second, 4 * second, second, 3, start=5)
    yield from _inverted(second, 4 * second, second, 1, start=3)
    yield from _inverted(second, 6 * second, third, 1, start=3, middle=5)
    yield from _inverted(third, 4 * third, third, 7, start=5)
    yield from _inverted(third, third, third, 1)
    yield from _inverted(third, 2 * third, third, 14)
    yield from _inverted(third, 6 * third, fourth, 1, start=5, middle=5)
    yield from _inverted(fourth, 2 * fourth, fourth, 19)
    for width, heads, head_dim, copies, stride in ATTENTION_BLOCKS:
        yield from _attention(width, heads, head_dim, copies, stride)
    yield "msfa.ffn.pw_exp", (2 * FUSED * (FUSED + 1),), 1
    yield "msfa.ffn.pw_proj", (OUT * (2 * FUSED + 1),), 1
    yield "msfa.norm", (OUT,), 1


def _edge(width: int, expanded: int, out: int, copies: int) -> Iterator[Row]:
    yield "blocks.edge.conv_exp", (expanded, width, 3, 3), copies
    yield "blocks.edge.conv_pwl", (out, expanded, 1, 1), copies
    yield "blocks.edge.bn", (expanded + out,), copies


def _inverted(
    width: int, expanded: int, out: int, copies: int, *, start: int = 0, middle: int = 0
) -> Iterator[Row]:
    """A universal inverted bottleneck; `start` and `middle` are depthwise kernel sizes."""
    if start:
        yield "blocks.uir.dw_start", (width, start * start + 1), copies
    if middle:
        yield "blocks.uir.dw_mid", (expanded, middle * middle + 1), copies
    yield "blocks.uir.pw_exp", (expanded, width, 1, 1), copies
    yield "blocks.uir.pw_proj", (out, expanded, 1, 1), copies
    yield "blocks.uir.bn", (expanded + out,), copies
    yield "blocks.uir.layer_scale", (out,), copies


def _attention(width: int, heads: int, head_dim: int, copies: int, stride: int) -> Iterator[Row]:
    """Multi-query attention over the image; keys and values of a strided image where asked."""
    yield "blocks.attn.norm", (width,), copies
    yield "blocks.attn.query_output", (2 * heads * head_dim, width), copies
    yield "blocks.attn.key_value", (2 * head_dim, width), copies
    yield "blocks.attn.layer_scale", (width,), copies
    if stride > 1:
        yield "blocks.attn.down_conv", (2 * width, 3 * 3 + 1), copies
