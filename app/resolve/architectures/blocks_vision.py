"""Vision towers that several families put in front of their text models.

Each function takes the tower's own object of the config (its class defaults are the function's)
and the path of its modules, and returns its weights.
"""

from collections.abc import Callable
from functools import partial

from app.core.inventory import Part, Weight
from app.resolve.architectures.blocks_encoder import (
    NO_BIASES,
    array,
    attention_pool,
    encoder_layers,
    layer_norm,
    patch_conv,
    read_tower,
)
from app.resolve.architectures.common_weights import linear
from app.resolve.architectures.fields import Config

VISION = Part.VISION
TowerBuilder = Callable[[Config, str], list[Weight]]


def clip(config: Config, at: str) -> list[Weight]:
    """CLIP's image encoder. Defaults: CLIPVisionConfig."""
    tower = read_tower(config, layers=12, hidden=768, heads=12, intermediate=3072, patch=32)
    return [
        array(f"{at}.embeddings.class_embedding", tower.hidden, part=VISION),
        patch_conv(f"{at}.embeddings.patch_embedding", tower, bias=False),
        array(f"{at}.embeddings.position_embedding", tower.patches + 1, tower.hidden, part=VISION),
        layer_norm(f"{at}.pre_layrnorm", tower.hidden, part=VISION),
        *encoder_layers(
            f"{at}.encoder.layers.{{layer}}", tower.hidden, tower.intermediate, tower.all_layers
        ),
        layer_norm(f"{at}.post_layernorm", tower.hidden, part=VISION),
    ]


def siglip(config: Config, at: str, *, head: bool | None = None) -> list[Weight]:
    """SigLIP's image encoder; `head` None: with its pooling head unless the config drops it.
    Defaults: SiglipVisionConfig.
    """
    tower = read_tower(
        config, layers=12, hidden=768, heads=12, intermediate=3072, image=224, patch=16
    )
    if head is None:
        head = config.boolean("vision_use_head", default=True)
    pool = (
        attention_pool(f"{at}.head", tower.hidden, tower.intermediate, part=VISION) if head else []
    )
    return [
        patch_conv(f"{at}.embeddings.patch_embedding", tower),
        array(f"{at}.embeddings.position_embedding", tower.patches, tower.hidden, part=VISION),
        *encoder_layers(
            f"{at}.encoder.layers.{{layer}}", tower.hidden, tower.intermediate, tower.all_layers
        ),
        layer_norm(f"{at}.post_layernorm", tower.hidden, part=VISION),
        *pool,
    ]


def siglip2(config: Config, at: str) -> list[Weight]:
    """SigLIP 2 (NaFlex): patches come flattened, positions are resized from `num_patches`.
    Defaults: Siglip2VisionConfig.
    """
    tower = read_tower(config, layers=12, hidden=768, heads=12, intermediate=3072, patch=16)
    positions = config.integer("num_patches", default=256)
    pixels = tower.channels * tower.patch * tower.patch
    head = config.boolean("vision_use_head", default=True)
    pool = (
        attention_pool(f"{at}.head", tower.hidden, tower.intermediate, part=VISION) if head else []
    )
    return [
        linear(f"{at}.embeddings.patch_embedding", tower.hidden, pixels, part=VISION, bias=True),
        array(f"{at}.embeddings.position_embedding", positions, tower.hidden, part=VISION),
        *encoder_layers(
            f"{at}.encoder.layers.{{layer}}", tower.hidden, tower.intermediate, tower.all_layers
        ),
        layer_norm(f"{at}.post_layernorm", tower.hidden, part=VISION),
        *pool,
    ]


def idefics_vision(config: Config, at: str, *, width: int = 1152) -> list[Weight]:
    """The SigLIP that Idefics 2 and 3 and SmolVLM carry: no pooling head. Defaults:
    Idefics3VisionConfig; Idefics 2's is 768 wide.
    """
    stated = {name: value for name, value in config.data.items() if value is not None}
    data = {"hidden_size": width, "patch_size": 32, **stated}
    return siglip(Config(data, path=config.path), at, head=False)


