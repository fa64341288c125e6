"""Ling 3 with vision: the hybrid text model behind Qwen3-VL's tower and a projector of its own."""

from app.core.inventory import Part, Split
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_qwen_vision import qwen3_vision
from app.resolve.architectures.common_weights import linear, vector
from app.resolve.architectures.fields import Config
from app.resolve.architectures.multimodal import multimodal, text_model

TEXT_DEFAULTS = {
    "hidden_size": 2048,
    "intermediate_size": 5120,
    "num_hidden_layers": 20,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "max_position_embeddings": 32768,
    "num_experts": 256,
    "moe_intermediate_size": 512,
    "moe_shared_expert_intermediate_size": 512,
    "first_k_dense_replace": 1,
    "layer_group_size": 5,
}


@family("bailing_moe_v3_vl", architectures=("BailingMoeV3VLForConditionalGeneration",))
def bailing_v3_vl(config: Config) -> ModelShape:
    """Caches as its text model does. Defaults: BailingMoeV3VLConfig of vLLM."""
    text = text_model(
        config, model_type="bailing_hybrid", defaults=TEXT_DEFAULTS, force=True, tied=False
    )
    vision = config.section("vision_config")
    tower = [
        weight
        for weight in qwen3_vision(vision, "model.visual.")
        if weight.part is not Part.PROJECTOR
    ]
    hidden = vision.integer("hidden_size", default=1152)
    merged = hidden * vision.integer("spatial_merge_size", default=2, maximum=64) ** 2
    out, part = text.hidden_size, Part.PROJECTOR
    projector = [
        vector("model.visual.merger.norm", hidden, part=part, bias=True),
        linear("model.linear_proj.0", out, merged, part=part, bias=True, split=Split.COLUMN),
        linear("model.linear_proj.2", out, out, part=part, bias=True, split=Split.ROW),
    ]
    return multimodal(config, text, [*tower, *projector])
