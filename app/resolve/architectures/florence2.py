"""Florence 2: BART whose encoder reads the features of a DaViT before its prompt."""

from typing import Any

from app.core.inventory import Part, Weight
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.bart import VARIANTS, bart_shape
from app.resolve.architectures.blocks_encoder import array, conv, dense_chain, layer_norm
from app.resolve.architectures.common_weights import linear
from app.resolve.architectures.fields import MAX_LAYERS, Config
from app.resolve.architectures.multimodal import filled, multimodal

VISION = Part.VISION
PROJECTOR = Part.PROJECTOR


@family("florence2", architectures=("Florence2ForConditionalGeneration",))
def florence2(config: Config) -> ModelShape:
    """The decoder's tokens and, once, the encoder's output. Defaults: Florence2Config."""
    section = filled(config.section("text_config"), model_type="bart")
    if config.has("tie_word_embeddings"):
        section = section.overlay(tie_word_embeddings=config.get("tie_word_embeddings"))
    text = bart_shape(section, "language_model.model", VARIANTS["bart"])
    vision = config.section("vision_config")
    widths = _list(vision, "embed_dim", [128, 256, 512, 1024])
    out = vision.integer("projection_dim", default=1024)
    positions = vision.integer("max_position_embeddings", default=50)
    last = widths[-1]
    weights = [
        *_davit(vision, widths, "vision_tower"),
        linear("image_projection", out, last, part=PROJECTOR),
        layer_norm("image_proj_norm", out, part=PROJECTOR),
        array("image_pos_embed.row_embeddings", positions, last // 2, part=PROJECTOR),
        array("image_pos_embed.column_embeddings", positions, last - last // 2, part=PROJECTOR),
    ]
    return multimodal(config, text, weights)


def _list(config: Config, name: str, default: list[int]) -> list[int]:
    return (config.integers(name, minimum=1) or default)[:16]


def _davit(config: Config, widths: list[int], at: str) -> list[Weight]:
    """Stages that halve the picture; each block attends over windows, then over channels.
    Defaults: Florence2VisionConfig.
    """
    depths = config.integers("depths", minimum=1, maximum=MAX_LAYERS) or [1, 1, 9, 1]
    kernels = _list(config, "patch_size", [7, 3, 3, 3])
    prenorm = config.sequence("patch_prenorm") or [False, True, True, True]
    if not len(widths) == len(depths) == len(kernels) == len(prenorm):
        raise config.fail("embed_dim", "must have one entry a stage, as depths and patch_size")
    ratio = config.number("mlp_ratio", default=4.0, maximum=64.0)
    bias = config.boolean("qkv_bias", default=True)
    before = config.integer("in_channels", default=3)
    weights: list[Weight] = []
    for stage, (width, depth, kernel, first) in enumerate(
        zip(widths, depths, kernels, prenorm, strict=True)
    ):
        weights += [
            conv(f"{at}.convs.{stage}.conv", width, before, kernel, kernel, part=VISION),
            layer_norm(f"{at}.convs.{stage}.norm", before if first else width, part=VISION),
        ]
        for block, attention in (
            ("spatial_block", "window_attn"),
            ("channel_block", "channel_attn"),
        ):
            inside = f"{at}.blocks.{stage}.{{layer}}.{block}"
            common: dict[str, Any] = {"part": VISION, "layers": range(depth)}
            weights += [
                conv(f"{inside}.conv1", width, 1, 3, 3, **common),
                layer_norm(f"{inside}.norm1", width, **common),
                linear(f"{inside}.{attention}.qkv", 3 * width, width, bias=bias, **common),
                linear(f"{inside}.{attention}.proj", width, width, bias=True, **common),
                conv(f"{inside}.conv2", width, 1, 3, 3, **common),
                layer_norm(f"{inside}.norm2", width, **common),
                *dense_chain(
                    f"{inside}.ffn",
                    ("fc1", int(width * ratio), width),
                    ("fc2", width, int(width * ratio)),
                    **common,
                ),
            ]
        before = width
    return weights
