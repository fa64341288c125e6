"""The vocoder of Qwen2.5-Omni: a diffusion transformer that makes mel frames of codec tokens, with
a speaker encoder, and BigVGAN, which makes sound of them.
"""

from collections.abc import Sequence
from typing import Any

from app.core.inventory import Part, Weight
from app.resolve.architectures.blocks_encoder import array, conv
from app.resolve.architectures.common_weights import linear
from app.resolve.architectures.fields import MAX_LAYERS, Config

PART = Part.AUDIO


def token2wav(config: Config, at: str) -> list[Weight]:
    """Both halves. Defaults: Qwen2_5OmniToken2WavConfig."""
    return [
        *_diffusion(config.section("dit_config"), f"{at}.code2wav_dit_model"),
        *_big_vgan(config.section("bigvgan_config"), f"{at}.code2wav_bigvgan_model"),
    ]


def _diffusion(config: Config, at: str) -> list[Weight]:
    hidden = config.integer("hidden_size", default=1024)
    layers = range(config.integer("num_hidden_layers", default=22, maximum=MAX_LAYERS))
    inner = config.integer("num_attention_heads", default=16) * config.integer(
        "head_dim", default=64
    )
    ffn = hidden * config.integer("ff_mult", default=2, maximum=1024)
    mel = config.integer("mel_dim", default=80)
    codec = config.integer("emb_dim", default=512)
    speaker = config.integer("enc_dim", default=128)
    inputs = mel + speaker + config.integer("enc_emb_dim", default=192) + codec
    block = f"{at}.transformer_blocks.{{layer}}"
    common: dict[str, Any] = {"part": PART, "layers": layers, "bias": True}
    return [
        linear(f"{at}.time_embed.time_mlp.0", hidden, 256, part=PART, bias=True),
        linear(f"{at}.time_embed.time_mlp.2", hidden, hidden, part=PART, bias=True),
        array(
            f"{at}.text_embed.codec_embed",
            config.integer("num_embeds", default=8193) + 1,
            codec,
            part=PART,
        ),
        linear(f"{at}.input_embed.proj", hidden, inputs, part=PART, bias=True),
        *_speaker_encoder(config, f"{at}.input_embed.spk_encoder", mel, speaker),
        linear(f"{block}.attn_norm.linear", 6 * hidden, hidden, **common),
        *(
            linear(f"{block}.attn.{name}", inner, hidden, **common)
            for name in ("to_q", "to_k", "to_v")
        ),
        linear(f"{block}.attn.to_out.0", hidden, inner, **common),
        linear(f"{block}.ff.ff.0", ffn, hidden, **common),
        linear(f"{block}.ff.ff.3", hidden, ffn, **common),
        linear(f"{at}.norm_out.linear", 2 * hidden, hidden, part=PART, bias=True),
        linear(f"{at}.proj_out", mel, hidden, part=PART, bias=True),
    ]


def _speaker_encoder(config: Config, at: str, mel: int, out: int) -> list[Weight]:
    """ECAPA-TDNN (arXiv:2005.07143)."""
    channels = config.integers("enc_channels", minimum=1) or [256, 256, 256, 256, 768]
    kernels = config.integers("enc_kernel_sizes", minimum=1, maximum=4096) or [5, 3, 3, 3, 1]
    if len(kernels) != len(channels):
        raise config.fail("enc_kernel_sizes", "must have one entry for each of enc_channels")
    scale = config.integer("enc_res2net_scale", default=2, maximum=1024)
    squeeze = config.integer("enc_se_channels", default=64)
    attended = config.integer("enc_attention_channels", default=64)
    last = channels[-1]
    weights = [
        conv(f"{at}.blocks.0.conv", channels[0], mel, kernels[0], part=PART),
        conv(f"{at}.mfa.conv", last, last, kernels[-1], part=PART),
        conv(f"{at}.asp.tdnn.conv", attended, 3 * last, 1, part=PART),
        conv(f"{at}.asp.conv", last, attended, 1, part=PART),
        conv(f"{at}.fc", out, 2 * last, 1, part=PART),
    ]
    for index in range(1, len(channels) - 1):
        width = channels[index]
        inside = f"{at}.blocks.{index}"
        weights += [
            conv(f"{inside}.tdnn1.conv", width, channels[index - 1], 1, part=PART),
            conv(
                f"{inside}.res2net_block.blocks.{{layer}}.conv",
                width // scale,
                width // scale,
                kernels[index],
                part=PART,
                layers=range(scale - 1),
            ),
            conv(f"{inside}.tdnn2.conv", width, width, 1, part=PART),
            conv(f"{inside}.se_block.conv1", squeeze, width, 1, part=PART),
            conv(f"{inside}.se_block.conv2", width, squeeze, 1, part=PART),
        ]
    return weights


def _big_vgan(config: Config, at: str) -> list[Weight]:
    """BigVGAN (arXiv:2206.04658): each stage halves the channels and lengthens the signal."""
    width = config.integer("upsample_initial_channel", default=1536)
    mel = config.integer("mel_dim", default=80)
    ups = config.integers("upsample_kernel_sizes", minimum=1, maximum=4096) or [11, 7, 4, 4, 4, 4]
    kernels = config.integers("resblock_kernel_sizes", minimum=1, maximum=4096) or [3, 7, 11]
    dilations = _dilations(config, len(kernels))
    weights = [conv(f"{at}.conv_pre", width, mel, 7, part=PART)]
    for stage, kernel in enumerate(ups[:32]):
        before, after = width >> stage, width >> (stage + 1)
        weights.append(array(f"{at}.ups.{stage}.0", before, after, kernel, part=PART, bias=after))
        for block, (size, count) in enumerate(zip(kernels, dilations, strict=True)):
            inside = f"{at}.resblocks.{stage * len(kernels) + block}"
            weights += [
                conv(f"{inside}.convs", after, after, size, part=PART, layers=range(2 * count)),
                array(f"{inside}.activations.act", 2, after, part=PART, layers=range(2 * count)),
            ]
    last = width >> len(ups[:32])
    return [
        *weights,
        array(f"{at}.activation_post.act", 2, last, part=PART),
        conv(f"{at}.conv_post", 1, last, 7, part=PART, bias=False),
    ]


def _dilations(config: Config, kernels: int) -> list[int]:
    """How many dilations each residual block has."""
    stated = config.sequence("resblock_dilation_sizes")
    if stated is None:
        return [3] * kernels
    if len(stated) != kernels or not all(isinstance(entry, Sequence) for entry in stated):
        raise config.fail("resblock_dilation_sizes", "must be a list of lists, one a kernel size")
    return [len(entry) for entry in stated]
