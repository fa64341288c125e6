"""T5, mT5, umT5, FLAN-T5 and what else is published as them."""

from dataclasses import dataclass
from typing import Any

from app.core.inventory import Part, Split, Weight
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_encoder import array
from app.resolve.architectures.blocks_seq2seq import (
    Stack,
    attention_weights,
    encoder_shape,
    has_sides,
    sentence_layer,
    seq2seq_shape,
    stack_dims,
)
from app.resolve.architectures.common_weights import linear, vector
from app.resolve.architectures.fields import MAX_LAYERS, Config
from app.resolve.architectures.task_heads import ends

LONGEST_INPUT = "relative positions set no limit to the encoder's input: {tokens} tokens are taken"
QKVO = ("q", "k", "v", "o")


@dataclass(frozen=True, kw_only=True, slots=True)
class Defaults:
    """What differs between the classes; `bias_everywhere` is umT5's bias in each layer."""

    vocab: int = 250112
    layers: int = 8
    heads: int = 6
    ffn: int = 1024
    projection: str = "gated-gelu"
    bias_everywhere: bool = False


CLASSES = {
    "t5": Defaults(vocab=32128, layers=6, heads=8, ffn=2048, projection="relu"),
    "mt5": Defaults(),
    "umt5": Defaults(bias_everywhere=True),
}


@family(
    *CLASSES,
    architectures=(
        "T5ForConditionalGeneration",
        "MT5ForConditionalGeneration",
        "UMT5ForConditionalGeneration",
        "T5WithLMHeadModel",
        "T5EncoderModel",
        "MT5EncoderModel",
        "UMT5EncoderModel",
    ),
)
def t5(config: Config) -> ModelShape:
    """Every decoder layer caches its tokens and the encoder's output; heads of `d_kv`, no biases,
    one bias by relative position a stack. Labels of tokens come from the encoder alone. Defaults:
    T5Config, MT5Config, UMT5Config.
    """
    own = CLASSES.get(config.text("model_type"), CLASSES["t5"])
    width = config.integer("d_model", default=512)
    layers = config.integer(
        "num_layers", "num_hidden_layers", default=own.layers, maximum=MAX_LAYERS
    )
    heads = config.integer("num_heads", "num_attention_heads", default=own.heads)
    head_dim = config.integer("d_kv", default=64)
    ffn = config.integer("d_ff", default=own.ffn)
    decoder = Stack(
        layers=config.integer("num_decoder_layers", default=layers, maximum=MAX_LAYERS),
        heads=heads,
        head_dim=head_dim,
        ffn=ffn,
    )
    encoder = Stack(layers=layers, heads=heads, head_dim=head_dim, ffn=ffn)
    gated = config.text("feed_forward_proj", default=own.projection).startswith("gated-")
    vocab = config.integer("vocab_size", default=own.vocab)
    buckets = config.integer("relative_attention_num_buckets", default=32)
    tokens = config.integer("n_positions", default=512)
    # The head is stored apart from the embedding where the checkpoint unties it (T5 1.1).
    tied = config.boolean("tie_word_embeddings", default=True)
    weights = [
        Weight(name="shared", shape=(vocab, width), part=Part.EMBEDDING, split=Split.VOCAB),
        *_stack("encoder", encoder, width, buckets, gated=gated, own=own),
    ]
    if not has_sides(config)[1] or ends(config, "ForTokenClassification"):
        return encoder_shape(config, stack_dims(encoder, width, vocab, tokens), weights)
    weights += _stack("decoder", decoder, width, buckets, gated=gated, own=own, cross=True)
    weights += sentence_layer(config, width)
    if not tied:
        weights.append(linear("lm_head", vocab, width, part=Part.HEAD, split=Split.VOCAB))
    return seq2seq_shape(
        config,
        decoder,
        weights,
        width=width,
        vocab=vocab,
        encoder_tokens=tokens,
        max_positions=tokens,
        tied=tied,
        assumptions=(LONGEST_INPUT.format(tokens=tokens),),
    )


def _stack(
    at: str,
    stack: Stack,
    width: int,
    buckets: int,
    *,
    gated: bool,
    own: Defaults,
    cross: bool = False,
) -> list[Weight]:
    inside = f"{at}.block.{{layer}}.layer"
    layers = stack.all_layers
    inner = stack.heads * stack.head_dim
    last = 2 if cross else 1
    common: dict[str, Any] = {"part": Part.MLP, "layers": layers}
    dense = f"{inside}.{last}.DenseReluDense"
    weights = attention_weights(
        f"{inside}.0.SelfAttention", width, inner, layers, names=QKVO, bias=False
    )
    if cross:
        weights += attention_weights(
            f"{inside}.1.EncDecAttention", width, inner, layers, names=QKVO, bias=False
        )
    return [
        *weights,
        *(
            linear(f"{dense}.{name}", stack.ffn, width, split=Split.COLUMN, **common)
            for name in (("wi_0", "wi_1") if gated else ("wi",))
        ),
        linear(f"{dense}.wo", width, stack.ffn, split=Split.ROW, **common),
        *(vector(f"{inside}.{n}.layer_norm", width, layers=layers) for n in range(last + 1)),
        array(
            f"{inside}.0.SelfAttention.relative_attention_bias",
            buckets,
            stack.heads,
            part=Part.ATTENTION,
            layers=layers if own.bias_everywhere else layers[:1],
        ),
        vector(f"{at}.final_layer_norm", width),
    ]
