"""Llama 4: chunked local attention with full layers without rotary positions in between."""

from app.core.cache import CachePart, ChunkedLocal
from app.core.inventory import Part, Weight
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_encoder import (
    array,
    dense_chain,
    encoder_layers,
    layer_norm,
    read_tower,
)
from app.resolve.architectures.common_shape import attention_part, group_layers, read_dims
from app.resolve.architectures.common_weights import linear
from app.resolve.architectures.fields import MAX_COUNT, MAX_LAYERS, Config
from app.resolve.architectures.llama_like import (
    Names,
    attention_bias,
    dense_mlp,
    llama_like,
    mixture,
)
from app.resolve.architectures.multimodal import multimodal, text_model

VISION = Part.VISION


@family("llama4_text", architectures=("Llama4ForCausalLM",))
def llama4_text(config: Config) -> ModelShape:
    """Layers with rotary positions (`no_rope_layers` 1) attend within chunks of
    `attention_chunk_size` tokens, those without (every `no_rope_layer_interval`-th) to everything;
    every `interleave_moe_layer_step`-th layer routes to one expert beside a shared one.
    Defaults: Llama4TextConfig.
    """
    dims = read_dims(
        config,
        layers=48,
        hidden=5120,
        heads=40,
        kv_heads=8,
        head_dim=128,
        intermediate=8192,
        vocab=202048,
        max_positions=131072,
    )
    rotary = config.integers("no_rope_layers", maximum=1)
    if rotary:
        rotary = config.per_layer(rotary, "no_rope_layers", dims.layers)
    else:
        interval = config.integer("no_rope_layer_interval", default=4, maximum=MAX_LAYERS)
        rotary = [int((index + 1) % interval != 0) for index in range(dims.layers)]
    chunk = 8192
    if "attention_chunk_size" in config.data:
        chunk = config.integer("attention_chunk_size", default=0, minimum=0, maximum=MAX_COUNT)
    full = attention_part(dims)
    local: CachePart = full
    if chunk:
        local = ChunkedLocal(
            num_key_value_heads=dims.kv_heads,
            head_dim=dims.head_dim,
            v_head_dim=dims.head_dim,
            chunk=chunk,
        )
    step = config.integer("interleave_moe_layer_step", default=1, minimum=0, maximum=MAX_LAYERS)
    routed = config.integers("moe_layers", maximum=MAX_LAYERS)
    if routed is None:
        routed = list(range(step - 1, dims.layers, step)) if step else []
    chosen = set(routed)
    sparse = [index for index in dims.all_layers if index in chosen]
    dense = [index for index in dims.all_layers if index not in chosen]
    names = Names(mlp_module="feed_forward")
    at = names.at(config)
    return llama_like(
        config,
        dims,
        names=names,
        groups=group_layers([(local,) if r else (full,) for r in rotary], dims.heads),
        **attention_bias(config),
        mlp=[
            *mixture(
                at,
                dims.hidden,
                dims.intermediate,
                sparse,
                num_experts=config.integer("num_local_experts", default=16),
                top_k=config.integer("num_experts_per_tok", default=1),
                module="feed_forward",
                gate="router",
                shared_width=dims.intermediate,
                shared="shared_expert",
            ),
            *dense_mlp(
                at,
                dims,
                dense,
                names=names,
                intermediate=config.integer("intermediate_size_mlp", default=16384),
            ),
        ],
    )


@family("llama4", architectures=("Llama4ForConditionalGeneration",))
def llama4(config: Config) -> ModelShape:
    """The text model's cache; a ViT whose patches are shuffled together four by four. Defaults:
    Llama4Config, Llama4VisionConfig.
    """
    text = text_model(
        config, "text_config", prefix="language_model.", model_type="llama4_text", tied=False
    )
    vision = config.section("vision_config")
    tower = read_tower(vision, layers=34, hidden=768, heads=16, intermediate=5632, image=448)
    pixels = tower.channels * tower.patch * tower.patch
    inner = vision.integer("projector_input_dim", default=4096)
    out = vision.integer("projector_output_dim", default=4096)
    at = "vision_model"
    weights: list[Weight] = [
        array(f"{at}.class_embedding", tower.hidden, part=VISION),
        array(f"{at}.positional_embedding_vlm", tower.patches + 1, tower.hidden, part=VISION),
        linear(f"{at}.patch_embedding.linear", tower.hidden, pixels, part=VISION),
        layer_norm(f"{at}.layernorm_pre", tower.hidden, part=VISION),
        layer_norm(f"{at}.layernorm_post", tower.hidden, part=VISION),
        *encoder_layers(
            f"{at}.model.layers.{{layer}}",
            tower.hidden,
            tower.intermediate,
            tower.all_layers,
            qkvo=("q_proj", "k_proj", "v_proj", "o_proj"),
            norms=("input_layernorm", "post_attention_layernorm"),
        ),
        *dense_chain(
            f"{at}.vision_adapter.mlp",
            ("fc1", inner, tower.intermediate),
            ("fc2", out, out),
            part=VISION,
            bias=False,
        ),
        linear(
            "multi_modal_projector.linear_1",
            text.hidden_size,
            vision.integer("vision_output_dim", default=7680),
            part=Part.PROJECTOR,
        ),
    ]
    return multimodal(config, text, weights)
