"""Encoders: what stands on their last layer, and encoders of encoder-decoders by themselves."""

from typing import Any

import pytest

from app.core.cache import FullAttention
from app.errors import InputError
from app.resolve.architectures import shape_from_config

D, V, E = 8, 11, 4
"""Width, words, and the width of narrow embeddings."""
BERT = {
    "hidden_size": D,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "vocab_size": V,
    "embedding_size": E,
}
DENSE = D * D + D
WORDS = DENSE + 2 * D + V  # a layer, a norm, a bias a word; the matrix is the tied embedding
NARROW_WORDS = (D * E + E) + 2 * E + V
START_AND_END = 2 * D + 2
THREE_LABELS = 3 * D + 3


def total(model_type: str, architecture: str, **sizes: Any) -> int:
    config = {"model_type": model_type, "architectures": [architecture], **BERT, **sizes}
    return shape_from_config(config).parameters.total


@pytest.mark.parametrize(
    ("model_type", "base", "with_head", "difference"),
    [
        ("nomic_bert", "NomicBertModel", "NomicBertForMaskedLM", WORDS),
        ("distilbert", "DistilBertModel", "DistilBertForMaskedLM", WORDS),
        ("gte", "GteModel", "GteForMaskedLM", WORDS),
        # the pooler, a dense layer, is left out
        ("mpnet", "MPNetModel", "MPNetForMaskedLM", WORDS - DENSE),
        ("bert", "BertModel", "BertForMaskedLM", WORDS - DENSE),
        ("xlm-roberta", "XLMRobertaModel", "XLMRobertaForMaskedLM", WORDS - DENSE),
        ("albert", "AlbertModel", "AlbertForMaskedLM", NARROW_WORDS - DENSE),
        # ELECTRA has none
        ("electra", "ElectraModel", "ElectraForMaskedLM", NARROW_WORDS),
        # a matrix of its own, without layer, norm and bias
        ("eurobert", "EuroBertModel", "EuroBertForMaskedLM", V * D),
        # the pooler stays, and says whether a sentence follows another
        ("bert", "BertModel", "BertForPreTraining", WORDS + 2 * D + 2),
        ("electra", "ElectraModel", "ElectraForPreTraining", DENSE + D + 1),
        # a layer before the labels of a sentence: the pooler, where there is one
        ("bert", "BertModel", "BertForSequenceClassification", THREE_LABELS),
        (
            "distilbert",
            "DistilBertModel",
            "DistilBertForSequenceClassification",
            DENSE + THREE_LABELS,
        ),
        ("gte", "GteModel", "GteForSequenceClassification", DENSE + THREE_LABELS),
        ("bert", "BertModel", "BertForMultipleChoice", D + 1),
        # none before those of tokens
        ("mpnet", "MPNetModel", "MPNetForTokenClassification", THREE_LABELS - DENSE),
        ("distilbert", "DistilBertModel", "DistilBertForTokenClassification", THREE_LABELS),
        ("distilbert", "DistilBertModel", "DistilBertForQuestionAnswering", START_AND_END),
        # a decoder loses its head of V x D
        ("llama", "LlamaForCausalLM", "LlamaForQuestionAnswering", START_AND_END - V * D),
        # and GPT-J the bias of it too
        ("gptj", "GPTJForCausalLM", "GPTJModel", -V * D - V),
    ],
)
def test_heads_by_the_name_of_the_class(
    model_type: str, base: str, with_head: str, difference: int
) -> None:
    assert total(model_type, with_head, num_labels=3) - total(model_type, base) == difference


T5 = {"d_model": 8, "d_ff": 16, "num_heads": 2, "d_kv": 4, "num_layers": 3, "vocab_size": 11}


