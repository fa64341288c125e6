"""The vision tower of Qwen3-VL, Qwen3.5 and what is built on them."""

from typing import Any

from app.core.inventory import Part, Split, Weight
from app.resolve.architectures.common_weights import linear, plain_mlp, vector
from app.resolve.architectures.fields import MAX_LAYERS, Config


def patch_elements(config: Config) -> int:
    """Inputs of one patch: channels x frames x height x width (sizes may be numbers or pairs)."""
    patch = _pair(config, "patch_size", 16)
    frames = _pair(config, "temporal_patch_size", 2)[0]
    return config.integer("in_channels", default=3) * frames * patch[0] * patch[-1]


def _pair(config: Config, name: str, default: int) -> list[int]:
    if isinstance(config.get(name), list):
        values = config.integers(name, minimum=1, maximum=4096)
        return values or [default]
    return [config.integer(name, default=default, maximum=4096)]


def qwen3_vision(config: Config, prefix: str, *, deepstack: bool = False) -> list[Weight]:
    """A ViT with learned positions and a merger of `spatial_merge_size` squared patches; one more
    merger for each of `deepstack_visual_indexes` where the model has them. Defaults of
    Qwen3VLVisionConfig.
    """
    depth = config.integer("depth", "num_hidden_layers", default=27, maximum=MAX_LAYERS)
    hidden = config.integer("hidden_size", default=1152)
    intermediate = config.integer("intermediate_size", default=4304)
    merge = config.integer("spatial_merge_size", default=2, maximum=64)
    out = config.integer("out_hidden_size", default=3584)
    positions = config.integer("num_position_embeddings", default=2304)
    blocks = tuple(range(depth))
    at = prefix + "blocks.{layer}"
    vision: dict[str, Any] = {"part": Part.VISION, "layers": blocks}
    merged = hidden * merge * merge
    weights = [
        Weight(
            name=prefix + "patch_embed.proj",
            shape=(hidden, patch_elements(config)),
            part=Part.VISION,
            bias=hidden,
        ),
        Weight(name=prefix + "pos_embed", shape=(positions, hidden), part=Part.VISION),
        linear(f"{at}.attn.qkv", 3 * hidden, hidden, bias=True, split=Split.COLUMN, **vision),
        linear(f"{at}.attn.proj", hidden, hidden, bias=True, split=Split.ROW, **vision),
        *plain_mlp(
            at,
            hidden,
            intermediate,
            blocks,
            bias=True,
            part=Part.VISION,
            names=("linear_fc1", "linear_fc2"),
        ),
        vector(f"{at}.norm1", hidden, bias=True, **vision),
        vector(f"{at}.norm2", hidden, bias=True, **vision),
        *_merger(prefix + "merger", hidden, merged, out),
    ]
    if deepstack:
        indexes = config.integers("deepstack_visual_indexes", maximum=MAX_LAYERS)
        for number in range(len([8, 16, 24] if indexes is None else indexes)):
            weights += _merger(f"{prefix}deepstack_merger_list.{number}", merged, merged, out)
    return weights


def _merger(at: str, norm: int, merged: int, out: int) -> list[Weight]:
    part = Part.PROJECTOR
    return [
        vector(f"{at}.norm", norm, part=part, bias=True),
        linear(f"{at}.linear_fc1", merged, merged, part=part, bias=True, split=Split.COLUMN),
        linear(f"{at}.linear_fc2", out, merged, part=part, bias=True, split=Split.ROW),
    ]
