"""T5Gemma and Moonshine: encoder-decoders with the layers of later decoder-only models."""

from dataclasses import replace
from typing import Any

from app.core.cache import CrossAttention, FullAttention, SlidingWindow
from app.core.inventory import Part, Split, Weight
from app.core.model import LayerGroup, ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_encoder import conv, encoder_layers, layer_norm
from app.resolve.architectures.blocks_seq2seq import attention_weights, encoder_shape, has_sides
from app.resolve.architectures.common_shape import Dims, model_shape
from app.resolve.architectures.common_weights import attention, gated_mlp, linear, norms, vector
from app.resolve.architectures.fields import MAX_LAYERS, Config
from app.resolve.architectures.gemma import gemma2_dims
from app.resolve.architectures.llama_like import every_nth_full, layer_windows, window_size
from app.resolve.architectures.multimodal import MULTIMODAL
from app.resolve.architectures.task_heads import ENCODER_DECODER

LONGEST_INPUT = "the encoder's input is taken at its longest, {tokens} tokens"
QKVO = ("q_proj", "k_proj", "v_proj", "o_proj")


@family("t5gemma", architectures=("T5GemmaForConditionalGeneration", "T5GemmaEncoderModel"))
def t5gemma(config: Config) -> ModelShape:
    """Gemma 2 on both sides: decoder layers window or keep their own tokens in turn, and keep the
    encoder's output; some classes are the encoder alone. Defaults: T5GemmaModuleConfig.
    """
    encoder = gemma2_dims(config.section("encoder"))
    if not (has_sides(config)[1] and config.boolean("is_encoder_decoder", default=True)):
        return encoder_shape(config, encoder, _stack("encoder", encoder))
    section = config.section("decoder")
    decoder = gemma2_dims(section)
    windows = layer_windows(
        section,
        decoder.layers,
        window_size(section, default=4096),
        default=every_nth_full(decoder.layers, 2),
    )
    tokens = encoder.max_positions or decoder.hidden
    tied = config.boolean("tie_word_embeddings", default=True)
    weights = [*_stack("model.encoder", encoder), *_stack("model.decoder", decoder)]
    cross = "model.decoder.layers.{layer}"
    sized = attention_weights(
        f"{cross}.cross_attn",
        decoder.hidden,
        decoder.heads * decoder.head_dim,
        decoder.all_layers,
        names=QKVO,
        bias=section.boolean("attention_bias", default=False),
        source=encoder.hidden,
        kv_inner=decoder.kv_heads * decoder.head_dim,
    )
    names = ("pre_cross_attn_layernorm", "post_cross_attn_layernorm")
    weights += [*sized, *norms(cross, decoder.hidden, decoder.all_layers, *names)]
    if not tied:
        head = "lm_head.out_proj"
        weights.append(
            linear(head, decoder.vocab, decoder.hidden, part=Part.HEAD, split=Split.VOCAB)
        )
    sizes = {
        "num_key_value_heads": decoder.kv_heads,
        "head_dim": decoder.head_dim,
        "v_head_dim": decoder.head_dim,
    }
    whole = CrossAttention(**sizes, encoder_tokens=tokens)
    groups = []
    for window in dict.fromkeys(windows):
        own = FullAttention(**sizes) if window is None else SlidingWindow(**sizes, window=window)
        members = tuple(index for index, other in enumerate(windows) if other == window)
        groups.append(
            LayerGroup(layers=members, parts=(own, whole), num_attention_heads=decoder.heads)
        )
    return model_shape(
        config,
        replace(decoder, tied=tied),
        groups=tuple(groups),
        weights=weights,
        traits=(ENCODER_DECODER,),
        assumptions=(LONGEST_INPUT.format(tokens=tokens),),
    )


def _stack(at: str, dims: Dims) -> list[Weight]:
    layer = f"{at}.layers.{{layer}}"
    names = (
        "pre_self_attn_layernorm",
        "post_self_attn_layernorm",
        "pre_feedforward_layernorm",
        "post_feedforward_layernorm",
    )
    return [
        Weight(
            name=f"{at}.embed_tokens",
            shape=(dims.vocab, dims.hidden),
            part=Part.EMBEDDING,
            split=Split.VOCAB,
        ),
        *attention(layer, dims, dims.all_layers),
        *gated_mlp(layer, dims.hidden, dims.intermediate, dims.all_layers),
        *norms(layer, dims.hidden, dims.all_layers, *names),
        vector(f"{at}.norm", dims.hidden),
    ]


