"""Cohere's speech recogniser: a Parakeet conformer and a small decoder that looks at all of it."""

from collections.abc import Mapping
from typing import Any

from app.core.inventory import Part, Split, Weight
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_encoder import array, conv, layer_norm
from app.resolve.architectures.blocks_seq2seq import Stack, attention_weights, seq2seq_shape
from app.resolve.architectures.common_shape import read_dims
from app.resolve.architectures.common_weights import linear, vector
from app.resolve.architectures.fields import MAX_LAYERS, Config
from app.resolve.architectures.multimodal import MULTIMODAL, filled
from app.resolve.architectures.task_heads import ENCODER_DECODER

AUDIO = Part.AUDIO
ENCODER: Mapping[str, Any] = {
    "hidden_size": 1280,
    "num_hidden_layers": 48,
    "num_attention_heads": 8,
    "intermediate_size": 5120,
    "attention_bias": True,
    "convolution_bias": True,
    "conv_kernel_size": 9,
    "subsampling_factor": 8,
    "subsampling_conv_channels": 256,
    "num_mel_bins": 128,
    "subsampling_conv_kernel_size": 3,
    "max_position_embeddings": 5000,
}
QKVO = ("q_proj", "k_proj", "v_proj", "o_proj")


@family("cohere_asr", architectures=("CohereAsrForConditionalGeneration",))
def cohere_asr(config: Config) -> ModelShape:
    """Every decoder layer caches its tokens and, once, the encoder's output, taken at its longest.
    Defaults: CohereAsrConfig. The older published form (`transf_decoder`, `encoder`) is refused.
    """
    if config.has("transf_decoder"):
        raise config.fail("transf_decoder", "is a form of this config that is not known")
    encoder = filled(config.section("encoder_config"), model_type="parakeet", defaults=ENCODER)
    dims = read_dims(
        config,
        layers=8,
        hidden=1024,
        heads=8,
        intermediate=4096,
        vocab=16384,
        max_positions=1024,
    )
    bias = config.boolean("attention_bias", default=True)
    layers = dims.all_layers
    hidden = dims.hidden
    width = dims.heads * dims.head_dim
    kv_width = dims.kv_heads * dims.head_dim
    source = encoder.integer("hidden_size")
    positions = config.integer("max_position_embeddings", default=1024)
    layer = "model.decoder.layers.{layer}"
    common: dict[str, Any] = {"part": Part.MLP, "layers": layers, "bias": True}
    weights = [
        Weight(
            name="model.decoder.embed_tokens",
            shape=(dims.vocab, hidden),
            part=Part.EMBEDDING,
            split=Split.VOCAB,
        ),
        *_conformer(encoder, "model.encoder"),
        linear("model.decoder.proj", hidden, source, part=Part.PROJECTOR, bias=True),
        array("model.decoder.pos_emb", positions, hidden, part=Part.OTHER),
        vector("model.decoder.embedding_layernorm", hidden, bias=True),
        vector("model.decoder.norm", hidden, bias=True),
        linear(f"{layer}.mlp.fc1", dims.intermediate, hidden, split=Split.COLUMN, **common),
        linear(f"{layer}.mlp.fc2", hidden, dims.intermediate, split=Split.ROW, **common),
        *(
            vector(f"{layer}.{name}", hidden, layers=layers, bias=True)
            for name in ("input_layernorm", "post_attention_layernorm", "final_layernorm")
        ),
    ]
    for module in ("self_attn", "encoder_attn"):
        weights += attention_weights(
            f"{layer}.{module}", hidden, width, layers, names=QKVO, bias=bias, kv_inner=kv_width
        )
    if dims.tied:
        weights.append(array("proj_out.bias", dims.vocab, part=Part.HEAD))
    else:
        weights.append(
            linear("proj_out", dims.vocab, hidden, part=Part.HEAD, bias=True, split=Split.VOCAB)
        )
    return seq2seq_shape(
        config,
        Stack(layers=dims.layers, heads=dims.heads, head_dim=dims.head_dim, ffn=dims.intermediate),
        weights,
        width=hidden,
        vocab=dims.vocab,
        encoder_tokens=encoder.integer("max_position_embeddings"),
        max_positions=positions,
        tied=dims.tied,
        kv_heads=dims.kv_heads,
        traits=(ENCODER_DECODER, MULTIMODAL),
    )


def _conformer(config: Config, at: str) -> list[Weight]:
    """Half an MLP, attention with relative positions, a convolution, half an MLP. Defaults:
    ParakeetEncoderConfig as Cohere overrides it.
    """
    hidden = config.integer("hidden_size")
    ffn = config.integer("intermediate_size")
    layers = range(config.integer("num_hidden_layers", maximum=MAX_LAYERS))
    channels = config.integer("subsampling_conv_channels")
    factor = config.integer("subsampling_factor", maximum=4096)
    side = config.integer("subsampling_conv_kernel_size", maximum=4096)
    kernel = config.integer("conv_kernel_size", maximum=4096)
    bias = config.boolean("attention_bias", default=True)
    conv_bias = config.boolean("convolution_bias", default=True)
    steps = max(1, factor.bit_length() - 1)
    bins = -(-config.integer("num_mel_bins") // factor)
    sub, layer = f"{at}.subsampling", f"{at}.layers.{{layer}}"
    common: dict[str, Any] = {"part": AUDIO, "layers": layers}
    later: dict[str, Any] = {"part": AUDIO, "layers": range(steps - 1)}
    weights = [
        conv(f"{sub}.layers.0", channels, 1, side, side, part=AUDIO),
        conv(f"{sub}.depthwise.{{layer}}", channels, 1, side, side, **later),
        conv(f"{sub}.pointwise.{{layer}}", channels, channels, 1, 1, **later),
        linear(f"{sub}.linear", hidden, channels * bins, part=AUDIO, bias=True),
        linear(f"{layer}.self_attn.relative_k_proj", hidden, hidden, **common),
        array(f"{layer}.self_attn.bias_u", hidden, **common),
        array(f"{layer}.self_attn.bias_v", hidden, **common),
        conv(f"{layer}.conv.pointwise_conv1", 2 * hidden, hidden, 1, bias=conv_bias, **common),
        conv(f"{layer}.conv.depthwise_conv", hidden, 1, kernel, bias=conv_bias, **common),
        layer_norm(f"{layer}.conv.norm", hidden, **common),
        conv(f"{layer}.conv.pointwise_conv2", hidden, hidden, 1, bias=conv_bias, **common),
    ]
    weights += [
        linear(f"{layer}.self_attn.{name}", hidden, hidden, bias=bias, **common) for name in QKVO
    ]
    for name in ("feed_forward1", "feed_forward2"):
        weights += [
            linear(f"{layer}.{name}.linear1", ffn, hidden, bias=bias, **common),
            linear(f"{layer}.{name}.linear2", hidden, ffn, bias=bias, **common),
        ]
    norms = ("feed_forward1", "self_att", "conv", "feed_forward2", "out")
    return weights + [layer_norm(f"{layer}.norm_{name}", hidden, **common) for name in norms]
