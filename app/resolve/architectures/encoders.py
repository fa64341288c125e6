"""Text encoders: BERT, RoBERTa, XLM-R, CamemBERT, ELECTRA, MPNet, DistilBERT, ALBERT, ModernBERT,
NomicBERT, GTE, Jina embeddings 3, EuroBERT. They see the whole text at once and cache nothing.
"""

from collections.abc import Iterable
from dataclasses import replace

from app.core.inventory import Part, Weight
from app.core.model import ModelShape
from app.resolve.architectures import architecture_names, family
from app.resolve.architectures.common_shape import Dims, read_dims
from app.resolve.architectures.common_weights import linear, vector
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import (
    ENCODER_ONLY,
    EVERY_BIAS,
    LLAMA,
    Names,
    attention_bias,
    llama_like,
    position_table,
    uncached,
)
from app.resolve.architectures.task_heads import POOLING

BERT = Names(
    layer="encoder.layer.{layer}",
    embed="embeddings.word_embeddings",
    norm="",
    norms=("attention.output.LayerNorm", "output.LayerNorm"),
    attention="attention",
    qkvo=("self.query", "self.key", "self.value", "output.dense"),
    mlp_module="",
    mlp=("intermediate.dense", "output.dense"),
)
MPNET = replace(
    BERT,
    norms=("attention.LayerNorm", "output.LayerNorm"),
    qkvo=("attn.q", "attn.k", "attn.v", "attn.o"),
)
DISTILBERT = Names(
    layer="transformer.layer.{layer}",
    embed="embeddings.word_embeddings",
    norm="",
    norms=("sa_layer_norm", "output_layer_norm"),
    attention="attention",
    qkvo=("q_lin", "k_lin", "v_lin", "out_lin"),
    mlp_module="ffn",
    mlp=("lin1", "lin2"),
)
ALBERT = Names(
    layer="encoder.albert_layer_groups.{layer}.albert_layers.0",
    embed="embeddings.word_embeddings",
    norm="",
    norms=("attention.LayerNorm", "full_layer_layer_norm"),
    attention="attention",
    qkvo=("query", "key", "value", "dense"),
    mlp_module="",
    mlp=("ffn", "ffn_output"),
)
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
EMBEDDING_NORM = "embeddings.LayerNorm"


@family(
    "bert",
    "roberta",
    "xlm-roberta",
    "camembert",
    "data2vec-text",
    architectures=(
        "BertModel",
        "BertForMaskedLM",
        "BertForSequenceClassification",
        "BertForTokenClassification",
        "BertSpladeSparseEmbeddingModel",
        "BgeM3EmbeddingModel",
        "RobertaModel",
        "RobertaForMaskedLM",
        "RobertaForSequenceClassification",
        "RobertaForTokenClassification",
        "XLMRobertaModel",
        "XLMRobertaForSequenceClassification",
        "XLMRobertaForTokenClassification",
    ),
)
def bert(config: Config) -> ModelShape:
    """Norms after each block, learned positions, biases everywhere. Defaults: BertConfig, and
    RobertaConfig's vocabulary.
    """
    roberta = config.text("model_type") == "roberta"
    dims = _dims(config, vocab=50265 if roberta else 30522)
    if _ends(config, "ForMaskedLM"):
        head = _masked_head(config, dims)
    elif _ends(config, "ForTokenClassification"):
        head = []
    else:
        head = list(_pooler(config, dims, "pooler.dense"))
    return _encoder(config, dims, BERT, extra=[*_embeddings(config, dims, dims.hidden), *head])


@family("electra", architectures=("ElectraModel",))
def electra(config: Config) -> ModelShape:
    """BERT whose embeddings may be narrower than the model. Defaults: ElectraConfig."""
    dims = _dims(config, hidden=256, heads=4, intermediate=1024)
    return _narrow(config, dims, BERT, "embeddings_project", ())


