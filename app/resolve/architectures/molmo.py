"""Molmo 1 and 2: their own Llama-like text model behind CLIP's or SigLIP's tower."""

from app.core.inventory import Part, Split, Weight
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_encoder import (
    array,
    encoder_layers,
    layer_norm,
    read_tower,
)
from app.resolve.architectures.common_shape import Dims, read_dims
from app.resolve.architectures.common_weights import linear
from app.resolve.architectures.fields import MAX_LAYERS, Config
from app.resolve.architectures.llama_like import Names, llama_like
from app.resolve.architectures.multimodal import MULTIMODAL, PREFIX_LM, multimodal, text_model

VISION = Part.VISION
PROJECTOR = Part.PROJECTOR
EXTRA_TOKENS = 128
FLAT = Names(
    layer="model.transformer.blocks.{layer}",
    embed="model.transformer.wte.embedding",
    head="model.transformer.ff_out",
    norm="model.transformer.ln_f",
    norms=("attn_norm", "ff_norm"),
    attention="",
    qkvo=("att_proj", "att_proj", "att_proj", "attn_out"),
    qk_norms=("q_norm", "k_norm"),
    mlp_module="",
    mlp=("ff_proj", "ff_proj", "ff_out"),
)
TOWER = {"width": 1024, "layers": 23, "ffn": 4096, "positions": 577, "patch": 14, "read": 2}


@family("molmo", architectures=("MolmoForCausalLM",))
def molmo(config: Config) -> ModelShape:
    """Grouped-query attention over flat keys; `intermediate_size` counts gate and up together.
    The tower is fixed in the model's code: CLIP's 23 first layers, of which two are read.
    """
    whole = read_dims(config, vocab=152064, max_positions=4096)
    dims = Dims(
        layers=whole.layers,
        hidden=whole.hidden,
        heads=whole.heads,
        kv_heads=whole.kv_heads,
        head_dim=whole.head_dim,
        intermediate=whole.intermediate // 2,
        vocab=config.integer("embedding_size", default=whole.vocab),
        max_positions=whole.max_positions,
        tied=config.boolean("weight_tying", "tie_word_embeddings", default=False),
    )
    normed = config.boolean("attention_layer_norm", default=False)
    text = llama_like(
        config,
        dims,
        names=FLAT,
        qkv_bias=config.boolean("qkv_bias", default=False),
        qk_norm=(dims.hidden, dims.kv_heads * dims.head_dim) if normed else None,
        extra=[
            Weight(
                name="model.transformer.wte.new_embedding",
                shape=(EXTRA_TOKENS, dims.hidden),
                part=Part.EMBEDDING,
                split=Split.VOCAB,
            )
        ],
    )
    return multimodal(config, text, _flat_tower(dims.hidden, dims.intermediate))


def _flat_tower(hidden: int, inner: int) -> list[Weight]:
    width, read = TOWER["width"], TOWER["read"] * TOWER["width"]
    at = "model.vision_backbone"
    pixels = 3 * TOWER["patch"] ** 2
    pool = f"{at}.image_pooling_2d"
    return [
        array(f"{at}.image_vit.class_embedding", width, part=VISION),
        array(f"{at}.image_vit.positional_embedding", TOWER["positions"], width, part=VISION),
        linear(f"{at}.image_vit.patch_embedding", width, pixels, part=VISION),
        layer_norm(f"{at}.image_vit.pre_ln", width, part=VISION),
        *encoder_layers(
            f"{at}.image_vit.transformer.resblocks.{{layer}}",
            width,
            TOWER["ffn"],
            range(TOWER["layers"]),
            attention="attention",
            qkvo=("wq", "wk", "wv", "wo"),
            mlp=("feed_forward.w1", "feed_forward.w2"),
            norms=("attention_norm", "ffn_norm"),
        ),
        array(f"{at}.pad_embed", 2, read, part=VISION),
        *(
            linear(f"{pool}.{name}", width, read, part=PROJECTOR, bias=True)
            for name in ("wq", "wk", "wv")
        ),
        linear(f"{pool}.wo", width, width, part=PROJECTOR, bias=True),
        linear(f"{at}.image_projector.w1", inner, width, part=PROJECTOR),
        linear(f"{at}.image_projector.w3", inner, width, part=PROJECTOR),
        linear(f"{at}.image_projector.w2", hidden, inner, part=PROJECTOR),
    ]


