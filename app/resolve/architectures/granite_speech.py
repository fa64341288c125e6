"""Granite Speech and Speech Plus: Granite behind a conformer and a query transformer."""

from typing import Any

from app.core.inventory import Part, Weight
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_encoder import array, conv, layer_norm
from app.resolve.architectures.blocks_qformer import qformer
from app.resolve.architectures.common_weights import linear
from app.resolve.architectures.fields import MAX_LAYERS, Config
from app.resolve.architectures.multimodal import multimodal, text_model

AUDIO = Part.AUDIO


@family(
    "granite_speech",
    "granite_speech_plus",
    architectures=(
        "GraniteSpeechForConditionalGeneration",
        "GraniteSpeechPlusForConditionalGeneration",
    ),
)
def granite_speech(config: Config) -> ModelShape:
    """The text model's cache; windows of `window_size` frames become `window_size` /
    `downsample_rate` tokens. The LoRA adapter published beside it is not counted. Defaults:
    GraniteSpeechConfig.
    """
    text = text_model(config, prefix="language_model.", model_type="granite", tied=True)
    encoder = config.section("encoder_config")
    hidden = encoder.integer("hidden_dim", default=1024)
    projector = config.section("projector_config")
    width = projector.integer("hidden_size", default=768)
    tokens = config.integer("window_size", default=15) // config.integer(
        "downsample_rate", default=5
    )
    weights = [
        *_conformer(encoder, "encoder", hidden),
        array("projector.query", 1, tokens, width, part=Part.PROJECTOR),
        *qformer(
            projector,
            "projector.qformer",
            source=projector.integer("encoder_hidden_size", default=1408),
        ),
        linear("projector.linear", text.hidden_size, width, part=Part.PROJECTOR, bias=True),
    ]
    classes = encoder.integer("output_dim", default=42)
    return multimodal(config, text, weights, tower_widths=(classes,))


def _conformer(config: Config, at: str, hidden: int) -> list[Weight]:
    """Two half MLPs around attention with relative positions and a convolution, and a CTC head
    halfway. Defaults: GraniteSpeechEncoderConfig.
    """
    depth = config.integer("num_layers", default=10, maximum=MAX_LAYERS)
    heads = config.integer("num_heads", default=8)
    head_dim = config.integer("dim_head", default=max(1, hidden // heads))
    ffn = hidden * config.integer("feedforward_mult", default=4, maximum=1024)
    inner = hidden * config.integer("conv_expansion_factor", default=2, maximum=1024)
    kernel = config.integer("conv_kernel_size", default=15, maximum=4096)
    positions = 2 * config.integer("max_pos_emb", default=512) + 1
    features = config.integer("input_dim", default=160)
    out = config.integer("output_dim", default=42)
    layers = range(depth)
    inside = f"{at}.layers.{{layer}}"
    width = heads * head_dim
    common: dict[str, Any] = {"part": AUDIO, "layers": layers}
    weights = [
        linear(f"{at}.input_linear", hidden, features, part=AUDIO, bias=True),
        linear(f"{at}.out", out, hidden, part=AUDIO, bias=True),
        linear(f"{at}.out_mid", hidden, out, part=AUDIO, bias=True),
        layer_norm(f"{inside}.attn.pre_norm", hidden, **common),
        linear(f"{inside}.attn.to_q", width, hidden, **common),
        linear(f"{inside}.attn.to_kv", 2 * width, hidden, **common),
        linear(f"{inside}.attn.to_out", hidden, width, bias=True, **common),
        array(f"{inside}.attn.rel_pos_emb", positions, head_dim, **common),
        layer_norm(f"{inside}.conv.norm", hidden, **common),
        conv(f"{inside}.conv.up_conv", 2 * inner, hidden, 1, **common),
        conv(f"{inside}.conv.depth_conv.conv", inner, 1, kernel, bias=False, **common),
        layer_norm(f"{inside}.conv.batch_norm", inner, **common),
        conv(f"{inside}.conv.down_conv", hidden, inner, 1, **common),
        layer_norm(f"{inside}.post_norm", hidden, **common),
    ]
    for name in ("ff1", "ff2"):
        weights += [
            layer_norm(f"{inside}.{name}.pre_norm", hidden, **common),
            linear(f"{inside}.{name}.up_proj", ffn, hidden, bias=True, **common),
            linear(f"{inside}.{name}.down_proj", hidden, ffn, bias=True, **common),
        ]
    return weights