@family("albert", architectures=("AlbertModel",))
def albert(config: Config) -> ModelShape:
    """All layers share the weights of `num_hidden_groups` groups. Defaults: AlbertConfig."""
    dims = _dims(config, hidden=4096, heads=64, intermediate=16384, vocab=30000)
    groups = config.integer("num_hidden_groups", default=1, maximum=dims.layers)
    shape = _narrow(
        config,
        replace(dims, layers=groups),
        ALBERT,
        "encoder.embedding_hidden_mapping_in",
        _pooler(config, dims, "pooler"),
    )
    return replace(shape, num_hidden_layers=dims.layers, groups=uncached(dims))


@family("mpnet", architectures=("MPNetModel",))
def mpnet(config: Config) -> ModelShape:
    """BERT with relative positions too, without token types. Defaults: MPNetConfig."""
    dims = _dims(config, vocab=30527)
    buckets = config.integer("relative_attention_num_buckets", default=32)
    table = Weight(
        name=config.prefix + "encoder.relative_attention_bias",
        shape=(buckets, dims.heads),
        part=Part.OTHER,
    )
    extra = [
        *_embeddings(config, dims, dims.hidden, types=0),
        *_pooler(config, dims, "pooler.dense"),
        table,
    ]
    return _encoder(config, dims, MPNET, extra=extra)


@family("distilbert", architectures=("DistilBertModel",))
def distilbert(config: Config) -> ModelShape:
    """Half of BERT's layers, no pooler. Defaults: DistilBertConfig."""
    width = config.integer("hidden_dim", default=3072)
    dims = _dims(config, layers=6, intermediate=width)
    return _encoder(config, dims, DISTILBERT, extra=_embeddings(config, dims, dims.hidden, types=0))


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
    dims = _dims(config, layers=22, intermediate=1152, vocab=50368, positions=8192)
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
            *_modern_head(config, dims, norm_bias=norm_bias),
        ],
        traits=(ENCODER_ONLY, POOLING),
    )


def _modern_head(config: Config, dims: Dims, *, norm_bias: bool) -> list[Weight]:
    """A layer and a norm before masks are filled or labels given; words get a bias each."""
    masked = _ends(config, "ForMaskedLM")
    if not masked and not _ends(config, "ForSequenceClassification", "ForTokenClassification"):
        return []
    bias = config.boolean("classifier_bias", default=False)
    head = [
        linear("head.dense", dims.hidden, dims.hidden, part=Part.OTHER, bias=bias),
        vector("head.norm", dims.hidden, bias=norm_bias),
    ]
    if masked and config.boolean("decoder_bias", default=True):
        head.append(vector("decoder", dims.vocab, part=Part.OTHER))
    return head


@family("nomic_bert", architectures=("NomicBertModel",))
def nomic_bert(config: Config) -> ModelShape:
    """Rotary positions, gated MLP, no biases but in the norms. Defaults: NomicBertConfig."""
    dims = _dims(config, vocab=30528, positions=2048)
    return _rotary(config, dims, types=2, bias=False)


@family(
    "gte",
    "new",
    architectures=("GteModel", "GteNewModel", "NewModel", "GteNewForSequenceClassification"),
)
def gte(config: Config) -> ModelShape:
    """Rotary positions, gated MLP, biases but on gate and up. Defaults: GteConfig."""
    dims = _dims(config, vocab=250048, positions=8192)
    return _rotary(config, dims, types=1, bias=True)


@family("jina_embeddings_v3", architectures=("JinaEmbeddingsV3Model",))
def jina_embeddings_v3(config: Config) -> ModelShape:
    """XLM-R with rotary positions. Defaults: JinaEmbeddingsV3Config."""
    dims = _dims(
        config, layers=24, hidden=1024, heads=16, intermediate=4096, vocab=250002, positions=8194
    )
    return _encoder(
        config,
        dims,
        replace(ROTARY, mlp=("fc1", "fc2")),
        extra=[
            *_embeddings(config, dims, dims.hidden, types=1, learned=False),
            *_pooler(config, dims, "pooler.dense"),
        ],
    )


