"""The vision towers of Qwen2-VL and Qwen2.5-VL, and of what is built on them."""

from typing import Any

from app.core.inventory import Part, Weight
from app.resolve.architectures.blocks_encoder import (
    array,
    dense_chain,
    encoder_layers,
    layer_norm,
)
from app.resolve.architectures.blocks_qwen_vision import patch_elements
from app.resolve.architectures.fields import MAX_LAYERS, Config

GATED = ("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")
BLOCK: dict[str, Any] = {"attention": "attn", "qkvo": ("qkv", "proj"), "norms": ("norm1", "norm2")}


def qwen2_vision(config: Config, at: str, *, out: int | None = None) -> list[Weight]:
    """Qwen2-VL's ViT: `embed_dim` wide; its `hidden_size` is the text model's width, to which the
    merger of `spatial_merge_size` squared patches goes. Defaults: Qwen2VLVisionConfig.
    """
    width = config.integer("embed_dim", default=1280)
    ratio = config.number("mlp_ratio", default=4, maximum=64)
    return [
        _patches(config, at, width),
        *encoder_layers(
            f"{at}.blocks.{{layer}}",
            width,
            int(width * ratio),
            _blocks(config),
            mlp=("mlp.fc1", "mlp.fc2"),
            **BLOCK,
        ),
        *_merger(config, at, width, out or config.integer("hidden_size", default=3584)),
    ]


def qwen2_5_vision(config: Config, at: str, *, kv_heads: int | None = None) -> list[Weight]:
    """Qwen2.5-VL's ViT: gated MLPs, RMS norms; `kv_heads` where its keys are grouped.
    Defaults: Qwen2_5_VLVisionConfig.
    """
    width = config.integer("hidden_size", default=3584)
    kv_width = None
    if kv_heads is not None:
        heads = config.integer("num_heads", "num_attention_heads", default=16)
        if width % heads:
            raise config.fail("num_heads", f"{heads} heads do not divide hidden_size {width}")
        kv_width = kv_heads * (width // heads)
    return [
        _patches(config, at, width),
        *encoder_layers(
            f"{at}.blocks.{{layer}}",
            width,
            config.integer("intermediate_size", default=3420),
            _blocks(config),
            kv_width=kv_width,
            mlp=GATED,
            norm_bias=False,
            **BLOCK,
        ),
        *_merger(
            config, at, width, config.integer("out_hidden_size", default=3584), norm_bias=False
        ),
    ]


def _blocks(config: Config) -> range:
    return range(config.integer("depth", "num_hidden_layers", default=32, maximum=MAX_LAYERS))


def _patches(config: Config, at: str, width: int) -> Weight:
    pixels = patch_elements(config.overlay(patch_size=config.get("patch_size") or 14))
    return array(f"{at}.patch_embed.proj", width, pixels, part=Part.VISION)


def _merger(
    config: Config, at: str, width: int, out: int, *, norm_bias: bool = True
) -> list[Weight]:
    merged = width * config.integer("spatial_merge_size", default=2, maximum=64) ** 2
    return [
        layer_norm(f"{at}.merger.ln_q", width, part=Part.PROJECTOR, bias=norm_bias),
        *dense_chain(f"{at}.merger", ("mlp.0", merged, merged), ("mlp.2", out, merged)),
    ]
