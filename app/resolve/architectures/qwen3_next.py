"""Qwen3-Next and Qwen3-Coder-Next: gated delta nets with gated attention in every fourth layer."""

from collections.abc import Callable, Sequence

from app.core.inventory import Part, Weight
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_moe import as_mtp, drafts
from app.resolve.architectures.blocks_state import DeltaNet, read_delta_net, state_dtype
from app.resolve.architectures.common_shape import Dims, attention_part, model_shape, read_dims
from app.resolve.architectures.common_weights import attention, linear, norms, vector, vocabulary
from app.resolve.architectures.fields import Config
from app.resolve.architectures.hybrid import (
    FULL,
    HYBRID,
    LINEAR,
    interval_kinds,
    kind_groups,
    pick,
    with_kv_heads,
)
from app.resolve.architectures.llama_like import dense_mlp, mixture

NORMS = ("input_layernorm", "post_attention_layernorm")


@family("qwen3_next", architectures=("Qwen3NextForCausalLM",))
def qwen3_next(config: Config) -> ModelShape:
    """Every `full_attention_interval`-th layer caches K and V, the others a state. The published
    checkpoints hold one multi-token-prediction layer that no key mentions. Defaults:
    Qwen3NextConfig.
    """
    dims = read_dims(
        with_kv_heads(config, 2),
        layers=48,
        hidden=2048,
        heads=16,
        head_dim=256,
        intermediate=5632,
        vocab=151936,
        max_positions=32768,
    )
    net = read_delta_net(config, dims.hidden)
    step = config.integer("decoder_sparse_step", default=1)
    dense = set(config.integers("mlp_only_layers") or ())
    dense.update(i for i in dims.all_layers if (i + 1) % step)

    def mlp(at: str, layers: Sequence[int]) -> list[Weight]:
        plain = [i for i in layers if i in dense]
        return [
            *dense_mlp(at, dims, plain),
            *qwen_mixture(config, dims, at, [i for i in layers if i not in dense]),
        ]

    return delta_model(
        config,
        dims,
        net,
        projections=(
            ("in_proj_qkvz", 2 * net.keys + 2 * net.values),
            ("in_proj_ba", 2 * net.value_heads),
        ),
        mlp=mlp,
        mtp_modules=config.integer("num_nextn_predict_layers", default=1, minimum=0, maximum=64),
    )


def delta_model(
    config: Config,
    dims: Dims,
    net: DeltaNet,
    *,
    projections: Sequence[tuple[str, int]],
    mlp: Callable[[str, Sequence[int]], list[Weight]],
    mtp_modules: int,
    root: str = "model.",
    mtp_root: str = "mtp.",
) -> ModelShape:
    """The decoder Qwen3-Next and Qwen3.5 share. `projections` are the delta net's input matrices
    as the checkpoint has them, `mlp` gives the MLP of some layers under a path, `root` is where the
    checkpoint keeps the decoder.
    """
    kinds = interval_kinds(config, dims.layers)
    full = pick(kinds, FULL)
    state = net.part(state_dtype(config, "mamba_ssm_dtype"))
    cached = attention_part(dims)
    drafted = tuple(range(dims.layers, dims.layers + mtp_modules))
    at = f"{config.prefix}{root}layers.{{layer}}"
    return model_shape(
        config,
        dims,
        groups=kind_groups(kinds, {FULL: (cached,), LINEAR: (state,)}, dims.heads),
        draft_groups=drafts(drafted, dims.heads, cached),
        weights=[
            *vocabulary(dims, prefix=config.prefix, embed=f"{root}embed_tokens"),
            *net.weights(f"{at}.linear_attn", pick(kinds, LINEAR), projections),
            *gated_attention(config, dims, at, full),
            *mlp(at, dims.all_layers),
            *norms(at, dims.hidden, dims.all_layers, *NORMS),
            vector(f"{config.prefix}{root}norm", dims.hidden),
            *_mtp(config, dims, config.prefix + mtp_root, mtp_modules, mlp),
        ],
        traits=(HYBRID,),
    )


def gated_attention(config: Config, dims: Dims, at: str, layers: Sequence[int]) -> list[Weight]:
    """Attention whose query projection also makes an output gate; norms on queries and keys."""
    if not layers:
        return []
    return [
        *attention(
            at,
            dims,
            layers,
            bias=config.boolean("attention_bias", "qkv_bias", default=False),
            out_bias=config.boolean("attention_bias", default=False),
            query_gate=config.boolean("attn_output_gate", default=True),
        ),
        vector(f"{at}.self_attn.q_norm", dims.head_dim, layers=layers),
        vector(f"{at}.self_attn.k_norm", dims.head_dim, layers=layers),
    ]


def _mtp(
    config: Config,
    dims: Dims,
    root: str,
    modules: int,
    mlp: Callable[[str, Sequence[int]], list[Weight]],
) -> list[Weight]:
    """Multi-token prediction: a projection of embedding and hidden state, and a layer a module."""
    if not modules:
        return []
    at = f"{root}layers.{{layer}}"
    layers = tuple(range(modules))
    own_embedding = config.boolean("mtp_use_dedicated_embeddings", default=False)
    weights = [
        linear(f"{root}fc", dims.hidden, 2 * dims.hidden, part=Part.MTP),
        vector(f"{root}norm", dims.hidden),
        vector(f"{root}pre_fc_norm_hidden", dims.hidden),
        vector(f"{root}pre_fc_norm_embedding", dims.hidden),
        *gated_attention(config, dims, at, layers),
        *mlp(at, layers),
        *norms(at, dims.hidden, layers, *NORMS),
        *(vocabulary(dims, prefix=root, embed="embed_tokens")[:1] if own_embedding else ()),
    ]
    return as_mtp(weights)


def qwen_mixture(
    config: Config,
    dims: Dims,
    at: str,
    layers: Sequence[int],
    *,
    num_experts: int = 512,
    top_k: int = 10,
) -> list[Weight]:
    """Routed experts and a gated shared one, in Qwen's spelling."""
    return mixture(
        at,
        dims.hidden,
        config.integer("moe_intermediate_size", default=512),
        layers,
        num_experts=config.integer("num_experts", default=num_experts),
        top_k=config.integer("num_experts_per_tok", default=top_k),
        shared_width=config.integer("shared_expert_intermediate_size", default=512, minimum=0),
        shared="shared_expert",
        shared_gate="shared_expert_gate",
    )
