"""Moondream 3: attention beside an MLP or a mixture, scaled by token and position, behind a ViT."""

from app.core.inventory import Part, Weight
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_encoder import (
    array,
    dense_chain,
    encoder_layers,
    layer_norm,
    mlp_layers,
)
from app.resolve.architectures.blocks_moe import Moe
from app.resolve.architectures.common_shape import (
    Dims,
    attention_part,
    model_shape,
    read_dims,
    uniform_groups,
)
from app.resolve.architectures.common_weights import (
    attention,
    linear,
    norms,
    routed_experts,
    router,
    vector,
    vocabulary,
)
from app.resolve.architectures.fields import Config
from app.resolve.architectures.multimodal import MULTIMODAL, PREFIX_LM, multimodal

AT = "model.text.blocks.{layer}"
VISION, PROJECTOR, OTHER = Part.VISION, Part.PROJECTOR, Part.OTHER
VIEWS = 2
"""The whole image and its crops, which the projector reads side by side."""


@family("moondream3", architectures=("Moondream3ForCausalLM",))
def moondream3(config: Config) -> ModelShape:
    """The text model's cache. Published configs state no sizes: defaults are those of the engine's
    Moondream3Config and, for the heads that read and write points and boxes, kestrel's RegionConfig.
    """
    stated = config.section("config")
    text = stated.section("text")
    dims = read_dims(
        text.overlay(intermediate_size=text.get("ff_dim"), max_seq_len=text.get("max_context")),
        layers=24,
        hidden=2048,
        heads=32,
        kv_heads=32,
        intermediate=8192,
        vocab=51200,
        max_positions=4096,
    )
    shape = model_shape(
        text, dims, groups=uniform_groups(dims, attention_part(dims)), weights=_text(text, dims)
    )
    towers = [
        *_vision(stated.section("vision"), dims.hidden),
        *_region(stated.section("region"), dims.hidden),
    ]
    heads = stated.section("vision").integer("enc_n_heads", default=16)
    return multimodal(config, shape, towers, traits=(MULTIMODAL, PREFIX_LM), tower_heads=heads)


def _text(config: Config, dims: Dims) -> list[Weight]:
    stated = config.section("moe")
    moe = Moe(
        num_experts=stated.integer("num_experts", "n_experts", default=64),
        top_k=stated.integer("experts_per_token", "n_experts_per_tok", default=8),
        width=stated.integer("expert_inner_dim", default=1024),
    )
    start = stated.integer("start_layer", default=4, minimum=0)
    size, layers = dims.hidden, dims.all_layers
    dense, routed = layers[:start], layers[start:]
    qkv = (dims.heads + 2 * dims.kv_heads) * dims.head_dim
    names, tau = ("qkv", "qkv", "qkv", "proj"), f"{AT}.attn.tau"
    weights = [
        *vocabulary(dims, embed="model.text.wte", head="model.text.lm_head", head_bias=True),
        *attention(AT, dims, layers, bias=True, out_bias=True, names=names, module="attn"),
        array(f"{tau}.alpha", dims.heads, part=Part.ATTENTION, layers=layers),
        array(f"{tau}.wq", dims.heads, qkv, part=Part.ATTENTION, layers=layers),
        array(f"{tau}.wv", dims.heads, qkv, part=Part.ATTENTION, layers=layers),
        *norms(AT, size, layers, "ln", bias=True),
        vector("model.text.post_ln", size, bias=True),
    ]
    if dense:
        mlp = ("mlp.fc1", "mlp.fc2")
        weights += mlp_layers(AT, size, dims.intermediate, dense, part=Part.MLP, names=mlp)
    if routed:
        weights += [
            router(AT, size, moe.num_experts, routed, module="mlp.router", bias=True),
            *routed_experts(
                AT,
                size,
                moe.width,
                routed,
                num_experts=moe.num_experts,
                top_k=moe.top_k,
                module="mlp",
                names=("fc1", "fc1", "fc2"),
            ),
        ]
    return weights


def _vision(config: Config, text_width: int) -> list[Weight]:
    width = config.integer("enc_dim", default=1152)
    patch = config.integer("enc_patch_size", default=14, maximum=1024)
    side = config.integer("crop_size", default=378, maximum=2**16) // patch
    inner = config.integer("proj_inner_dim", default=8192)
    at, layers = "model.vision", range(config.integer("enc_n_layers", default=27, maximum=1024))
    return [
        linear(f"{at}.patch_emb", width, 3 * patch**2, part=VISION, bias=True),
        array(f"{at}.pos_emb", side**2, width, part=VISION),
        *encoder_layers(
            f"{at}.blocks.{{layer}}",
            width,
            config.integer("enc_ff_dim", default=4304),
            layers,
            attention="attn",
            qkvo=("qkv", "proj"),
            norms=("ln1", "ln2"),
        ),
        layer_norm(f"{at}.post_ln", width, part=VISION),
        *dense_chain(f"{at}.proj_mlp", ("fc1", inner, VIEWS * width), ("fc2", text_width, inner)),
    ]


def _region(config: Config, width: int) -> list[Weight]:
    """Fourier features of coordinates and sizes, and heads that predict their bins."""
    at, weights = "model.region", []
    for name, numbers, features, bins in (("coord", 1, 256, 1024), ("size", 2, 512, 2048)):
        wide = config.integer(f"{name}_feat_dim", default=features)
        out = config.integer(f"{name}_out_dim", default=bins)
        weights += [
            array(f"{at}.{name}_features", numbers, wide // 2, part=OTHER),
            linear(f"{at}.{name}_encoder", width, wide, part=OTHER, bias=True),
            linear(f"{at}.{name}_decoder", out, width, part=OTHER, bias=True),
        ]
    return [*weights, layer_norm(f"{at}.ln", width, part=OTHER)]
