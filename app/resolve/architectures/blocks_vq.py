"""A vector-quantised autoencoder (VQGAN, arXiv:2012.09841), with which Janus draws."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from app.core.inventory import Part, Weight
from app.resolve.architectures.blocks_encoder import array, conv, layer_norm
from app.resolve.architectures.fields import Config

PART = Part.VISION


def vq_model(config: Config, at: str) -> list[Weight]:
    """Encoder, codebook and decoder. Defaults: JanusVQVAEConfig."""
    base = config.integer("base_channels", default=128)
    steps = (config.integers("channel_multiplier", minimum=1, maximum=1024) or [1, 1, 2, 2, 4])[:16]
    blocks = config.integer("num_res_blocks", default=2, maximum=64)
    latent = config.integer("latent_channels", default=256)
    code = config.integer("embed_dim", default=8)
    pixels = config.integer("in_channels", default=3)
    widths = [base * step for step in steps]
    last = widths[-1]
    encoder, decoder = f"{at}.encoder", f"{at}.decoder"
    weights = [
        conv(f"{encoder}.conv_in", base, pixels, 3, 3, part=PART),
        *_middle(f"{encoder}.mid", last),
        layer_norm(f"{encoder}.norm_out", last, part=PART),
        conv(f"{encoder}.conv_out", latent, last, 3, 3, part=PART),
        array(
            f"{at}.quantize.embedding",
            config.integer("num_embeddings", default=16384),
            code,
            part=PART,
        ),
        conv(f"{at}.quant_conv", code, latent, 1, 1, part=PART),
        conv(f"{at}.post_quant_conv", latent, code, 1, 1, part=PART),
        conv(f"{decoder}.conv_in", last, latent, 3, 3, part=PART),
        *_middle(f"{decoder}.mid", last),
        layer_norm(f"{decoder}.norm_out", widths[0], part=PART),
        conv(
            f"{decoder}.conv_out",
            config.integer("out_channels", default=3),
            widths[0],
            3,
            3,
            part=PART,
        ),
    ]
    for level, (before, width) in enumerate(pairwise([base, *widths])):
        inside = f"{encoder}.down.{level}"
        weights += _level(inside, before, width, blocks, attends=level == len(widths) - 1)
        if level < len(widths) - 1:
            weights.append(conv(f"{inside}.downsample.conv", width, width, 3, 3, part=PART))
    for level, (before, width) in enumerate(pairwise([last, *reversed(widths)])):
        inside = f"{decoder}.up.{level}"
        weights += _level(inside, before, width, blocks + 1, attends=level == 0)
        if level < len(widths) - 1:
            weights.append(conv(f"{inside}.upsample.conv", width, width, 3, 3, part=PART))
    return weights


def _level(at: str, before: int, width: int, blocks: int, *, attends: bool) -> list[Weight]:
    weights: list[Weight] = []
    alike = range(1 if before != width else 0, blocks)
    if before != width:
        weights += _residual(f"{at}.block.{{layer}}", before, width, (0,))
    if alike:
        weights += _residual(f"{at}.block.{{layer}}", width, width, alike)
    if attends:
        weights += _attention(f"{at}.attn.{{layer}}", width, range(blocks))
    return weights


def _middle(at: str, width: int) -> list[Weight]:
    return [
        *_residual(f"{at}.block_{{layer}}", width, width, (1, 2)),
        *_attention(f"{at}.attn_{{layer}}", width, (1,)),
    ]


def _residual(at: str, before: int, width: int, layers: Sequence[int]) -> list[Weight]:
    common: dict[str, Any] = {"part": PART, "layers": layers}
    weights = [
        layer_norm(f"{at}.norm1", before, **common),
        conv(f"{at}.conv1", width, before, 3, 3, **common),
        layer_norm(f"{at}.norm2", width, **common),
        conv(f"{at}.conv2", width, width, 3, 3, **common),
    ]
    if before != width:
        weights.append(conv(f"{at}.nin_shortcut", width, before, 1, 1, **common))
    return weights


def _attention(at: str, width: int, layers: Sequence[int]) -> list[Weight]:
    common: dict[str, Any] = {"part": PART, "layers": layers}
    return [
        layer_norm(f"{at}.norm", width, **common),
        *(
            conv(f"{at}.{name}", width, width, 1, 1, **common)
            for name in ("q", "k", "v", "proj_out")
        ),
    ]