@pytest.mark.parametrize(
    ("model_type", "biases"),
    # umT5 has a bias by relative position in each layer, the others in the first
    [("t5", 1), ("mt5", 1), ("umt5", 3)],
)
def test_t5_encoders_have_no_decoder(model_type: str, biases: int) -> None:
    shape = shape_from_config(
        {
            "model_type": model_type,
            "architectures": [f"{model_type.upper()}EncoderModel"],
            "feed_forward_proj": "relu",
            "num_decoder_layers": 5,
            "tie_word_embeddings": False,
            **T5,
        }
    )
    # q, k, v, o of 8 x 8, two MLP matrices of 8 x 16, two norms; 32 distances of 2 heads
    layer = 4 * 64 + 2 * 128 + 2 * 8
    assert shape.parameters.total == 11 * 8 + 3 * layer + biases * 32 * 2 + 8
    assert shape.num_hidden_layers == 3
    assert [group.parts for group in shape.groups] == [()]
    assert shape.traits >= {"encoder_only", "pooling"}
    assert not [weight.name for weight in shape.weights if "decoder" in weight.name]


def test_a_bart_that_only_decodes_has_no_encoder() -> None:
    sizes = {
        "d_model": 8,
        "encoder_layers": 2,
        "decoder_layers": 3,
        "decoder_attention_heads": 2,
        "encoder_attention_heads": 2,
        "decoder_ffn_dim": 16,
        "vocab_size": 11,
        "max_position_embeddings": 5,
    }
    shape = shape_from_config({"model_type": "bart", "architectures": ["BartForCausalLM"], **sizes})
    # Two attentions of four 8 x 8 with biases (one for the encoder it does not have), two MLP
    # matrices with theirs, three norms; 11 words, 5 + 2 positions and the norm on both.
    layer = 8 * (64 + 8) + (128 + 16) + (128 + 8) + 3 * 16
    assert shape.parameters.total == 3 * layer + 11 * 8 + 7 * 8 + 16
    (group,) = shape.groups
    assert [type(part) for part in group.parts] == [FullAttention]
    assert "encoder_decoder" not in shape.traits


def test_an_encoder_that_generates_caches_where_it_says_so() -> None:
    config = {
        "model_type": "bert-generation",
        "architectures": ["BertGenerationDecoder"],
        "is_decoder": True,
        **BERT,
    }
    (group,) = shape_from_config(config).groups
    (part,) = group.parts
    assert part == FullAttention(num_key_value_heads=2, head_dim=4, v_head_dim=4)
    with pytest.raises(InputError, match="add_cross_attention"):
        shape_from_config({**config, "add_cross_attention": True})
    encoder = {**config, "architectures": ["BertGenerationEncoder"]}
    assert [group.parts for group in shape_from_config(encoder).groups] == [()]


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "bert"},
        {"model_type": "qwen2", "is_causal": False},
        {"model_type": "llama", "architectures": ["LlamaBidirectionalModel"]},
        {"model_type": "gemma3_text", "use_bidirectional_attention": True},
        {"model_type": "deberta-v2"},
        {"model_type": "siglip"},
        {"model_type": "siglip2_text_model"},
        {"model_type": "modernvbert"},
        {"model_type": "colmodernvbert"},
    ],
)
def test_encoders_keep_nothing(config: dict[str, Any]) -> None:
    assert [group.parts for group in shape_from_config(config).groups] == [()]


def test_clips_text_is_causal_and_cached() -> None:
    model = shape_from_config({"model_type": "clip", "architectures": ["CLIPModel"]})
    (group,) = model.groups
    assert len(group.layers) == 12
    assert group.parts == (FullAttention(num_key_value_heads=8, head_dim=64, v_head_dim=64),)
    assert model.longest_context == 77
    assert model.traits >= {"multimodal", "pooling"}


@pytest.mark.parametrize(
    ("model_type", "inside", "size"),
    [("colpali", "paligemma", 2048), ("colqwen2", "qwen2_vl", 8192)],
)
def test_retrievers_have_a_projection_in_place_of_a_head(
    model_type: str, inside: str, size: int
) -> None:
    whole = shape_from_config({"model_type": inside, "tie_word_embeddings": True})
    retriever = shape_from_config({"model_type": model_type, "embedding_dim": 64})
    assert retriever.parameters.total - whole.parameters.total == 64 * size + 64
    assert retriever.groups == whole.groups
    assert "pooling" in retriever.traits