@family("eurobert", architectures=("EuroBertModel",))
def eurobert(config: Config) -> ModelShape:
    """A Llama that sees both ways. Defaults: EuroBertConfig."""
    dims = _dims(config, vocab=128256, positions=8192)
    return llama_like(
        config,
        dims,
        names=EUROBERT,
        groups=uncached(dims),
        **attention_bias(config),
        mlp_bias=config.boolean("mlp_bias", default=False),
        traits=(ENCODER_ONLY, POOLING),
    )


def _dims(
    config: Config,
    *,
    layers: int = 12,
    hidden: int = 768,
    heads: int = 12,
    intermediate: int = 3072,
    vocab: int = 30522,
    positions: int = 512,
) -> Dims:
    """The sizes; whatever `tie_word_embeddings` says, there is no head of its own."""
    return read_dims(
        config.overlay(tie_word_embeddings=True),
        layers=layers,
        hidden=hidden,
        heads=heads,
        intermediate=intermediate,
        vocab=vocab,
        max_positions=positions,
    )


def _encoder(config: Config, dims: Dims, names: Names, *, extra: Iterable[Weight]) -> ModelShape:
    return llama_like(
        config,
        dims,
        names=names,
        groups=uncached(dims),
        **EVERY_BIAS,
        extra=extra,
        traits=(ENCODER_ONLY, POOLING),
    )


def _rotary(config: Config, dims: Dims, *, types: int, bias: bool) -> ModelShape:
    shape = llama_like(
        config,
        dims,
        names=ROTARY,
        groups=uncached(dims),
        qkv_bias=bias,
        out_bias=bias,
        norm_bias=True,
        extra=_embeddings(config, dims, dims.hidden, types=types, learned=False),
        traits=(ENCODER_ONLY, POOLING),
    )
    if not bias:
        return shape
    weights = tuple(
        replace(weight, bias=dims.hidden) if weight.name.endswith("down_proj") else weight
        for weight in shape.weights
    )
    return replace(shape, weights=weights)


def _narrow(
    config: Config, dims: Dims, names: Names, project: str, extra: Iterable[Weight]
) -> ModelShape:
    """A BERT with embeddings `embedding_size` wide and a projection to the model's width."""
    width = config.integer("embedding_size", default=128)
    added = [*_embeddings(config, dims, width), *extra]
    if width != dims.hidden or names is ALBERT:
        added.append(
            linear(config.prefix + project, dims.hidden, width, part=Part.OTHER, bias=True)
        )
    shape = _encoder(config, dims, names, extra=added)
    weights = tuple(
        replace(weight, shape=(dims.vocab, width)) if weight.part is Part.EMBEDDING else weight
        for weight in shape.weights
    )
    return replace(shape, weights=weights)


def _embeddings(
    config: Config, dims: Dims, width: int, *, types: int = 2, learned: bool = True
) -> list[Weight]:
    """Positions where they are learned, token types where there are any, and the norm."""
    weights = [vector(config.prefix + EMBEDDING_NORM, width, bias=True)]
    if learned:
        table = position_table(config, dims, "embeddings.position_embeddings")
        weights.append(replace(table, shape=(table.shape[0], width)))
    count = config.integer("type_vocab_size", default=types, minimum=0) if types else 0
    if count:
        name = config.prefix + "embeddings.token_type_embeddings"
        weights.append(Weight(name=name, shape=(count, width), part=Part.OTHER))
    return weights


def _pooler(config: Config, dims: Dims, name: str) -> list[Weight]:
    return [linear(config.prefix + name, dims.hidden, dims.hidden, part=Part.OTHER, bias=True)]


def _ends(config: Config, *suffixes: str) -> bool:
    return any(name.endswith(suffixes) for name in architecture_names(config))


def _masked_head(config: Config, dims: Dims) -> list[Weight]:
    """The head that fills in masks: a layer, a norm, and a bias on the tied embedding."""
    at = config.prefix + "cls.predictions"
    return [
        linear(f"{at}.transform.dense", dims.hidden, dims.hidden, part=Part.OTHER, bias=True),
        vector(f"{at}.transform.LayerNorm", dims.hidden, bias=True),
        vector(at, dims.vocab, part=Part.OTHER),
    ]
