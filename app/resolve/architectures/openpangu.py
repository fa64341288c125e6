"""openPangu: dense (Embedded), mixtures with learned sink tokens (Pro V2), and with latents (Ultra)."""

from dataclasses import replace

from app.core.inventory import Part, Split, Weight
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_encoder import array
from app.resolve.architectures.blocks_mixed import Kind, kind_attention, kinds_of, mixed_decoder
from app.resolve.architectures.blocks_moe import (
    drafts,
    feed_forward,
    mtp_layers,
    mtp_module,
    read_moe,
    routed_mlp,
    sparse_layers,
)
from app.resolve.architectures.common_shape import attention_part, read_dims
from app.resolve.architectures.common_weights import norms
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import LLAMA, llama_like
from app.resolve.architectures.mla import Latent, mla_decoder, read_latent

SANDWICH = ("pre_mlp_layernorm", "post_mlp_layernorm")


@family("PanguEmbedded", "pangu_embedded", architectures=("PanguEmbeddedForCausalLM",))
def pangu_embedded(config: Config) -> ModelShape:
    """K and V of every token in every layer, but for windows in turn where the config lists them.
    The published files state every size.
    """
    dims = read_dims(config)
    bias = config.boolean("attention_bias", "bias", default=False)
    return llama_like(
        config,
        dims,
        windows=_windows(config, dims.layers),
        qkv_bias=config.boolean("qkv_bias", default=bias),
        out_bias=bias,
        mlp_bias=config.boolean("mlp_bias", default=False),
    )


@family("pangu_ultra_moe", architectures=("PanguUltraMoEForCausalLM",))
def pangu_ultra_moe(config: Config) -> ModelShape:
    """One latent a token in every layer; two more norms where `sandwich_norm` says so. Older files
    spell the latent's sizes `attention_*_dim`. The published files state every size.
    """
    config = config.overlay(
        **{
            name: config.get(name, *others)
            for name, others in {
                "q_lora_rank": ("attention_q_lora_dim",),
                "kv_lora_rank": ("attention_kv_lora_dim",),
                "qk_nope_head_dim": ("attention_qk_dim",),
                "qk_rope_head_dim": ("attention_qk_rope_dim",),
                "v_head_dim": ("attention_v_dim",),
                "first_k_dense_replace": ("num_dense_layers",),
                "n_routed_experts": ("num_routed_experts",),
            }.items()
        }
    )
    latent: Latent = read_latent(config)
    dims = read_dims(config, head_dim=latent.qk_nope_head_dim + latent.qk_rope_head_dim)
    at = config.prefix + "model.layers.{layer}"
    sandwich = config.boolean("sandwich_norm", default=False)
    return mla_decoder(
        config,
        dims,
        latent,
        read_moe(config),
        sparse_layers(config, dims.layers),
        corrected=config.boolean("router_enable_expert_bias", default=False),
        each=lambda layers: norms(at, dims.hidden, layers, *SANDWICH) if sandwich else [],
    )


@family("pangu_v2_moe", architectures=("PanguProMoEV2ForCausalLM",))
def pangu_pro_moe(config: Config) -> ModelShape:
    """K and V of every token, of different widths, behind `param_sink_number` learned tokens that
    all sequences share. The published files state every size.
    """
    rotary = config.integer("qk_rope_dim", default=64)
    dims = read_dims(config, head_dim=config.integer("qk_nope_dim", default=64, minimum=0) + rotary)
    v_dim = config.integer("v_channels", default=dims.head_dim)
    bias = config.boolean("attention_bias", "bias", default=False)
    at = config.prefix + "model.layers.{layer}"
    extra_norms = SANDWICH if config.boolean("sandwich_norm", default=False) else ()
    names = replace(LLAMA, norms=(*LLAMA.norms, *extra_norms))
    moe = read_moe(config)
    corrected = config.boolean("router_enable_expert_bias", default=False)
    full = Kind(dims=dims, layers=(), v_head_dim=v_dim)
    windows = _windows(config, dims.layers) or [None] * dims.layers
    kinds = kinds_of([replace(full, window=window) for window in windows])
    modules = mtp_layers(config, dims)

    def extras(kind: Kind) -> list[Weight]:
        return _sinks(config, at, kind)

    drafting = full.at(modules)
    block = [
        *kind_attention(at, drafting, qkv_bias=bias, out_bias=bias),
        *(extras(drafting) if modules else ()),
        *routed_mlp(at, dims, moe, modules, corrected=corrected),
        *norms(at, dims.hidden, modules, *names.norms),
    ]
    return mixed_decoder(
        config,
        dims,
        kinds,
        feed_forward(at, dims, moe, sparse_layers(config, dims.layers), corrected=corrected),
        names=names,
        qkv_bias=config.boolean("qkv_bias", default=bias),
        out_bias=bias,
        per_kind=extras,
        extra=mtp_module(at, dims, modules, block),
        traits=("sink_tokens", "diff_kv") if v_dim != dims.head_dim else ("sink_tokens",),
        draft_groups=drafts(modules, dims.heads, attention_part(dims, v_head_dim=v_dim)),
    )


def _sinks(config: Config, at: str, kind: Kind) -> list[Weight]:
    """Learned keys (and values) of the sink tokens, and the norm on keys."""
    base = f"{at}.self_attn"
    weights = norms(base, kind.dims.head_dim, kind.layers, "k_layernorm")
    count = config.integer("param_sink_number", default=0, minimum=0)
    widths = {"param_sink_key": kind.dims.head_dim}
    if config.boolean("param_sink_with_value", default=False):
        widths["param_sink_value"] = kind.v_head_dim or kind.dims.head_dim
    if not count:
        return weights
    return weights + [
        replace(
            array(
                f"{base}.{name}",
                count,
                kind.dims.kv_heads,
                width,
                part=Part.ATTENTION,
                layers=kind.layers,
            ),
            split=Split.REPLICATED,
        )
        for name, width in widths.items()
    ]


def _windows(config: Config, layers: int) -> list[int | None] | None:
    """`interleaved_sliding_window`: one window, or windows of layers in turn (0 or -1: none)."""
    stated = config.get("interleaved_sliding_window")
    if stated is None:
        return None
    if not isinstance(stated, list):
        return [config.integer("interleaved_sliding_window")] * layers
    turn = config.integers("interleaved_sliding_window", minimum=-1) or [0]
    return [size if (size := turn[index % len(turn)]) > 0 else None for index in range(layers)]
