"""CogVLM 2 and its video and caption models: Llama 3 behind EVA2-CLIP, images with weights of
their own in every layer where the model has visual experts.
"""

from dataclasses import replace

from app.core.inventory import Part, Weight
from app.core.model import ModelShape
from app.resolve.architectures import architecture_names, family
from app.resolve.architectures.blocks_encoder import (
    array,
    conv,
    encoder_layers,
    layer_norm,
    mlp_layers,
    patch_conv,
    read_tower,
)
from app.resolve.architectures.blocks_seq2seq import attention_weights
from app.resolve.architectures.common_shape import read_dims
from app.resolve.architectures.common_weights import linear
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import Names, llama_like
from app.resolve.architectures.multimodal import multimodal

PROJECTOR = Part.PROJECTOR
EXPERTS = "CogVLMForCausalLM"


@family(
    "cogvlm2",
    "cogvlm",
    architectures=("CogVLMForCausalLM", "CogVLMVideoForCausalLM"),
)
def cogvlm(config: Config) -> ModelShape:
    """Grouped-query attention with `num_multi_query_heads`; one cache for text and image. Counted
    active are the weights that a token of text uses.
    """
    kv_heads = config.integer("num_multi_query_heads", "num_key_value_heads", default=8)
    dims = read_dims(config.overlay(num_key_value_heads=kv_heads), max_positions=2048)
    expert = EXPERTS in architecture_names(config)
    names = Names(
        qkvo=_fused("language_expert_") if expert else _fused(""),
        mlp_module="mlp.language_mlp" if expert else "mlp",
    )
    extra: list[Weight] = []
    if expert:
        at = names.at(config)
        visual = attention_weights(
            f"{at}.self_attn",
            dims.hidden,
            dims.heads * dims.head_dim,
            dims.all_layers,
            names=_fused("vision_expert_"),
            bias=False,
            kv_inner=dims.kv_heads * dims.head_dim,
        )
        visual += mlp_layers(
            at,
            dims.hidden,
            dims.intermediate,
            dims.all_layers,
            part=Part.MLP,
            names=tuple(f"mlp.vision_mlp.{name}" for name in ("gate_proj", "up_proj", "down_proj")),
            bias=False,
        )
        extra = [replace(weight, active=0) for weight in visual]
    text = llama_like(config, dims, names=names, extra=extra)
    return multimodal(config, text, eva_clip(config, dims.hidden, dims.intermediate))


def _fused(prefix: str) -> tuple[str, str, str, str]:
    both = f"{prefix}query_key_value"
    return both, both, both, f"{prefix}dense"


def eva_clip(
    config: Config, out: int, inner: int, *, at: str = "model.vision", widens: bool = False
) -> list[Weight]:
    """EVA2-CLIP, a strided convolution and a gated projector. The convolution keeps the tower's
    width, or `widens` it to the text model's (GLM-4V).
    """
    vision = config.section("vision_config")
    tower = read_tower(
        vision, layers=63, hidden=1792, heads=16, intermediate=15360, image=1344, patch=14
    )
    positions = vision.integer("num_positions", default=tower.patches + 1)
    width = out if widens else tower.hidden
    return [
        array(f"{at}.patch_embedding.cls_embedding", 1, tower.hidden, part=Part.VISION),
        patch_conv(f"{at}.patch_embedding.proj", tower),
        array(
            f"{at}.patch_embedding.position_embedding", positions, tower.hidden, part=Part.VISION
        ),
        *encoder_layers(
            f"{at}.transformer.layers.{{layer}}",
            tower.hidden,
            tower.intermediate,
            tower.all_layers,
            attention="attention",
            qkvo=("query_key_value", "dense"),
            norms=("input_layernorm", "post_attention_layernorm"),
        ),
        conv(f"{at}.conv", width, tower.hidden, 2, 2, part=PROJECTOR),
        linear(f"{at}.linear_proj.linear_proj", out, width, part=PROJECTOR),
        layer_norm(f"{at}.linear_proj.norm1", out, part=PROJECTOR),
        *mlp_layers(
            f"{at}.linear_proj",
            out,
            inner,
            None,
            part=PROJECTOR,
            names=("gate_proj", "dense_h_to_4h", "dense_4h_to_h"),
            bias=False,
        ),
        array(f"{at}.boi", 1, 1, out, part=PROJECTOR),
        array(f"{at}.eoi", 1, 1, out, part=PROJECTOR),
    ]
