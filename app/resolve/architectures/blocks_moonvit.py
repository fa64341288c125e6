"""MoonViT in its 3-D form (Kimi K2.5, K3) and the patch merger behind it."""

from typing import Any

from app.core.inventory import Part, Split, Weight
from app.resolve.architectures.common_weights import linear, plain_mlp, vector
from app.resolve.architectures.fields import MAX_LAYERS, Config

MERGER_V2 = "patchmergerv2"
RMS = "rmsnorm"


def moonvit3d(config: Config, tower: str, projector: str, out: int) -> list[Weight]:
    """The tower under the path `tower` and its projection to `out` under `projector`.

    Defaults are K2.5's: biases everywhere, layer norms. K3 states RMS norms, no biases, queries and
    keys wider than the stream, and the second merger, which normalises last.
    """
    depth = config.integer("vt_num_hidden_layers", "num_hidden_layers", default=27)
    if depth > MAX_LAYERS:
        raise config.fail("vt_num_hidden_layers", f"must be at most {MAX_LAYERS}")
    hidden = config.integer("vt_hidden_size", "hidden_size", default=1152)
    width = config.integer("vt_intermediate_size", "intermediate_size", default=4304)
    attended = config.integer("qkv_hidden_size", default=hidden)
    patch = config.integer("patch_size", default=14, maximum=4096)
    height = config.integer("init_pos_emb_height", default=64)
    columns = config.integer("init_pos_emb_width", default=64)
    norm_bias = config.text("norm_type", default="layernorm") != RMS
    attn_bias = config.boolean("attn_bias", default=True)
    linear_bias = config.boolean("linear_bias", default=True)
    patch_bias = config.boolean("patch_embed_proj_bias", default=True)
    layers = tuple(range(depth))
    at = f"{tower}.encoder.blocks.{{layer}}"
    block: dict[str, Any] = {"part": Part.VISION, "layers": layers}
    embed = f"{tower}.patch_embed"
    return [
        Weight(
            name=f"{embed}.proj",
            shape=(hidden, 3 * patch * patch),
            part=Part.VISION,
            bias=hidden if patch_bias else 0,
        ),
        Weight(name=f"{embed}.pos_emb", shape=(height, columns, hidden), part=Part.VISION),
        linear(f"{at}.wqkv", 3 * attended, hidden, bias=attn_bias, split=Split.COLUMN, **block),
        linear(f"{at}.wo", hidden, attended, bias=attn_bias, split=Split.ROW, **block),
        *plain_mlp(
            at,
            hidden,
            width,
            layers,
            bias=linear_bias,
            part=Part.VISION,
            names=("fc0", "fc1"),
        ),
        vector(f"{at}.norm0", hidden, bias=norm_bias, **block),
        vector(f"{at}.norm1", hidden, bias=norm_bias, **block),
        vector(f"{tower}.encoder.final_layernorm", hidden, part=Part.VISION, bias=norm_bias),
        *_merger(config, projector, hidden, out),
    ]


def _merger(config: Config, at: str, hidden: int, out: int) -> list[Weight]:
    sides = config.integers("merge_kernel_size", minimum=1, maximum=64) or [2, 2]
    merged = hidden * sides[0] * sides[-1]
    second = config.text("mm_projector_type", default="patchmerger") == MERGER_V2
    norm_size, norm = (out, "post_norm") if second else (hidden, "pre_norm")
    bias = not second
    part = Part.PROJECTOR
    return [
        vector(f"{at}.{norm}", norm_size, part=part, bias=bias),
        linear(f"{at}.proj.0", merged, merged, part=part, bias=bias),
        linear(f"{at}.proj.2", out, merged, part=part, bias=bias),
    ]
