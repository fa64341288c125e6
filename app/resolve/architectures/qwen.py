"""Qwen and Qwen-VL (the first generation, remote code `QWenLMHeadModel`)."""

from app.core.inventory import Part, Weight
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_encoder import (
    array,
    encoder_layers,
    layer_norm,
    multihead,
    patch_conv,
    read_tower,
)
from app.resolve.architectures.common_shape import read_dims
from app.resolve.architectures.common_weights import linear
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import Names, llama_like
from app.resolve.architectures.multimodal import multimodal

QUERIES = 256

QWEN = Names(
    layer="transformer.h.{layer}",
    embed="transformer.wte",
    norm="transformer.ln_f",
    norms=("ln_1", "ln_2"),
    attention="attn",
    qkvo=("c_attn", "c_attn", "c_attn", "c_proj"),
    mlp=("w2", "w1", "c_proj"),
)


@family("qwen", architectures=("QWenLMHeadModel",))
def qwen(config: Config) -> ModelShape:
    """Multi-head attention of full width. `intermediate_size` counts gate and up together, so each
    has half of it. Defaults: QWenConfig of the checkpoints.
    """
    doubled = config.integer("intermediate_size", "ffn_hidden_size", default=22016)
    dims = read_dims(
        config.overlay(
            intermediate_size=max(doubled // 2, 1),
            head_dim=config.integer("kv_channels", default=128),
            num_key_value_heads=None,
        ),
        layers=32,
        hidden=4096,
        heads=32,
        vocab=151936,
        max_positions=8192,
    )
    biased = not config.boolean("no_bias", default=True)
    text = llama_like(config, dims, names=QWEN, qkv_bias=True, out_bias=biased, mlp_bias=biased)
    if not config.has("visual"):
        return text
    return multimodal(config, text, _vision(config.section("visual")))


def _vision(config: Config) -> list[Weight]:
    """A ViT-bigG, then a resampler of 256 learned queries. Defaults: Qwen-VL-Chat's config."""
    at, part = "transformer.visual", Part.VISION
    tower = read_tower(
        config, layers=48, hidden=1664, heads=16, intermediate=8192, image=448, patch=14
    )
    wide = config.integer("output_dim", default=4096)
    pool = f"{at}.attn_pool"
    return [
        patch_conv(f"{at}.conv1", tower, bias=False),
        array(f"{at}.positional_embedding", QUERIES, tower.hidden, part=part),
        layer_norm(f"{at}.ln_pre", tower.hidden, part=part),
        *encoder_layers(
            f"{at}.transformer.resblocks.{{layer}}",
            tower.hidden,
            tower.intermediate,
            tower.all_layers,
            attention="attn",
            qkvo=("in_proj", "out_proj"),
            mlp=("mlp.c_fc", "mlp.c_proj"),
            norms=("ln_1", "ln_2"),
        ),
        array(f"{pool}.pos_embed", QUERIES, wide, part=part),
        array(f"{pool}.query", QUERIES, wide, part=part),
        linear(f"{pool}.kv_proj", wide, tower.hidden, part=part),
        *multihead(f"{pool}.attn", wide, part=part),
        layer_norm(f"{pool}.ln_q", wide, part=part),
        layer_norm(f"{pool}.ln_kv", wide, part=part),
        layer_norm(f"{at}.ln_post", wide, part=part),
        array(f"{at}.proj", wide, wide, part=part),
    ]
