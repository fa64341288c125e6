"""Decoders that transformers runs and engines do not: NanoChat, Doge, DiffLlama, JetMoE, CTRL,
ModernBERT's decoder.
"""

from math import isqrt

from app.core.inventory import Part, Split, Weight
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.common_shape import (
    attention_part,
    model_shape,
    read_dims,
    uniform_groups,
)
from app.resolve.architectures.common_weights import linear, norms, vector, vocabulary
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import (
    EVERY_BIAS,
    LLAMA,
    Names,
    attention_bias,
    layer_windows,
    llama_like,
    window_size,
)
from app.resolve.architectures.task_heads import ends

NANOCHAT = Names(norms=(), norm="", mlp=("fc1", "fc2"))
CTRL = Names(
    layer="transformer.h.{layer}",
    embed="transformer.w",
    norm="transformer.layernorm",
    norms=("layernorm1", "layernorm2"),
    attention="multi_head_attention",
    qkvo=("Wq", "Wk", "Wv", "dense"),
    mlp_module="ffn",
    mlp=("0", "2"),
)
MODERNBERT_DECODER = Names(
    embed="model.embeddings.tok_embeddings",
    head="decoder",
    norm="model.final_norm",
    norms=("mlp_norm",),
    attention="attn",
    qkvo=("q_proj", "k_proj", "v_proj", "Wo"),
    mlp=("Wi", "Wi", "Wo"),
)


@family("nanochat", architectures=("NanoChatForCausalLM",))
def nanochat(config: Config) -> ModelShape:
    """Norms without parameters, an ungated MLP. Defaults: NanoChatConfig."""
    dims = read_dims(
        config,
        layers=12,
        hidden=768,
        heads=6,
        intermediate=8192,
        vocab=50304,
        max_positions=2048,
    )
    return llama_like(config, dims, names=NANOCHAT, **attention_bias(config))


@family("diffllama", architectures=("DiffLlamaForCausalLM",))
def diffllama(config: Config) -> ModelShape:
    """Two attentions subtracted, weighed by four vectors a layer. Defaults: DiffLlamaConfig."""
    dims = read_dims(
        config,
        layers=16,
        hidden=2048,
        heads=32,
        intermediate=8192,
        vocab=32000,
        max_positions=2048,
    )
    at = f"{LLAMA.at(config)}.self_attn"
    return llama_like(
        config,
        dims,
        **attention_bias(config),
        extra=[
            vector(f"{at}.{name}", dims.head_dim, part=Part.ATTENTION, layers=dims.all_layers)
            for name in ("lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2")
        ],
    )


@family("doge", architectures=("DogeForCausalLM",))
def doge(config: Config) -> ModelShape:
    """Dynamic masks over all tokens; scaled residuals; where `is_moe` is true, an MLP beside
    `num_experts` experts of one row. Defaults: DogeConfig.
    """
    dims = read_dims(
        config,
        layers=32,
        hidden=1024,
        heads=8,
        intermediate=2048,
        vocab=32768,
        max_positions=2048,
    )
    bias = config.boolean("attention_bias", default=False)
    at = LLAMA.at(config)
    layers = dims.all_layers
    mask = linear(
        f"{at}.self_attn.dt_proj",
        dims.kv_heads,
        dims.kv_heads * dims.head_dim,
        part=Part.ATTENTION,
        layers=layers,
        bias=bias,
    )
    extra = [
        mask,
        vector(f"{at}.self_attn.A", dims.kv_heads, part=Part.ATTENTION, layers=layers),
        *norms(at, dims.hidden, layers, "input_residual", "post_attention_residual"),
    ]
    if config.boolean("is_moe", default=False):
        extra += _doge_experts(config, at, dims.hidden, layers)
    return llama_like(
        config,
        dims,
        windows=window_size(config),
        qkv_bias=bias,
        out_bias=bias,
        mlp_bias=config.boolean("mlp_bias", default=False),
        qk_norm=(dims.head_dim, dims.head_dim),
        extra=extra,
    )


def _doge_experts(config: Config, at: str, hidden: int, layers: tuple[int, ...]) -> list[Weight]:
    num_experts = config.integer("num_experts", default=16384)
    top_k = config.integer("num_experts_per_tok", default=64)
    router = linear(
        f"{at}.mlp.router_gate", 2 * isqrt(num_experts), hidden, part=Part.ROUTER, layers=layers
    )
    rows = [
        Weight(
            name=f"{at}.mlp.{name}",
            shape=(hidden,),
            part=Part.ROUTED_EXPERTS,
            layers=layers,
            experts=num_experts,
            active=min(top_k, num_experts),
        )
        for name in ("down_embed", "up_embed")
    ]
    return [router, *rows]


