"""OLMo hybrid: OLMo 3's attention in every fourth layer, gated delta nets in the others."""

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_state import DeltaNet
from app.resolve.architectures.common_shape import attention_part, read_dims
from app.resolve.architectures.common_weights import attention, norms, vector
from app.resolve.architectures.fields import Config
from app.resolve.architectures.hybrid import (
    FULL,
    LINEAR,
    checked_kinds,
    hybrid_decoder,
    pick,
)
from app.resolve.architectures.llama_like import Names, dense_mlp

OLMO = Names(norms=("post_attention_layernorm",))


@family("olmo_hybrid", architectures=("OlmoHybridForCausalLM",))
def olmo_hybrid(config: Config) -> ModelShape:
    """Full layers cache K and V, the others a state in the model's precision. Heads of the delta
    net are as many as those of attention, its keys three quarters of their width, its values twice
    its keys, unless stated. Defaults: OlmoHybridConfig.
    """
    dims = read_dims(
        config,
        layers=32,
        hidden=3840,
        heads=30,
        intermediate=11008,
        vocab=100352,
        max_positions=65536,
    )
    kinds = config.texts("layer_types")
    if kinds is None:
        kinds = [FULL if i % 4 == 3 else LINEAR for i in dims.all_layers]
        if FULL not in kinds:
            kinds[-1] = FULL
    kinds = checked_kinds(config, "layer_types", kinds, dims.layers, FULL, LINEAR)
    key_heads = config.integer("linear_num_key_heads", default=dims.heads)
    key_dim = config.integer(
        "linear_key_head_dim", default=max(1, 3 * dims.hidden // (4 * key_heads))
    )
    net = DeltaNet(
        hidden=dims.hidden,
        key_heads=key_heads,
        value_heads=config.integer("linear_num_value_heads", default=dims.heads),
        key_dim=key_dim,
        value_dim=config.integer("linear_value_head_dim", default=2 * key_dim),
        kernel=config.integer("linear_conv_kernel_dim", default=4),
    )
    full, recurrent = pick(kinds, FULL), pick(kinds, LINEAR)
    bias = config.boolean("attention_bias", default=False)
    at = config.prefix + "model.layers.{layer}"
    parts = {FULL: (attention_part(dims),), LINEAR: (net.part(),)}
    qkv = (("q", net.keys), ("k", net.keys), ("v", net.values))
    per_head = (("a", net.value_heads), ("b", net.value_heads), ("g", net.values))
    return hybrid_decoder(
        config,
        dims,
        kinds,
        parts,
        [
            *net.weights(
                f"{at}.linear_attn",
                recurrent,
                [(f"{name}_proj", rows) for name, rows in qkv + per_head],
                convolutions=[(f"{name}_conv1d", rows) for name, rows in qkv],
                norm="o_norm",
                out="o_proj",
            ),
            *attention(at, dims, full, bias=bias, out_bias=bias),
            vector(f"{at}.self_attn.q_norm", dims.heads * dims.head_dim, layers=full),
            vector(f"{at}.self_attn.k_norm", dims.kv_heads * dims.head_dim, layers=full),
            *dense_mlp(at, dims, dims.all_layers),
            *norms(at, dims.hidden, recurrent, "input_layernorm"),
            *norms(at, dims.hidden, full, "post_feedforward_layernorm"),
        ],
        names=OLMO,
    )
