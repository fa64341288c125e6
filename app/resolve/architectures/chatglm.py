"""ChatGLM 1 to 3, CodeGeeX, GLM-4-9B and GLM-4V in their first form (remote code, `chatglm`)."""

from dataclasses import replace

from app.core.inventory import Part
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.cogvlm import eva_clip
from app.resolve.architectures.common_shape import HIDDEN, read_dims
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import EVERY_BIAS, Names, llama_like
from app.resolve.architectures.multimodal import multimodal

FUSED = ("query_key_value", "query_key_value", "query_key_value", "dense")
FIRST = Names(
    layer="transformer.layers.{layer}",
    embed="transformer.word_embeddings",
    norm="transformer.final_layernorm",
    attention="attention",
    qkvo=FUSED,
    mlp=("dense_h_to_4h", "dense_4h_to_h"),
)
SECOND = Names(
    layer="transformer.encoder.layers.{layer}",
    embed="transformer.embedding.word_embeddings",
    head="transformer.output_layer",
    norm="transformer.encoder.final_layernorm",
    attention="self_attention",
    qkvo=FUSED,
    mlp=("dense_h_to_4h", "dense_h_to_4h", "dense_4h_to_h"),
)


@family(
    "chatglm", architectures=("ChatGLMModel", "ChatGLMForConditionalGeneration", "GLM4VForCausalLM")
)
def chatglm(config: Config) -> ModelShape:
    """The first generation says `inner_hidden_size`; the later ones group their KV heads
    (`multi_query_group_num`, where `multi_query_attention` is true); GLM-4V has a vision tower.
    """
    if config.has("vision_config"):
        text = _second(config)
        inner = config.integer("ffn_hidden_size", default=13696)
        tower = eva_clip(config, text.hidden_size, inner, at="transformer.vision", widens=True)
        return multimodal(config, text, tower)
    if config.has("inner_hidden_size", "position_encoding_2d"):
        return _first(config)
    return _second(config)


def _first(config: Config) -> ModelShape:
    """Multi-head attention, biases everywhere, a tied head. Defaults: ChatGLMConfig of 6B."""
    dims = read_dims(
        config,
        layers=28,
        hidden=4096,
        heads=32,
        intermediate=config.integer("inner_hidden_size", default=16384),
        vocab=130528,
        max_positions=2048,
        tied=True,
    )
    return llama_like(
        config,
        dims,
        names=FIRST,
        **EVERY_BIAS,
    )


def _second(config: Config) -> ModelShape:
    """Defaults: ChatGLMConfig as the engine ships it."""
    heads = config.integer("num_attention_heads", default=32)
    grouped = config.boolean("multi_query_attention", default=False)
    hidden = config.integer(*HIDDEN, default=4096)
    dims = read_dims(
        config.overlay(
            num_key_value_heads=(
                config.integer("multi_query_group_num", default=1) if grouped else heads
            ),
            head_dim=config.integer("kv_channels", default=max(hidden // heads, 1)),
            vocab_size=config.integer("padded_vocab_size", "vocab_size", default=65024),
        ),
        layers=28,
        hidden=4096,
        heads=32,
        intermediate=config.integer("ffn_hidden_size", default=13696),
        max_positions=2048,
    )
    bias = config.boolean("add_bias_linear", default=False)
    shape = llama_like(
        config,
        dims,
        names=SECOND,
        qkv_bias=bias or config.boolean("add_qkv_bias", default=False),
        out_bias=bias,
        mlp_bias=bias,
        norm_bias=not config.boolean("rmsnorm", default=True),
    )
    if config.boolean("post_layer_norm", default=True):
        return shape
    kept = tuple(
        weight
        for weight in shape.weights
        if weight.part is not Part.NORM or weight.layers is not None
    )
    return replace(shape, weights=kept)