@family("moonshine", architectures=("MoonshineForConditionalGeneration",))
def moonshine(config: Config) -> ModelShape:
    """Raw sound through three convolutions; the decoder's MLPs are gated. The input is as long as
    the sound is: the encoder's output is taken at `max_position_embeddings`. Defaults:
    MoonshineConfig.
    """
    width = config.integer("hidden_size", default=288)
    ffn = config.integer("intermediate_size", default=1152)
    vocab = config.integer("vocab_size", default=32768)
    tokens = config.integer("max_position_embeddings", default=512)
    tied = config.boolean("tie_word_embeddings", default=True)
    bias = config.boolean("attention_bias", default=False)
    heads = config.integer("decoder_num_attention_heads", "num_attention_heads", default=8)
    kv_heads = config.integer("decoder_num_key_value_heads", "num_key_value_heads", default=heads)
    listening = config.integer("encoder_num_attention_heads", default=8)
    listening_kv = config.integer("encoder_num_key_value_heads", default=listening)
    if width % heads or width % listening:
        raise config.fail("decoder_num_attention_heads", f"do not divide hidden_size {width}")
    head_dim = width // heads
    ears = range(config.integer("encoder_num_hidden_layers", default=6, maximum=MAX_LAYERS))
    depth = config.integer(
        "decoder_num_hidden_layers", "num_hidden_layers", default=6, maximum=MAX_LAYERS
    )
    layers = tuple(range(depth))
    layer = "model.decoder.layers.{layer}"
    common: dict[str, Any] = {"part": Part.MLP, "layers": layers, "bias": True}
    weights = [
        Weight(
            name="model.decoder.embed_tokens",
            shape=(vocab, width),
            part=Part.EMBEDDING,
            split=Split.VOCAB,
        ),
        conv("model.encoder.conv1", width, 1, 127, part=Part.OTHER, bias=False),
        conv("model.encoder.conv2", 2 * width, width, 7, part=Part.OTHER),
        conv("model.encoder.conv3", width, 2 * width, 3, part=Part.OTHER),
        layer_norm("model.encoder.groupnorm", width, part=Part.OTHER),
        *encoder_layers(
            "model.encoder.layers.{layer}",
            width,
            ffn,
            ears,
            part=Part.OTHER,
            qkvo=QKVO,
            kv_width=listening_kv * (width // listening),
            biases=(bias, bias, bias, False),
            norms=("input_layernorm", "post_attention_layernorm"),
            norm_bias=False,
        ),
        vector("model.encoder.layer_norm", width),
        linear(f"{layer}.mlp.fc1", 2 * ffn, width, split=Split.COLUMN, **common),
        linear(f"{layer}.mlp.fc2", width, ffn, split=Split.ROW, **common),
        *norms(
            layer, width, layers, "input_layernorm", "post_attention_layernorm", "final_layernorm"
        ),
        vector("model.decoder.norm", width),
    ]
    for module in ("self_attn", "encoder_attn"):
        *qkv, out = attention_weights(
            f"{layer}.{module}",
            width,
            heads * head_dim,
            layers,
            names=QKVO,
            bias=bias,
            kv_inner=kv_heads * head_dim,
        )
        weights += [*qkv, replace(out, bias=0)]
    if not tied:
        weights.append(linear("proj_out", vocab, width, part=Part.HEAD, split=Split.VOCAB))
    sizes = {"num_key_value_heads": kv_heads, "head_dim": head_dim, "v_head_dim": head_dim}
    parts = (FullAttention(**sizes), CrossAttention(**sizes, encoder_tokens=tokens))
    dims = Dims(
        layers=depth,
        hidden=width,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        intermediate=ffn,
        vocab=vocab,
        max_positions=tokens,
        tied=tied,
    )
    return model_shape(
        config,
        dims,
        groups=(LayerGroup(layers=layers, parts=parts, num_attention_heads=heads),),
        weights=weights,
        traits=(ENCODER_DECODER, MULTIMODAL),
        assumptions=(LONGEST_INPUT.format(tokens=tokens),),
    )
