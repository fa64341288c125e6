"""Text encoders with rotary positions: ModernBERT, NomicBERT, GTE, Jina embeddings 3, EuroBERT. They see
the whole text at once and cache nothing.
"""

from dataclasses import replace

from app.core.inventory import Part, Weight
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_bert import (
    BERT_HEADS,
    ROBERTA_HEADS,
    SENTENCES,
    TOKENS,
    WORDS,
    Heads,
    embeddings,
    encoder_dims,
    encoder_head,
    encoder_shape,
)
from app.resolve.architectures.common_shape import Dims
from app.resolve.architectures.common_weights import linear, vector
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import (
    ENCODER_ONLY,
    LLAMA,
    Names,
    attention_bias,
    llama_like,
    uncached,
)
from app.resolve.architectures.task_heads import POOLING, ends

MODERNBERT = Names(
    layer="layers.{layer}",
    embed="embeddings.tok_embeddings",
    norm="final_norm",
    norms=("mlp_norm",),
    attention="attn",
    qkvo=("Wqkv", "Wqkv", "Wqkv", "Wo"),
    mlp=("Wi", "Wi", "Wo"),
)
ROTARY = Names(
    layer="layers.{layer}",
    embed="embeddings.word_embeddings",
    norm="",
    norms=("post_attention_layernorm", "post_mlp_layernorm"),
)
EUROBERT = replace(LLAMA, layer="layers.{layer}", embed="embed_tokens", norm="norm")


@family(
    "modernbert",
    architectures=(
        "ModernBertModel",
        "ModernBertForMaskedLM",
        "ModernBertForSequenceClassification",
        "ModernBertForTokenClassification",
    ),
)
def modernbert(config: Config) -> ModelShape:
    """Gated MLP, fused projections, the first layer without its first norm. ModernBertConfig."""
    dims = encoder_dims(config, layers=22, intermediate=1152, vocab=50368, positions=8192)
    norm_bias = config.boolean("norm_bias", default=False)
    attention_bias = config.boolean("attention_bias", default=False)
    at = MODERNBERT.at(config)
    return llama_like(
        config,
        dims,
        names=MODERNBERT,
        groups=uncached(dims),
        qkv_bias=attention_bias,
        out_bias=attention_bias,
        mlp_bias=config.boolean("mlp_bias", default=False),
        norm_bias=norm_bias,
        extra=[
            vector(config.prefix + "embeddings.norm", dims.hidden, bias=norm_bias),
            vector(f"{at}.attn_norm", dims.hidden, layers=range(1, dims.layers), bias=norm_bias),
            *modern_head(config, dims.hidden, dims.vocab, norm_bias=norm_bias),
        ],
        traits=(ENCODER_ONLY, POOLING),
    )


def modern_head(config: Config, hidden: int, vocab: int, *, norm_bias: bool) -> list[Weight]:
    """A layer and a norm before masks are filled or labels given; words get a bias each."""
    masked = ends(config, "ForMaskedLM")
    if not masked and not ends(config, *SENTENCES, *TOKENS):
        return []
    bias = config.boolean("classifier_bias", default=False)
    head = [
        linear("head.dense", hidden, hidden, part=Part.OTHER, bias=bias),
        vector("head.norm", hidden, bias=norm_bias),
    ]
    if masked and config.boolean("decoder_bias", default=True):
        head.append(vector("decoder", vocab, part=Part.OTHER))
    return head


@family("nomic_bert", architectures=("NomicBertModel",))
def nomic_bert(config: Config) -> ModelShape:
    """Rotary positions, gated MLP, no biases but in the norms. Defaults: NomicBertConfig."""
    dims = encoder_dims(config, vocab=30528, positions=2048)
    return _rotary(config, dims, types=2, bias=False, heads=replace(BERT_HEADS, pooler=""))


@family(
    "gte",
    "new",
    architectures=("GteModel", "GteNewModel", "NewModel", "GteNewForSequenceClassification"),
)
def gte(config: Config) -> ModelShape:
    """Rotary positions, gated MLP, biases but on gate and up. Defaults: GteConfig."""
    dims = encoder_dims(config, vocab=250048, positions=8192)
    return _rotary(config, dims, types=1, bias=True, heads=Heads())


@family("jina_embeddings_v3", architectures=("JinaEmbeddingsV3Model",))
def jina_embeddings_v3(config: Config) -> ModelShape:
    """XLM-R with rotary positions. Defaults: JinaEmbeddingsV3Config."""
    dims = encoder_dims(
        config, layers=24, hidden=1024, heads=16, intermediate=4096, vocab=250002, positions=8194
    )
    return encoder_shape(
        config,
        dims,
        replace(ROTARY, mlp=("fc1", "fc2")),
        extra=[
            *embeddings(config, dims, dims.hidden, types=1, learned=False),
            *encoder_head(config, dims, ROBERTA_HEADS),
        ],
    )


@family("eurobert", architectures=("EuroBertModel",))
def eurobert(config: Config) -> ModelShape:
    """A Llama that sees both ways, and predicts words as one. Defaults: EuroBertConfig."""
    dims = encoder_dims(config, vocab=128256, positions=8192)
    head = encoder_head(config, dims, Heads())
    if ends(config, *WORDS):
        head = []
        dims = replace(dims, tied=config.boolean("tie_word_embeddings", default=False))
    return llama_like(
        config,
        dims,
        names=EUROBERT,
        groups=uncached(dims),
        **attention_bias(config),
        mlp_bias=config.boolean("mlp_bias", default=False),
        extra=head,
        traits=(ENCODER_ONLY, POOLING),
    )


def _rotary(config: Config, dims: Dims, *, types: int, bias: bool, heads: Heads) -> ModelShape:
    shape = llama_like(
        config,
        dims,
        names=ROTARY,
        groups=uncached(dims),
        qkv_bias=bias,
        out_bias=bias,
        norm_bias=True,
        extra=[
            *embeddings(config, dims, dims.hidden, types=types, learned=False),
            *encoder_head(config, dims, heads),
        ],
        traits=(ENCODER_ONLY, POOLING),
    )
    if not bias:
        return shape
    weights = tuple(
        replace(weight, bias=dims.hidden) if weight.name.endswith("down_proj") else weight
        for weight in shape.weights
    )
    return replace(shape, weights=weights)