def pixtral(config: Config, at: str) -> list[Weight]:
    """Pixtral's encoder: rotary positions, gated MLPs, no biases. Defaults: PixtralVisionConfig."""
    tower = read_tower(
        config, layers=24, hidden=1024, heads=16, intermediate=4096, image=1024, patch=16
    )
    return [
        patch_conv(f"{at}.patch_conv", tower, bias=False),
        layer_norm(f"{at}.ln_pre", tower.hidden, part=VISION, bias=False),
        *encoder_layers(
            f"{at}.transformer.layers.{{layer}}",
            tower.hidden,
            tower.intermediate,
            tower.all_layers,
            attention="attention",
            qkvo=("q_proj", "k_proj", "v_proj", "o_proj"),
            biases=NO_BIASES,
            mlp=("feed_forward.gate_proj", "feed_forward.up_proj", "feed_forward.down_proj"),
            mlp_bias=False,
            norms=("attention_norm", "ffn_norm"),
            norm_bias=False,
        ),
    ]


def intern_vit(config: Config, at: str) -> list[Weight]:
    """InternViT as transformers names it. Defaults: InternVLVisionConfig."""
    tower = read_tower(
        config, layers=24, hidden=1024, heads=16, intermediate=4096, image=448, patch=14
    )
    bias = config.boolean("attention_bias", default=False)
    qk_norm = ("q_norm", "k_norm") if config.boolean("use_qk_norm", default=False) else ()
    norm_bias = config.text("norm_type", default="layer_norm") == "layer_norm"
    positions = config.boolean("use_absolute_position_embeddings", default=True)
    mask = config.boolean("use_mask_token", default=False)
    pooled = config.boolean("use_mean_pooling", default=True)
    return [
        array(f"{at}.embeddings.cls_token", 1, 1, tower.hidden, part=VISION),
        *([array(f"{at}.embeddings.mask_token", 1, 1, tower.hidden, part=VISION)] if mask else []),
        *(
            [
                array(
                    f"{at}.embeddings.position_embeddings",
                    1,
                    tower.patches + 1,
                    tower.hidden,
                    part=VISION,
                )
            ]
            if positions
            else []
        ),
        patch_conv(f"{at}.embeddings.patch_embeddings.projection", tower),
        *encoder_layers(
            f"{at}.encoder.layer.{{layer}}",
            tower.hidden,
            tower.intermediate,
            tower.all_layers,
            attention="attention",
            qkvo=("q_proj", "k_proj", "v_proj", "projection_layer"),
            biases=(bias, bias, bias, True),
            norms=("layernorm_before", "layernorm_after"),
            norm_bias=norm_bias,
            qk_norms=qk_norm,
            qk_norm_size=tower.hidden,
            scales=("lambda_1", "lambda_2"),
        ),
        *([] if pooled else [layer_norm(f"{at}.layernorm", tower.hidden, part=VISION)]),
    ]


TOWERS: dict[str, TowerBuilder] = {
    "clip_vision_model": clip,
    "siglip_vision_model": siglip,
    "siglip2_vision_model": siglip2,
    "idefics2_vision": partial(idefics_vision, width=768),
    "idefics3_vision": idefics_vision,
    "smolvlm_vision": idefics_vision,
    "pixtral": pixtral,
    "internvl_vision": intern_vit,
}


TOWER_WIDTHS = {
    "idefics3_vision": 1152,
    "smolvlm_vision": 1152,
    "pixtral": 1024,
    "internvl_vision": 1024,
}
"""Widths that classes give their towers; those of the others are 768."""


def tower_width(config: Config) -> int:
    """Width of the tower a config names, as projectors after it see it."""
    default = TOWER_WIDTHS.get(config.text("model_type", default=""), 768)
    return config.integer("hidden_size", "embed_dim", "width", "d_model", default=default)


def tower_of(config: Config, at: str) -> list[Weight]:
    """The tower a config names by its `model_type`."""
    name = config.text("model_type")
    builder = TOWERS.get(name)
    if builder is None:
        raise config.fail("model_type", f"names a vision tower that is not known: {name!r}")
    return builder(config, at)
