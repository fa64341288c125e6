"""SAM's image encoder (ViT-B), as OCR models carry it."""

from app.core.inventory import Part, Weight
from app.resolve.architectures.blocks_encoder import (
    array,
    conv,
    encoder_layers,
    layer_norm,
    patch_conv,
    read_tower,
)
from app.resolve.architectures.fields import MAX_LAYERS, Config

VISION = Part.VISION
WINDOW = 14


def sam(config: Config, at: str) -> list[Weight]:
    """Windowed attention with relative positions, global in a few layers, then a convolutional
    neck. Defaults: GotOcr2VisionConfig (SAM ViT-B).
    """
    tower = read_tower(
        config, layers=12, hidden=768, heads=12, intermediate=3072, image=1024, patch=16
    )
    out = config.integer("output_channels", default=256)
    window = config.integer("window_size", default=WINDOW, maximum=2**16)
    mlp = config.integer("mlp_dim", default=tower.intermediate)
    stated = config.integers("global_attn_indexes", maximum=MAX_LAYERS)
    everywhere = set([2, 5, 8, 11] if stated is None else stated)
    globally = [index for index in tower.all_layers if index in everywhere]
    windowed = [index for index in tower.all_layers if index not in everywhere]
    if tower.hidden % tower.heads:
        raise config.fail("num_attention_heads", f"{tower.heads} do not divide {tower.hidden}")
    head_dim = tower.hidden // tower.heads
    qkv = config.boolean("qkv_bias", default=True)
    layer = f"{at}.layers.{{layer}}"
    weights = [
        array(f"{at}.pos_embed", 1, tower.rows, tower.columns, tower.hidden, part=VISION),
        patch_conv(f"{at}.patch_embed.projection", tower),
        *encoder_layers(
            layer,
            tower.hidden,
            mlp,
            tower.all_layers,
            attention="attn",
            qkvo=("qkv", "proj"),
            biases=(qkv, qkv, qkv, True),
            mlp=("mlp.lin1", "mlp.lin2"),
        ),
        *neck(f"{at}.neck", tower.hidden, out),
    ]
    if config.boolean("use_rel_pos", default=True):
        for layers, rows, columns in (
            (windowed, window, window),
            (globally, tower.rows, tower.columns),
        ):
            weights += [
                array(
                    f"{layer}.attn.rel_pos_h", 2 * rows - 1, head_dim, part=VISION, layers=layers
                ),
                array(
                    f"{layer}.attn.rel_pos_w",
                    2 * columns - 1,
                    head_dim,
                    part=VISION,
                    layers=layers,
                ),
            ]
    return weights


def neck(at: str, width: int, out: int) -> list[Weight]:
    """Two convolutions with norms between."""
    return [
        conv(f"{at}.conv1", out, width, 1, 1, part=VISION, bias=False),
        layer_norm(f"{at}.layer_norm1", out, part=VISION),
        conv(f"{at}.conv2", out, out, 3, 3, part=VISION, bias=False),
        layer_norm(f"{at}.layer_norm2", out, part=VISION),
    ]
