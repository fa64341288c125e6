"""MPT and DBRX: MosaicML's decoders, their attention described in `attn_config`."""

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.common_shape import read_dims
from app.resolve.architectures.common_weights import routed_experts, router
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import Names, llama_like, position_table

MPT = Names(
    layer="transformer.blocks.{layer}",
    embed="transformer.wte",
    norm="transformer.norm_f",
    norms=("norm_1", "norm_2"),
    attention="attn",
    qkvo=("Wqkv", "Wqkv", "Wqkv", "out_proj"),
    qk_norms=("attn.q_ln", "attn.k_ln"),
    mlp_module="ffn",
    mlp=("up_proj", "down_proj"),
)
DBRX = Names(
    layer="transformer.blocks.{layer}",
    embed="transformer.wte",
    norm="transformer.norm_f",
    norms=("norm_attn_norm.norm_1", "norm_attn_norm.norm_2"),
    attention="norm_attn_norm.attn",
    qkvo=("Wqkv", "Wqkv", "Wqkv", "out_proj"),
)


@family("mpt", architectures=("MPTForCausalLM", "MptForCausalLM"))
def mpt(config: Config) -> ModelShape:
    """Multi-head attention (grouped where `kv_n_heads` says so) with ALiBi. Defaults: MptConfig.

    Without `no_bias` every matrix and norm has a bias; without ALiBi positions are learned.
    """
    attention = config.section("attn_config")
    kind = attention.text("attn_type", default="multihead_attention")
    hidden = config.integer("d_model", "hidden_size", default=2048)
    heads = config.integer("n_heads", "num_attention_heads", default=16)
    grouped = 1 if kind == "multiquery_attention" else heads
    times = config.number("expansion_ratio", default=4, minimum=0.125, maximum=1024)
    dims = read_dims(
        config.overlay(num_key_value_heads=attention.integer("kv_n_heads", default=grouped)),
        layers=24,
        hidden=2048,
        heads=16,
        intermediate=max(int(times * hidden), 1),
        vocab=50368,
        max_positions=2048,
        tied=True,
    )
    bias = not config.boolean("no_bias", default=True)
    alibi = attention.boolean("alibi", default=True)
    rope = attention.boolean("rope", default=False)
    learned = config.boolean("learned_pos_emb", default=True) and not (alibi or rope)
    normed = attention.boolean("qk_ln", default=False)
    return llama_like(
        config,
        dims,
        names=MPT,
        qkv_bias=bias,
        out_bias=bias,
        mlp_bias=bias,
        norm_bias=bias,
        qk_norm=(dims.hidden, dims.kv_heads * dims.head_dim) if normed else None,
        qk_norm_bias=bias,
        extra=[position_table(config, dims, "transformer.wpe")] if learned else (),
        traits=("alibi",) if alibi else (),
    )


@family("dbrx", architectures=("DbrxForCausalLM",))
def dbrx(config: Config) -> ModelShape:
    """A mixture in every layer, sizes in `attn_config` and `ffn_config`. Defaults: DbrxConfig."""
    experts = config.section("ffn_config")
    dims = read_dims(
        config.overlay(
            num_key_value_heads=config.section("attn_config").integer("kv_n_heads", default=1)
        ),
        layers=24,
        hidden=2048,
        heads=16,
        intermediate=experts.integer("ffn_hidden_size", default=3584),
        vocab=32000,
        max_positions=2048,
    )
    at = DBRX.at(config)
    num_experts = experts.integer("moe_num_experts", default=4)
    return llama_like(
        config,
        dims,
        names=DBRX,
        mlp=[
            router(at, dims.hidden, num_experts, dims.all_layers, module="ffn.router.layer"),
            *routed_experts(
                at,
                dims.hidden,
                dims.intermediate,
                dims.all_layers,
                num_experts=num_experts,
                top_k=experts.integer("moe_top_k", default=1),
                module="ffn.experts.mlp",
                names=("w1", "v1", "w2"),
            ),
        ],
    )