@family("jetmoe", architectures=("JetMoeForCausalLM",))
def jetmoe(config: Config) -> ModelShape:
    """Experts in attention too: each has its queries and outputs, keys and values are shared, so
    a token has `num_experts_per_tok` query heads a KV head. Defaults: JetMoeConfig.
    """
    top_k = config.integer("num_experts_per_tok", default=2, maximum=1024)
    kv_heads = config.integer("num_key_value_heads", default=16)
    dims = read_dims(
        config.overlay(
            num_key_value_heads=kv_heads,
            num_attention_heads=kv_heads * top_k,
            head_dim=config.integer("kv_channels", "head_dim", default=128),
        ),
        layers=12,
        hidden=2048,
        intermediate=5632,
        vocab=32000,
        max_positions=4096,
        tied=True,
    )
    experts = config.integer("num_local_experts", default=8)
    at = LLAMA.at(config)
    layers = dims.all_layers
    width = dims.kv_heads * dims.head_dim
    active = min(top_k, experts)
    heads, mlp = Part.ATTENTION, Part.ROUTED_EXPERTS
    experted = [
        ("self_attention.experts.input_linear", width, dims.hidden, heads, Split.COLUMN),
        ("self_attention.experts.output_linear", dims.hidden, width, heads, Split.ROW),
        ("mlp.input_linear", 2 * dims.intermediate, dims.hidden, mlp, Split.COLUMN),
        ("mlp.output_linear", dims.hidden, dims.intermediate, mlp, Split.ROW),
    ]
    routers = ("self_attention.experts.router.layer", "mlp.router.layer")
    return model_shape(
        config,
        dims,
        groups=uniform_groups(dims, attention_part(dims)),
        weights=[
            *vocabulary(dims, prefix=config.prefix),
            linear(
                f"{at}.self_attention.kv_proj", 2 * width, dims.hidden, part=heads, layers=layers
            ),
            *(
                linear(
                    f"{at}.{name}",
                    rows,
                    columns,
                    part=part,
                    layers=layers,
                    split=split,
                    experts=experts,
                    active=active,
                )
                for name, rows, columns, part, split in experted
            ),
            *(
                linear(f"{at}.{name}", experts, dims.hidden, part=Part.ROUTER, layers=layers)
                for name in routers
            ),
            *norms(at, dims.hidden, layers, *LLAMA.norms),
            *norms(at, dims.hidden, layers, "self_attention.experts.bias", "mlp.bias"),
            vector(config.prefix + LLAMA.norm, dims.hidden),
        ],
    )


@family("ctrl", architectures=("CTRLLMHeadModel",))
def ctrl(config: Config) -> ModelShape:
    """Multi-head attention, computed positions, a bias on the tied head. Defaults: CTRLConfig."""
    dims = read_dims(
        config,
        layers=48,
        hidden=1280,
        heads=16,
        intermediate=config.integer("dff", default=8192),
        vocab=246534,
        max_positions=256,
        tied=True,
    )
    return llama_like(
        config,
        dims,
        names=CTRL,
        **EVERY_BIAS,
        head_bias=True,
    )


@family("modernbert-decoder", architectures=("ModernBertDecoderForCausalLM",))
def modernbert_decoder(config: Config) -> ModelShape:
    """A full layer (the first of each three), then windowed ones of half `local_attention`; the
    first layer lacks its first norm. Defaults: ModernBertDecoderConfig.
    """
    dims = read_dims(
        config,
        layers=22,
        hidden=768,
        heads=12,
        intermediate=1152,
        vocab=50368,
        max_positions=8192,
        tied=True,
    )
    period = config.integer("global_attn_every_n_layers", default=3)
    window = config.integer("local_attention", default=128, minimum=0) // 2 or None
    pattern = [index % period != 0 for index in range(dims.layers)]
    norm_bias = config.boolean("norm_bias", default=False)
    at = MODERNBERT_DECODER.at(config)
    bias = config.boolean("classifier_bias", default=False)
    head = config.prefix + "lm_head"
    before_words = [
        linear(f"{head}.dense", dims.hidden, dims.hidden, part=Part.OTHER, bias=bias),
        vector(f"{head}.norm", dims.hidden, bias=norm_bias),
    ]
    return llama_like(
        config,
        dims,
        names=MODERNBERT_DECODER,
        windows=layer_windows(config, dims.layers, window, default=pattern),
        **attention_bias(config),
        mlp_bias=config.boolean("mlp_bias", default=False),
        norm_bias=norm_bias,
        head_bias=config.boolean("decoder_bias", default=True),
        extra=[
            *(() if ends(config, "Model") else before_words),
            vector(config.prefix + "model.embeddings.norm", dims.hidden, bias=norm_bias),
            vector(f"{at}.attn_norm", dims.hidden, layers=range(1, dims.layers), bias=norm_bias),
        ],
    )