@family("molmo2_text")
def molmo2_text(config: Config) -> ModelShape:
    """Qwen 3's layers with 128 extra embeddings. Defaults: Molmo2TextConfig."""
    dims = read_dims(
        config,
        layers=36,
        hidden=4096,
        heads=32,
        kv_heads=8,
        head_dim=128,
        intermediate=12288,
        vocab=151936,
        max_positions=36864,
    )
    kind = config.text("qk_norm_type", default="qwen3")
    sizes = (dims.head_dim, dims.head_dim)
    if kind != "qwen3":
        sizes = (dims.heads * dims.head_dim, dims.kv_heads * dims.head_dim)
    extra = config.integer("additional_vocab_size", default=128, minimum=0)
    return llama_like(
        config,
        dims,
        qkv_bias=config.boolean("attention_bias", "qkv_bias", default=False),
        qk_norm=sizes if config.boolean("use_qk_norm", default=True) else None,
        extra=[
            Weight(
                name=config.prefix + "model.embed_tokens.new_embedding",
                shape=(extra, dims.hidden),
                part=Part.EMBEDDING,
                split=Split.VOCAB,
            )
        ],
    )


@family("molmo2", architectures=("Molmo2ForConditionalGeneration",))
def molmo2(config: Config) -> ModelShape:
    """The text model's cache; an image's tokens see each other. Defaults: Molmo2Config."""
    text = text_model(
        config, prefix="model.language_", model_type="molmo2_text", force=True, tied=False
    )
    vision = config.section("vision_config", "vit_config")
    adapter = config.section("adapter_config")
    tower = read_tower(vision, layers=25, hidden=1152, heads=16, intermediate=4304, image=378)
    head_dim = vision.integer("head_dim", default=72)
    bias = vision.boolean("attention_bias", default=True)
    at = "model.vision_tower"
    pixels = tower.channels * tower.patch**2
    positions = vision.integer("num_position_embeddings", "image_num_pos", default=tower.patches)
    weights = [
        array(f"{at}.positional_embedding", positions, tower.hidden, part=VISION),
        linear(f"{at}.patch_embedding", tower.hidden, pixels, part=VISION, bias=True),
        *encoder_layers(
            f"{at}.layers.{{layer}}",
            tower.hidden,
            tower.intermediate,
            tower.all_layers,
            qkvo=("q_proj", "k_proj", "v_proj", "o_proj"),
            width=tower.heads * head_dim,
            kv_width=head_dim * vision.integer("num_key_value_heads", default=16),
            biases=(bias, bias, bias, True),
        ),
        *_adapter(adapter, tower.hidden),
    ]
    return multimodal(config, text, weights, traits=(MULTIMODAL, PREFIX_LM))


def _adapter(config: Config, source: int) -> list[Weight]:
    """Attention that pools patches, and a gated projector. Defaults: Molmo2AdapterConfig."""
    layers = config.integers("vision_feature_layer", "vit_layers", minimum=-MAX_LAYERS) or [-3, -9]
    hidden = config.integer("hidden_size", default=1152)
    head_dim = config.integer("head_dim", default=72)
    inner = config.integer("intermediate_size", default=18944)
    out = config.integer("text_hidden_size", default=3584)
    width = head_dim * config.integer("num_attention_heads", default=16)
    kv_width = head_dim * config.integer("num_key_value_heads", default=16)
    bias = config.boolean("attention_bias", default=True)
    read = source * len(layers)
    at = "model.multi_modal_projector"
    pool = f"{at}.image_pooling_2d"
    return [
        linear(f"{pool}.q_proj", width, read, part=PROJECTOR, bias=bias),
        linear(f"{pool}.k_proj", kv_width, read, part=PROJECTOR, bias=bias),
        linear(f"{pool}.v_proj", kv_width, read, part=PROJECTOR, bias=bias),
        linear(f"{pool}.o_proj", hidden, width, part=PROJECTOR, bias=True),
        linear(f"{at}.image_projector.gate_proj", inner, hidden, part=PROJECTOR),
        linear(f"{at}.image_projector.up_proj", inner, hidden, part=PROJECTOR),
        linear(f"{at}.image_projector.down_proj", out, inner, part=PROJECTOR),
    ]
