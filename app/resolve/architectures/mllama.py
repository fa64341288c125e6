"""Llama 3.2 Vision: some layers attend to the image instead of to the text."""

from typing import Any

from app.core.cache import CrossAttention
from app.core.inventory import Part, Weight
from app.core.model import LayerGroup, ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_encoder import (
    NO_BIASES,
    Tower,
    array,
    encoder_layers,
    layer_norm,
    patch_conv,
    read_tower,
)
from app.resolve.architectures.common_shape import Dims, attention_part, model_shape, read_dims
from app.resolve.architectures.common_weights import (
    attention,
    gated_mlp,
    linear,
    norms,
    vector,
    vocabulary,
)
from app.resolve.architectures.fields import MAX_LAYERS, Config
from app.resolve.architectures.multimodal import filled, multimodal

VISION = Part.VISION
EXTRA_TOKENS = 8
CROSS_LAYERS = [3, 8, 13, 18, 23, 28, 33, 38]


@family("mllama", architectures=("MllamaForConditionalGeneration",))
def mllama(config: Config) -> ModelShape:
    """Self-attention layers cache the text; cross-attention layers cache the image, once, however
    long the text: `max_num_tiles` tiles of all patches and a class token. Defaults: MllamaConfig.
    """
    vision = config.section("vision_config")
    tower = read_tower(vision, layers=32, hidden=1280, heads=16, intermediate=5120, image=448)
    tiles = vision.integer("max_num_tiles", default=4, maximum=4096)
    image_tokens = tiles * (tower.patches + 1)
    section = filled(config.section("text_config"), model_type="mllama_text_model")
    if config.has("tie_word_embeddings"):
        section = section.overlay(tie_word_embeddings=config.get("tie_word_embeddings"))
    text = _text(Config(section.data, path=section.path, prefix="language_model."), image_tokens)
    weights = [
        *_vision(vision, tower, tiles),
        linear(
            "multi_modal_projector",
            text.hidden_size,
            vision.integer("vision_output_dim", default=7680),
            part=Part.PROJECTOR,
            bias=True,
        ),
    ]
    return multimodal(config, text, weights)


@family("mllama_text_model", architectures=("MllamaForCausalLM",))
def mllama_text(config: Config) -> ModelShape:
    """The text model alone: no image, so its cross-attention layers keep nothing."""
    return _text(config, 0)


def _text(config: Config, image_tokens: int) -> ModelShape:
    dims = read_dims(
        config,
        layers=40,
        hidden=4096,
        heads=32,
        kv_heads=8,
        intermediate=14336,
        vocab=128256,
        max_positions=131072,
    )
    stated = config.integers("cross_attention_layers", maximum=MAX_LAYERS)
    crossing = set(CROSS_LAYERS if stated is None else stated)
    cross = [index for index in dims.all_layers if index in crossing]
    own = [index for index in dims.all_layers if index not in crossing]
    at = config.prefix + "model.layers.{layer}"
    table, *head = vocabulary(dims, prefix=config.prefix)
    weights = [
        # Eight rows more than the head: the image token and spares.
        array(table.name, dims.vocab + EXTRA_TOKENS, dims.hidden, part=Part.EMBEDDING),
        *head,
        *attention(at, dims, own),
        *attention(at, dims, cross, module="cross_attn"),
        *norms(at, dims.head_dim, cross, "cross_attn.q_norm", "cross_attn.k_norm"),
        vector(f"{at}.cross_attn_attn_gate", 1, part=Part.OTHER, layers=cross),
        vector(f"{at}.cross_attn_mlp_gate", 1, part=Part.OTHER, layers=cross),
        *gated_mlp(at, dims.hidden, dims.intermediate, dims.all_layers),
        *norms(at, dims.hidden, dims.all_layers, "input_layernorm", "post_attention_layernorm"),
        vector(config.prefix + "model.norm", dims.hidden),
    ]
    groups = [
        LayerGroup(layers=tuple(own), parts=(attention_part(dims),), num_attention_heads=dims.heads)
    ]
    if cross:
        groups.append(_image_group(dims, cross, image_tokens))
    return model_shape(config, dims, groups=tuple(groups), weights=weights)


def _image_group(dims: Dims, layers: list[int], image_tokens: int) -> LayerGroup:
    part = CrossAttention(
        num_key_value_heads=dims.kv_heads,
        head_dim=dims.head_dim,
        v_head_dim=dims.head_dim,
        encoder_tokens=image_tokens,
    )
    return LayerGroup(
        layers=tuple(layers),
        parts=(part,) if image_tokens else (),
        num_attention_heads=dims.heads,
    )


def _vision(config: Config, tower: Tower, tiles: int) -> list[Weight]:
    """Local layers over each tile, then gated global ones; positions by patch, tile and shape."""
    at = "vision_model"
    hidden = tower.hidden
    ratios = config.sequence("supported_aspect_ratios")
    shapes = (8 if ratios is None else len(ratios)) + 1
    tokens = tower.patches + 1
    depth = config.integer("num_global_layers", default=8, maximum=MAX_LAYERS)
    common: dict[str, Any] = {
        "qkvo": ("q_proj", "k_proj", "v_proj", "o_proj"),
        "biases": NO_BIASES,
        "norms": ("input_layernorm", "post_attention_layernorm"),
    }
    weights = [
        array(f"{at}.class_embedding", hidden, part=VISION),
        patch_conv(f"{at}.patch_embedding", tower, bias=False),
        array(f"{at}.gated_positional_embedding.gate", 1, part=VISION),
        array(f"{at}.gated_positional_embedding.embedding", tokens, hidden, part=VISION),
        array(
            f"{at}.gated_positional_embedding.tile_embedding",
            shapes,
            tiles * tokens * hidden,
            part=VISION,
        ),
        layer_norm(f"{at}.layernorm_pre", hidden, part=VISION),
        layer_norm(f"{at}.layernorm_post", hidden, part=VISION),
        *encoder_layers(
            f"{at}.transformer.layers.{{layer}}",
            hidden,
            tower.intermediate,
            tower.all_layers,
            **common,
        ),
        *encoder_layers(
            f"{at}.global_transformer.layers.{{layer}}",
            hidden,
            tower.intermediate,
            range(depth),
            **common,
        ),
    ]
    inside = f"{at}.global_transformer.layers.{{layer}}"
    weights += [
        array(f"{inside}.{name}", 1, part=VISION, layers=range(depth))
        for name in ("gate_attn", "gate_ffn")
    ]
    for name in ("pre_tile_positional_embedding", "post_tile_positional_embedding"):
        weights += [
            array(f"{at}.{name}.gate", 1, part=VISION),
            array(f"{at}.{name}.embedding", shapes, tiles * hidden, part=VISION),
        ]
    return weights
