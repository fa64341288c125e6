"""What Dots 3 Note sees and hears with: an image encoder of which the later layers route to ever more
experts, and a Whisper-like encoder with gated MLPs for sound.
"""

from typing import Any

from app.core.inventory import Part, Weight
from app.resolve.architectures.blocks_encoder import (
    conv,
    dense_chain,
    encoder_layers,
    layer_norm,
    mlp_layers,
    patch_conv,
    read_tower,
)
from app.resolve.architectures.common_weights import linear
from app.resolve.architectures.fields import MAX_LAYERS, Config
from app.resolve.architectures.llama_like import mixture

GATED = ("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")
PYRAMID = [-1] * 25 + [*range(4, 65, 4), 64]
"""Experts of each layer of the image encoder, -1 for an MLP."""


def sight(config: Config, at: str, width: int) -> list[Weight]:
    """Images; each square of patches becomes a token. Defaults: Dots3NoteVisionConfig."""
    tower = read_tower(config, layers=42, hidden=1536, heads=24, intermediate=4224)
    if tower.hidden % tower.heads:
        raise config.fail("num_attention_heads", f"{tower.heads} do not divide {tower.hidden}")
    places = tower.all_layers
    bias = config.boolean("attention_bias", "use_bias", default=False)
    merge = config.integer("adapter_merge_size", "spatial_merge_size", default=2, maximum=64)
    merged = tower.hidden * merge**2
    part = Part.VISION
    layers = encoder_layers(
        f"{at}.blocks.{{layer}}",
        tower.hidden,
        tower.intermediate,
        places,
        attention="attn",
        qkvo=("qkv", "proj"),
        biases=(bias, bias, bias, bias),
        norms=("norm1", "norm2"),
        norm_bias=False,
        qk_norms=("q_norm", "k_norm"),
        qk_norm_size=tower.hidden // tower.heads,
    )
    return [
        patch_conv(f"{at}.patch_embed.proj", tower),
        layer_norm(f"{at}.patch_embed.norm", tower.hidden, part=part, bias=False),
        *(weight for weight in layers if ".mlp." not in weight.name),
        *_experts(config, f"{at}.blocks.{{layer}}", tower.hidden, tower.intermediate, places),
        layer_norm(f"{at}.norm", tower.hidden, part=part, bias=False),
        layer_norm(f"{at}.merger.ln_q", tower.hidden, part=Part.PROJECTOR),
        *dense_chain(f"{at}.merger.mlp", ("0", merged, merged), ("2", width, merged)),
    ]


def _experts(
    config: Config, at: str, hidden: int, intermediate: int, places: tuple[int, ...]
) -> list[Weight]:
    """MLPs and mixtures: `pyramid_num_routed`, or the canonical `per_layer_config`."""
    counts = config.integers("pyramid_num_routed", minimum=-1, maximum=2**16)
    own = config.section("per_layer_config")
    if counts is None and own.data:
        counts = [own.section(str(i)).integer("num_local_experts", default=-1) for i in places]
    counts = config.per_layer(counts or PYRAMID, "pyramid_num_routed", len(places))
    top_k = config.integer("num_experts_per_tok", "capacity_factor", default=2)
    width = config.integer("moe_intermediate_size", default=2112)
    bias = config.boolean("mlp_bias", default=False)
    dense = [index for index in places if counts[index] < 1]
    weights = mlp_layers(at, hidden, intermediate, dense, part=Part.VISION, names=GATED, bias=bias)
    for count in sorted({count for count in counts if count > 0}):
        routed = mixture(
            at,
            hidden,
            width,
            [index for index in places if counts[index] == count],
            num_experts=count,
            top_k=top_k,
            correction="e_score_correction_bias",
            correction_is_buffer=True,
        )
        weights += [weight.moved(Part.VISION) for weight in routed]
    return weights


def hearing(config: Config, at: str, width: int) -> list[Weight]:
    """Sound through three strided convolutions. Published configs give Whisper's sizes in
    `whisper_config`. Defaults: Dots3NoteAudioConfig.
    """
    own = config.section("whisper_config")
    hidden = own.integer("d_model", default=config.integer("hidden_size", default=1280))
    depth = own.integer(
        "encoder_layers",
        default=config.integer("num_hidden_layers", default=32, maximum=MAX_LAYERS),
        maximum=MAX_LAYERS,
    )
    inner = own.integer(
        "encoder_ffn_dim", default=config.integer("intermediate_size", default=5120)
    )
    mels = own.integer("num_mel_bins", default=config.integer("feature_size", default=128))
    channels = config.integer("downsample_hidden_size", default=480)
    bias = config.boolean("attention_bias", default=True)
    part, projector = Part.AUDIO, Part.PROJECTOR
    common: dict[str, Any] = {"part": part}
    return [
        conv(f"{at}.conv_stem.convs.0", channels, 1, 3, 3, **common),
        conv(f"{at}.conv_stem.convs.1", channels, channels, 3, 3, **common),
        conv(f"{at}.conv_stem.convs.2", channels, channels, 3, 3, **common),
        linear(f"{at}.conv_stem.conv_out", hidden, channels * ((mels + 7) // 8), **common),
        *encoder_layers(
            f"{at}.layers.{{layer}}",
            hidden,
            inner,
            range(depth),
            part=part,
            qkvo=("q_proj", "k_proj", "v_proj", "o_proj"),
            biases=(bias, False, bias, bias),
            mlp=("mlp.gate_up_proj", "mlp.gate_up_proj", "mlp.down_proj"),
            norms=("input_layernorm", "post_attention_layernorm"),
            norm_bias=False,
        ),
        layer_norm(f"{at}.layer_norm", hidden, part=part, bias=False),
        layer_norm(f"{at}.adapter.norm", hidden, part=projector),
        *dense_chain(f"{at}.adapter", ("fc1", width, hidden), ("fc2", width, width)),
    ]
