"""Retrievers that give a short vector to each token of a page or a question: ColPali, ColQwen 2,
ColModernVBERT; and ModernVBERT.
"""

from app.core.inventory import Part, Split
from app.core.model import ModelShape
from app.resolve.architectures import build, family
from app.resolve.architectures.blocks_vision import tower_of, tower_width
from app.resolve.architectures.common_weights import linear
from app.resolve.architectures.fields import Config
from app.resolve.architectures.multimodal import MULTIMODAL, inner, multimodal, text_model
from app.resolve.architectures.rotary_encoders import modern_head
from app.resolve.architectures.task_heads import ends, for_pooling

MODELS = {"colpali": "paligemma", "colqwen2": "qwen2_vl", "colmodernvbert": "modernvbert"}


@family(
    *MODELS,
    architectures=(
        "ColPaliForRetrieval",
        "ColQwen2ForRetrieval",
        "ColModernVBertForRetrieval",
    ),
)
def retriever(config: Config) -> ModelShape:
    """The model in `vlm_config` without its head, and a projection. Defaults: ColPaliConfig,
    ColQwen2Config, ColModernVBertConfig.
    """
    known = MODELS.get(config.text("model_type", default="colpali"), "paligemma")
    inside = inner(config, "vlm_config", model_type=known)
    whole = for_pooling(build(Config(inside.data, path=inside.path, prefix="vlm.")))
    width = config.integer("embedding_dim", default=128)
    out = linear("embedding_proj_layer", width, whole.hidden_size, part=Part.PROJECTOR, bias=True)
    return multimodal(config, whole, [out], traits=())


@family(
    "modernvbert",
    architectures=(
        "ModernVBertModel",
        "ModernVBertForMaskedLM",
        "ModernVBertForSequenceClassification",
        "ModernVBertForTokenClassification",
    ),
)
def modernvbert(config: Config) -> ModelShape:
    """ModernBERT that also reads SigLIP's patches; caches nothing. Defaults: ModernVBertConfig."""
    text = text_model(config, prefix="text_model.", model_type="modernbert")
    vision = inner(config, "vision_config", model_type="siglip_vision_model")
    merged = (
        tower_width(vision) * config.integer("pixel_shuffle_factor", default=4, maximum=64) ** 2
    )
    size, vocab = text.hidden_size, text.vocab_size
    stated = config.section("text_config").overlay(architectures=config.get("architectures"))
    norm_bias = stated.boolean("norm_bias", default=False)
    weights = [
        *tower_of(vision, "vision_model"),
        linear("connector.modality_projection", size, merged, part=Part.PROJECTOR),
        *modern_head(stated, size, vocab, norm_bias=norm_bias),
    ]
    if ends(config, "ForMaskedLM") and not config.boolean("tie_word_embeddings", default=False):
        weights.append(linear("lm_head", vocab, size, part=Part.HEAD, split=Split.VOCAB))
    return multimodal(config, text, weights, traits=(MULTIMODAL,))
