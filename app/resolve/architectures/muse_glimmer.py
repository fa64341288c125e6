"""Muse Glimmer: three windowed layers, then a full one, behind a ViT that reads frames in pairs."""

from app.core.inventory import Part, Weight
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_encoder import (
    array,
    dense_chain,
    encoder_layers,
    layer_norm,
    read_tower,
)
from app.resolve.architectures.common_shape import read_dims
from app.resolve.architectures.common_weights import linear, output_gate
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import Names, layer_windows, llama_like, window_size
from app.resolve.architectures.multimodal import multimodal, text_model

VISION = Part.VISION
SANDWICH = Names(
    norms=(
        "input_layernorm",
        "post_attention_layernorm",
        "pre_feedforward_layernorm",
        "post_feedforward_layernorm",
    )
)


@family("muse_glimmer_text", architectures=("MuseGlimmerForCausalLM",))
def muse_glimmer_text(config: Config) -> ModelShape:
    """Counted from the last layer, every fourth has full attention; attention's output is gated.
    Defaults: MuseGlimmerTextConfig.
    """
    dims = read_dims(
        config,
        layers=52,
        hidden=6656,
        heads=32,
        kv_heads=2,
        head_dim=128,
        intermediate=19968,
        vocab=202048,
        max_positions=131072,
    )
    windows = layer_windows(
        config,
        dims.layers,
        window_size(config, default=2048),
        default=[(dims.layers - 1 - index) % 4 != 0 for index in range(dims.layers)],
    )
    bias = config.boolean("attention_bias", default=False)
    at = SANDWICH.at(config)
    return llama_like(
        config,
        dims,
        names=SANDWICH,
        windows=windows,
        qkv_bias=bias,
        out_bias=bias,
        extra=[output_gate(at, dims, dims.all_layers, bias=bias)],
    )


@family("muse_glimmer", architectures=("MuseGlimmerForConditionalGeneration",))
def muse_glimmer(config: Config) -> ModelShape:
    """The text model's cache. Defaults: MuseGlimmerConfig and its vision config."""
    text = text_model(config, prefix="model.language_", model_type="muse_glimmer_text")
    return multimodal(config, text, vision(config, text.hidden_size))


def vision(config: Config, text_width: int) -> list[Weight]:
    """The image encoder, its adapter and the projection to the text's width."""
    inner = config.integer("projector_hidden_size", default=4096)
    return [
        *_tower(config.section("vision_config"), "model.vision_tower"),
        *dense_chain(
            "model.vision_adapter",
            ("fc1", inner, config.integer("out_hidden_size", default=6144)),
            ("fc2", inner, inner),
            bias=False,
        ),
        linear("model.vision_projection", text_width, inner, part=Part.PROJECTOR),
    ]


def _tower(config: Config, at: str) -> list[Weight]:
    tower = read_tower(config, layers=50, hidden=1536, heads=16, intermediate=8960)
    frames = config.integer("patch_temporal", default=2, maximum=1024)
    rows = config.integer("pos_emb_height", default=32, maximum=2**16)
    columns = config.integer("pos_emb_width", default=32, maximum=2**16)
    pixels = 3 * frames * tower.patch**2
    return [
        linear(f"{at}.patch_embedder.patch_embedding", tower.hidden, pixels, part=VISION),
        array(
            f"{at}.patch_embedder.position_embedding_table",
            rows * columns,
            tower.hidden,
            part=VISION,
        ),
        layer_norm(f"{at}.ln_pre", tower.hidden, part=VISION),
        *encoder_layers(
            f"{at}.layers.{{layer}}",
            tower.hidden,
            tower.intermediate,
            tower.all_layers,
            attention="attn",
            qkvo=("q_proj", "k_proj", "v_proj", "proj"),
            norms=("norm1", "norm2"),
        ),
        layer_norm(f"{at}.ln_post", tower.hidden, part=VISION),
    ]
