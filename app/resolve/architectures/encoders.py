"""Text encoders with learned positions: BERT, ERNIE, RoBERTa, XLM-R, CamemBERT, ELECTRA, MPNet,
DistilBERT, ALBERT. They see the whole text at once and cache nothing.
"""

from dataclasses import replace

from app.core.inventory import Part, Split, Weight
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_bert import (
    BERT_HEADS,
    PRETRAINING,
    ROBERTA_HEADS,
    Heads,
    embeddings,
    encoder_dims,
    encoder_head,
    encoder_shape,
)
from app.resolve.architectures.common_shape import Dims
from app.resolve.architectures.common_weights import linear, vector
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import Names, uncached
from app.resolve.architectures.task_heads import ends

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
DISTILBERT_HEADS = Heads(
    sentence="pre_classifier", words=("vocab_transform", "vocab_layer_norm", "vocab_projector")
)
PREDICTIONS = "generator_predictions"
ELECTRA_HEADS = Heads(
    words=(f"{PREDICTIONS}.dense", f"{PREDICTIONS}.LayerNorm", "generator_lm_head")
)


@family(
    "bert",
    "roberta",
    "xlm-roberta",
    "camembert",
    "data2vec-text",
    "ernie",
    architectures=(
        "BertModel",
        "BertForMaskedLM",
        "BertForSequenceClassification",
        "BertForTokenClassification",
        "BertSpladeSparseEmbeddingModel",
        "BgeM3EmbeddingModel",
        "ErnieModel",
        "ErnieForSequenceClassification",
        "ErnieForTokenClassification",
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
    dims = encoder_dims(config, vocab=50265 if roberta else 30522)
    heads = BERT_HEADS if config.text("model_type") in ("bert", "ernie") else ROBERTA_HEADS
    extra = [*embeddings(config, dims, dims.hidden), *encoder_head(config, dims, heads)]
    if config.boolean("use_task_id", default=False):
        rows = config.integer("task_type_vocab_size", default=3)
        name = config.prefix + "embeddings.task_type_embeddings"
        extra.append(Weight(name=name, shape=(rows, dims.hidden), part=Part.OTHER))
    return encoder_shape(config, dims, BERT, extra=extra)


@family("bert-generation", architectures=("BertGenerationEncoder", "BertGenerationDecoder"))
def bert_generation(config: Config) -> ModelShape:
    """BERT without token types and pooler; the decoder predicts words without a layer before.
    Defaults: BertGenerationConfig.
    """
    dims = encoder_dims(config, layers=24, hidden=1024, heads=16, intermediate=4096, vocab=50358)
    extra = embeddings(config, dims, dims.hidden, types=0)
    if ends(config, "Decoder"):
        extra.append(vector("lm_head", dims.vocab, part=Part.OTHER, split=Split.VOCAB))
    return encoder_shape(config, dims, BERT, extra=extra)


@family("electra", architectures=("ElectraModel",))
def electra(config: Config) -> ModelShape:
    """BERT whose embeddings may be narrower than the model; pre-training asks of each token whether
    it was replaced. Defaults: ElectraConfig.
    """
    dims = encoder_dims(config, hidden=256, heads=4, intermediate=1024)
    shape = _narrow(config, dims, BERT, "embeddings_project", ELECTRA_HEADS)
    if not ends(config, PRETRAINING):
        return shape
    at = config.prefix + "discriminator_predictions"
    sizes = (("dense", dims.hidden), ("dense_prediction", 1))
    said = [
        linear(f"{at}.{name}", rows, dims.hidden, part=Part.OTHER, bias=True)
        for name, rows in sizes
    ]
    return replace(shape, weights=(*shape.weights, *said))


@family("albert", architectures=("AlbertModel",))
def albert(config: Config) -> ModelShape:
    """All layers share the weights of `num_hidden_groups` groups. Defaults: AlbertConfig."""
    dims = encoder_dims(config, hidden=4096, heads=64, intermediate=16384, vocab=30000)
    groups = config.integer("num_hidden_groups", default=1, maximum=dims.layers)
    shape = _narrow(
        config,
        replace(dims, layers=groups),
        ALBERT,
        "encoder.embedding_hidden_mapping_in",
        replace(BERT_HEADS, pooler="pooler"),
    )
    return replace(shape, num_hidden_layers=dims.layers, groups=uncached(dims))


@family("mpnet", architectures=("MPNetModel",))
def mpnet(config: Config) -> ModelShape:
    """BERT with relative positions too, without token types. Defaults: MPNetConfig."""
    dims = encoder_dims(config, vocab=30527)
    buckets = config.integer("relative_attention_num_buckets", default=32)
    table = Weight(
        name=config.prefix + "encoder.relative_attention_bias",
        shape=(buckets, dims.heads),
        part=Part.OTHER,
    )
    extra = [
        *embeddings(config, dims, dims.hidden, types=0),
        *encoder_head(config, dims, ROBERTA_HEADS),
        table,
    ]
    return encoder_shape(config, dims, MPNET, extra=extra)


@family("distilbert", architectures=("DistilBertModel",))
def distilbert(config: Config) -> ModelShape:
    """Half of BERT's layers, no pooler. Defaults: DistilBertConfig."""
    width = config.integer("hidden_dim", default=3072)
    dims = encoder_dims(config, layers=6, intermediate=width)
    extra = [
        *embeddings(config, dims, dims.hidden, types=0),
        *encoder_head(config, dims, DISTILBERT_HEADS),
    ]
    return encoder_shape(config, dims, DISTILBERT, extra=extra)


def _narrow(config: Config, dims: Dims, names: Names, project: str, heads: Heads) -> ModelShape:
    """A BERT with embeddings `embedding_size` wide and a projection to the model's width."""
    width = config.integer("embedding_size", default=128)
    head = encoder_head(config, dims, heads, width=width)
    added = [*embeddings(config, dims, width), *head]
    if width != dims.hidden or names is ALBERT:
        added.append(
            linear(config.prefix + project, dims.hidden, width, part=Part.OTHER, bias=True)
        )
    shape = encoder_shape(config, dims, names, extra=added)
    weights = tuple(
        replace(weight, shape=(dims.vocab, width)) if weight.part is Part.EMBEDDING else weight
        for weight in shape.weights
    )
    return replace(shape, weights=weights)
