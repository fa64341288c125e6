"""OPT, Galactica and XGLM."""

from dataclasses import replace

from app.core.inventory import Part
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.common_shape import read_dims
from app.resolve.architectures.common_weights import linear
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import EVERY_BIAS, Names, llama_like, position_table

OPT = Names(
    layer="model.decoder.layers.{layer}",
    embed="model.decoder.embed_tokens",
    norm="model.decoder.final_layer_norm",
    norms=("self_attn_layer_norm", "final_layer_norm"),
    qkvo=("q_proj", "k_proj", "v_proj", "out_proj"),
    mlp_module="",
    mlp=("fc1", "fc2"),
)
XGLM = replace(
    OPT, layer="model.layers.{layer}", embed="model.embed_tokens", norm="model.layer_norm"
)


@family("opt", architectures=("OPTForCausalLM",))
def opt(config: Config) -> ModelShape:
    """Multi-head attention, learned positions (two rows more). Where `word_embed_proj_dim` differs
    from the width (350M), tokens are embedded in it and projected. Defaults: OPTConfig.
    """
    dims = read_dims(
        config,
        layers=12,
        hidden=768,
        heads=12,
        intermediate=config.integer("ffn_dim", default=3072),
        vocab=50272,
        max_positions=2048,
        tied=True,
    )
    bias = config.boolean("enable_bias", default=True)
    affine = config.boolean("layer_norm_elementwise_affine", default=True)
    last = config.boolean("do_layer_norm_before", default=True) and not config.boolean(
        "_remove_final_layer_norm", default=False
    )
    names = replace(
        OPT, norms=OPT.norms if affine else (), norm=OPT.norm if last and affine else ""
    )
    extra = [position_table(config, dims, "model.decoder.embed_positions", offset=2)]
    narrow = config.integer("word_embed_proj_dim", default=dims.hidden)
    if narrow != dims.hidden:
        prefix = config.prefix + "model.decoder."
        extra += [
            linear(prefix + "project_in", dims.hidden, narrow, part=Part.OTHER),
            linear(prefix + "project_out", narrow, dims.hidden, part=Part.OTHER),
        ]
    shape = llama_like(
        config,
        dims,
        names=names,
        qkv_bias=bias,
        out_bias=bias,
        mlp_bias=bias,
        norm_bias=True,
        extra=extra,
    )
    vocabulary = (Part.EMBEDDING, Part.HEAD)
    return replace(
        shape,
        weights=tuple(
            replace(weight, shape=(dims.vocab, narrow)) if weight.part in vocabulary else weight
            for weight in shape.weights
        ),
    )


@family("xglm", architectures=("XGLMForCausalLM",))
def xglm(config: Config) -> ModelShape:
    """OPT with positions that are computed, not learned. Defaults: XGLMConfig."""
    dims = read_dims(
        config,
        layers=24,
        hidden=1024,
        heads=config.integer("attention_heads", default=16),
        intermediate=config.integer("ffn_dim", default=4096),
        vocab=256008,
        max_positions=2048,
        tied=True,
    )
    return llama_like(
        config,
        dims,
        names=XGLM,
        **EVERY_BIAS,
    )
