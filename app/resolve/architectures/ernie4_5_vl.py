"""ERNIE 4.5 VL: a mixture whose tokens of text and of vision have experts of their own."""

from typing import Any

from app.core.inventory import Part, Weight
from app.core.model import ModelShape
from app.resolve.architectures import build, family
from app.resolve.architectures.blocks_encoder import (
    array,
    dense_chain,
    encoder_layers,
    layer_norm,
    mlp_layers,
    read_tower,
)
from app.resolve.architectures.blocks_qwen_vision import patch_elements
from app.resolve.architectures.common_weights import linear
from app.resolve.architectures.ernie4_5_moe import ernie_dims
from app.resolve.architectures.fields import MAX_LAYERS, Config
from app.resolve.architectures.llama_like import LLAMA, dense_mlp, llama_like, mixture
from app.resolve.architectures.multimodal import filled, multimodal, text_model

VISION = Part.VISION
PROJECTOR = Part.PROJECTOR


@family("ernie4_5_vl_moe_text")
def ernie4_5_vl_text(config: Config) -> ModelShape:
    """K and V of every token in every layer; a token of text uses `moe_k` of the text experts and
    the shared ones, which is what counts as active. Defaults: Ernie4_5_VLMoeTextConfig.
    """
    dims = ernie_dims(config)
    at = LLAMA.at(config)
    widths = _pair(config, "moe_intermediate_size", (1536, 512))
    counts = _pair(config, "moe_num_experts", (64, 64))
    top_k = config.integer("moe_k", default=6)
    shared = config.integer("moe_num_shared_experts", default=2, minimum=0, maximum=4096)
    sparse = _sparse_layers(config, dims.layers)
    chosen = set(sparse)
    bias = config.boolean("use_bias", default=False)
    common: dict[str, Any] = {
        "bias": bias,
        "correction": "gate.moe_statics.e_score_correction_bias",
    }
    mlp: list[Weight] = dense_mlp(
        at, dims, [index for index in dims.all_layers if index not in chosen], bias=bias
    )
    for kind, width, count, active in zip(
        ("text_moe", "vision_moe"), widths, counts, (top_k, 0), strict=True
    ):
        mlp += mixture(
            at,
            dims.hidden,
            width,
            sparse,
            num_experts=count,
            top_k=active,
            module=f"mlp.{kind}",
            **common,
        )
    if shared and sparse:
        names = tuple(
            f"mlp.shared_experts.{name}" for name in ("gate_proj", "up_proj", "down_proj")
        )
        mlp += mlp_layers(
            at,
            dims.hidden,
            widths[0] * shared,
            sparse,
            part=Part.SHARED_EXPERTS,
            names=names,
            bias=bias,
        )
    return llama_like(config, dims, qkv_bias=bias, out_bias=bias, mlp=mlp)


def _pair(config: Config, name: str, default: tuple[int, int]) -> tuple[int, int]:
    """(text, vision): one number counts for both."""
    if isinstance(config.get(name), list):
        values = config.integers(name, minimum=1) or []
        if not values:
            raise config.fail(name, "must not be empty")
        return values[0], values[-1]
    value = config.optional_integer(name)
    return default if value is None else (value, value)


def _sparse_layers(config: Config, layers: int) -> list[int]:
    types = config.texts("mlp_layer_types")
    if types is not None:
        kinds = config.per_layer(types, "mlp_layer_types", layers)
        return [index for index, kind in enumerate(kinds) if kind == "sparse"]
    first = _bound(config, "moe_layer_start_index", 1)
    last = _bound(config, "moe_layer_end_index", -1)
    step = config.integer("moe_layer_interval", default=1)
    end = layers - 1 if last == -1 else last
    return [index for index in range(layers) if first <= index <= end and (index + 1) % step == 0]


def _bound(config: Config, name: str, default: int) -> int:
    """A layer index, or the lowest of (text, vision)."""
    if isinstance(config.get(name), list):
        return min(config.integers(name, minimum=-1, maximum=MAX_LAYERS) or [default])
    return config.integer(name, default=default, minimum=-1, maximum=MAX_LAYERS)


@family(
    "ernie4_5_vl_moe",
    "ernie4_5_moe_vl",
    architectures=(
        "Ernie4_5_VLMoeForConditionalGeneration",
        "Ernie4_5_VL_MoeForConditionalGeneration",
    ),
)
def ernie4_5_vl(config: Config) -> ModelShape:
    """The text model's cache; published configs have its keys at the top. Defaults:
    Ernie4_5_VLMoeConfig.
    """
    if config.has("text_config"):
        text = text_model(
            config,
            prefix="model.language_",
            model_type="ernie4_5_vl_moe_text",
            force=True,
            tied=True,
        )
    else:
        text = build(filled(config, model_type="ernie4_5_vl_moe_text", force=True))
    vision = config.section("vision_config")
    tower = read_tower(vision, layers=32, hidden=1280, heads=16, intermediate=5120)
    merge = vision.integer("spatial_merge_size", default=2, maximum=64) ** 2 * tower.hidden
    merge_time = merge * vision.integer("temporal_merge_size", default=2, maximum=64)
    at = "model.vision_tower"
    resampler = "model.resampler_model"
    pixels = patch_elements(vision.overlay(patch_size=tower.patch, temporal_patch_size=1))
    weights = [
        array(f"{at}.patch_embed.proj", tower.hidden, pixels, part=VISION),
        *encoder_layers(
            f"{at}.blocks.{{layer}}",
            tower.hidden,
            tower.intermediate,
            tower.all_layers,
            attention="attn",
            qkvo=("qkv", "proj"),
            norms=("norm1", "norm2"),
        ),
        layer_norm(f"{at}.ln", tower.hidden, part=VISION),
        *dense_chain(f"{resampler}.spatial_linear", ("fc1", merge, merge), ("fc2", merge, merge)),
        layer_norm(f"{resampler}.spatial_linear.ln", merge, part=PROJECTOR),
        *dense_chain(
            f"{resampler}.temporal_linear", ("fc1", merge, merge_time), ("fc2", merge, merge)
        ),
        layer_norm(f"{resampler}.temporal_linear.ln", merge, part=PROJECTOR),
        linear(f"{resampler}.mlp", text.hidden_size, merge, part=PROJECTOR, bias=True),
        layer_norm(f"{resampler}.after_norm", text.hidden_size, part=PROJECTOR, bias=False),
    ]
    return multimodal(config, text, weights)
