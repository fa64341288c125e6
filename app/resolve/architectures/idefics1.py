"""Idefics 1: Llama with gated layers in between that attend to the image."""

from typing import Any

from app.core.inventory import Part, Split, Weight
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_encoder import mlp_layers
from app.resolve.architectures.blocks_seq2seq import attention_weights
from app.resolve.architectures.blocks_vision import clip
from app.resolve.architectures.common_shape import read_dims
from app.resolve.architectures.common_weights import norms, vector
from app.resolve.architectures.fields import MAX_LAYERS, Config
from app.resolve.architectures.llama_like import llama_like
from app.resolve.architectures.multimodal import filled, multimodal

QKVO = ("q_proj", "k_proj", "v_proj", "o_proj")
RESAMPLER = "the resampler before the gated layers is not counted"


@family("idefics", architectures=("IdeficsForVisionText2Text",))
def idefics1(config: Config) -> ModelShape:
    """The text layers' cache; the gated layers read the image anew at each step. Defaults:
    IdeficsConfig.
    """
    dims = read_dims(
        config,
        layers=32,
        hidden=4096,
        heads=32,
        intermediate=11008,
        vocab=32000,
        max_positions=2048,
    )
    vision = filled(
        config.section("vision_config"),
        model_type="clip",
        defaults={"intermediate_size": 5120, "num_hidden_layers": 32, "patch_size": 14},
    )
    source = vision.integer("embed_dim", "hidden_size", default=768)
    vision = vision.overlay(hidden_size=source)
    interval = config.integer("cross_layer_interval", default=1, maximum=MAX_LAYERS)
    gated = range(dims.layers // interval)
    extra_words = config.integer("additional_vocab_size", default=0, minimum=0)
    normed = config.boolean("qk_layer_norms", default=False)
    at = "model.gated_cross_attn_layers.{layer}"
    gates = 1 if config.text("alpha_type", default="float") == "float" else dims.hidden
    common: dict[str, Any] = {"part": Part.OTHER, "layers": gated}
    extra = [
        *attention_weights(
            f"{at}.cross_attn",
            dims.hidden,
            dims.heads * dims.head_dim,
            gated,
            names=QKVO,
            bias=False,
            source=source,
        ),
        *mlp_layers(
            at,
            dims.hidden,
            dims.intermediate,
            gated,
            part=Part.MLP,
            names=("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"),
            bias=False,
        ),
        *norms(at, dims.hidden, gated, "input_layernorm", "post_attention_layernorm"),
        vector(f"{at}.alpha_cross_attn", gates, **common),
        vector(f"{at}.alpha_dense", gates, **common),
    ]
    if normed:
        extra += norms(
            at, dims.head_dim, gated, "cross_attn.q_layer_norm", "cross_attn.k_layer_norm"
        )
    if extra_words:
        names = ["model.embed_tokens.additional_embedding"]
        if not dims.tied:
            names.append("lm_head.additional_fc")
        extra += [
            Weight(
                name=name,
                shape=(extra_words, dims.hidden),
                part=Part.HEAD if "fc" in name else Part.EMBEDDING,
                split=Split.VOCAB,
            )
            for name in names
        ]
    text = llama_like(config, dims, extra=extra)
    notes = (RESAMPLER,) if config.boolean("use_resampler", default=False) else ()
    return multimodal(config, text, clip(vision, "model.vision_model"), assumptions=notes)
