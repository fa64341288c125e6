"""MiMo-V2: windowed layers with more KV heads and sinks, full ones with few; V narrower than K."""

from dataclasses import replace

from app.core.inventory import Part, Weight
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_mixed import Kind, kind_attention, kinds_of, mixed_decoder
from app.resolve.architectures.blocks_moe import as_mtp, feed_forward, read_moe, sparse_layers
from app.resolve.architectures.common_shape import Dims, read_dims
from app.resolve.architectures.common_weights import linear, norms
from app.resolve.architectures.fields import Config
from app.resolve.architectures.gqa_moe import sinks
from app.resolve.architectures.llama_like import LLAMA, SLIDING, Names, dense_mlp

PERIOD = 6
MTP_MODULES = 3
FUSED = replace(LLAMA, qkvo=("qkv_proj", "qkv_proj", "qkv_proj", "o_proj"))


@family(
    "mimo_v2_flash",
    "mimo_v2",
    architectures=("MiMoV2FlashForCausalLM", "MiMoV2ForCausalLM"),
)
def mimo_v2(config: Config) -> ModelShape:
    """Layers of pattern 1 keep a window with their own head counts, those of pattern 0 everything.
    Three prediction modules are published (no key says so), windowed and dense; engines run one.
    Defaults: MiMoV2FlashConfig.
    """
    dims = read_dims(
        config,
        layers=48,
        hidden=4096,
        heads=64,
        kv_heads=4,
        head_dim=192,
        intermediate=16384,
        vocab=152576,
        max_positions=131072,
    )
    full = Kind(dims=dims, layers=(), v_head_dim=config.integer("v_head_dim", default=128))
    windowed = _windowed(config, full)
    kinds = kinds_of([windowed if flag else full for flag in _pattern(config, dims.layers)])
    at = config.prefix + "model.layers.{layer}"
    bias = config.boolean("attention_bias", default=False)
    fused = config.text("attention_projection_layout") == "fused_qkv"
    names = FUSED if fused else LLAMA
    sinks_in = {
        True: config.boolean("add_swa_attention_sink_bias", default=True),
        False: config.boolean("add_full_attention_sink_bias", default=False),
    }

    def sink(kind: Kind) -> list[Weight]:
        wanted = sinks_in[kind.window is not None]
        return sinks(at, kind.dims, kind.layers, name="attention_sink_bias") if wanted else []

    sparse = (
        sparse_layers(config, dims.layers)
        if config.has("moe_layer_freq", "mlp_layer_types")
        else [index > 0 for index in range(dims.layers)]
    )
    moe = read_moe(config, experts=256, top_k=8, width=2048)
    modules = tuple(range(MTP_MODULES))
    return mixed_decoder(
        config,
        dims,
        kinds,
        feed_forward(at, dims, moe, sparse),
        names=names,
        qkv_bias=bias,
        per_kind=sink,
        extra=_mtp(config, dims, windowed.at(modules), names, sinks_in[True]),
        traits=("attention_sinks", "diff_kv"),
        draft_groups=(windowed.at((dims.layers,)).group,),
    )


def _pattern(config: Config, layers: int) -> list[bool]:
    """True for a windowed layer: `hybrid_layer_pattern`, else `layer_types`, else all but the
    first and each sixth.
    """
    pattern = config.integers("hybrid_layer_pattern", maximum=1)
    if pattern is not None:
        return [flag == 1 for flag in config.per_layer(pattern, "hybrid_layer_pattern", layers)]
    types = config.texts("layer_types")
    if types is not None:
        return [kind in SLIDING for kind in config.per_layer(types, "layer_types", layers)]
    return [index > 0 and (index + 1) % PERIOD != 0 for index in range(layers)]


def _windowed(config: Config, full: Kind) -> Kind:
    dims = full.dims
    own = replace(
        dims,
        heads=config.integer("swa_num_attention_heads", default=dims.heads),
        kv_heads=config.integer("swa_num_key_value_heads", default=2 * dims.kv_heads),
        head_dim=config.integer("swa_head_dim", default=dims.head_dim),
    )
    return Kind(
        dims=own,
        layers=(),
        window=config.integer("sliding_window_size", "sliding_window", default=129),
        v_head_dim=config.integer("swa_v_head_dim", default=full.v_head_dim),
    )


def _mtp(config: Config, dims: Dims, kind: Kind, names: Names, has_sinks: bool) -> list[Weight]:
    at = config.prefix + "model.mtp.layers.{layer}"
    layers = kind.layers
    size = dims.hidden
    return as_mtp(
        [
            linear(f"{at}.eh_proj", size, 2 * size, part=Part.MTP, layers=layers),
            *kind_attention(at, kind, names=names),
            *(sinks(at, kind.dims, layers, name="attention_sink_bias") if has_sinks else ()),
            *dense_mlp(at, dims, layers),
            *norms(
                at,
                size,
                layers,
                "enorm",
                "hnorm",
                "input_layernorm",
                "pre_mlp_layernorm",
                "final_layernorm",
            ),
        ]
    )
