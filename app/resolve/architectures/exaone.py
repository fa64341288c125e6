"""EXAONE 3, 3.5, 4 and K-EXAONE (MoE)."""

from dataclasses import replace

from app.core.inventory import Part, Weight
from app.core.model import LayerGroup, ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.common_shape import Dims, attention_part, read_dims
from app.resolve.architectures.common_weights import attention, linear, norms, vector
from app.resolve.architectures.fields import MAX_LAYERS, Config
from app.resolve.architectures.llama_like import (
    LLAMA,
    Names,
    attention_bias,
    dense_mlp,
    layer_windows,
    llama_like,
    mixture,
    window_size,
)

EXAONE = Names(
    layer="transformer.h.{layer}",
    embed="transformer.wte",
    norm="transformer.ln_f",
    norms=("ln_1", "ln_2"),
    attention="attn.attention",
    qkvo=("q_proj", "k_proj", "v_proj", "out_proj"),
    mlp=("c_fc_0", "c_fc_1", "c_proj"),
)
EXAONE4 = Names(norms=("post_attention_layernorm", "post_feedforward_layernorm"))
MTP_NORMS = ("mtp.norm", "mtp.pre_fc_norm_hidden", "mtp.pre_fc_norm_embedding")


@family("exaone", architectures=("ExaoneForCausalLM",))
def exaone(config: Config) -> ModelShape:
    """Full attention under names of its own. Defaults: ExaoneConfig."""
    dims = read_dims(
        config,
        layers=32,
        hidden=4096,
        heads=32,
        kv_heads=8,
        intermediate=14336,
        vocab=102400,
        max_positions=4096,
    )
    return llama_like(
        config,
        dims,
        names=EXAONE,
        **attention_bias(config),
        mlp_bias=config.boolean("mlp_bias", default=False),
    )


@family("exaone4", architectures=("Exaone4ForCausalLM",))
def exaone4(config: Config) -> ModelShape:
    """Three windowed layers, then a full one, where there is a window. Defaults: Exaone4Config."""
    dims = exaone4_dims(config)
    return llama_like(
        config,
        dims,
        names=EXAONE4,
        windows=exaone_windows(config, dims.layers),
        qk_norm=(dims.head_dim, dims.head_dim),
    )


@family("exaone_moe", architectures=("ExaoneMoeForCausalLM", "ExaoneMoEForCausalLM"))
def exaone_moe(config: Config) -> ModelShape:
    """EXAONE 4's windows (`sliding_windows` may give one a layer), dense layers first, then
    experts with a shared one. Defaults: ExaoneMoeConfig.
    """
    dims = exaone4_dims(config)
    first = config.integer("first_k_dense_replace", default=1, minimum=0)
    kinds = config.texts("mlp_layer_types")
    if kinds is None:
        kinds = ["dense" if index < first else "sparse" for index in range(dims.layers)]
    kinds = config.per_layer(kinds, "mlp_layer_types", dims.layers)
    width = config.integer("moe_intermediate_size", default=1024)
    shared = config.integer("num_shared_experts", default=1, minimum=0)
    windows = exaone_windows(config, dims.layers)
    at = LLAMA.at(config)
    mlp = [
        *dense_mlp(at, dims, [index for index, kind in enumerate(kinds) if kind != "sparse"]),
        *mixture(
            at,
            dims.hidden,
            width,
            [index for index, kind in enumerate(kinds) if kind == "sparse"],
            num_experts=config.integer("num_experts", default=64),
            top_k=config.integer("num_experts_per_tok", default=8),
            shared_width=shared * width,
            correction="e_score_correction_bias",
            correction_is_buffer=True,
        ),
    ]
    modules = config.integer("num_nextn_predict_layers", default=0, minimum=0, maximum=MAX_LAYERS)
    return llama_like(
        config,
        dims,
        windows=windows,
        qk_norm=(dims.head_dim, dims.head_dim),
        mlp=mlp,
        extra=mtp_weights(config, dims, modules) if modules else (),
        draft_groups=_mtp_groups(config, dims, windows, modules),
    )


def exaone_windows(config: Config, layers: int) -> list[int | None]:
    """`layer_types`, else the pattern: a period, or a string of L (local) and G (global)."""
    window = window_size(config, default=4096)
    pattern = config.get("sliding_window_pattern")
    if isinstance(pattern, str) and pattern and set(pattern) <= {"L", "G"}:
        default = [pattern[index % len(pattern)] == "L" for index in range(layers)]
    elif window is None:
        default = [False] * layers
    else:
        period = config.integer("sliding_window_pattern", default=4)
        default = [(index + 1) % period != 0 for index in range(layers)]
    own = config.integers("sliding_windows")
    windows = layer_windows(config, layers, window, default=default)
    if own is None:
        return windows
    own = config.per_layer(own, "sliding_windows", layers)
    kinds = layer_windows(config, layers, 1, default=default)
    return [size or None if kind else None for size, kind in zip(own, kinds, strict=True)]


def exaone4_dims(config: Config) -> Dims:
    """Sizes with the defaults of Exaone4Config."""
    return read_dims(
        config,
        layers=32,
        hidden=4096,
        heads=32,
        kv_heads=32,
        intermediate=16384,
        vocab=102400,
        max_positions=2048,
    )


def _mtp_groups(
    config: Config, dims: Dims, windows: list[int | None], modules: int
) -> tuple[LayerGroup, ...]:
    """Modules follow the kinds in `mtp_layer_types`, or those of the first layers."""
    kinds = config.texts("mtp_layer_types")
    if kinds is not None:
        window = window_size(config, default=4096)
        windows = [window if kind == "sliding_attention" else None for kind in kinds]
    if len(windows) < modules:
        raise config.fail("num_nextn_predict_layers", "exceeds the layers it takes after")
    return tuple(
        LayerGroup(
            layers=(index,),
            parts=(attention_part(dims, window=windows[index]),),
            num_attention_heads=dims.heads,
        )
        for index in range(modules)
    )


def mtp_weights(config: Config, dims: Dims, modules: int) -> list[Weight]:
    """Prediction modules: a dense layer each, one matrix and three norms before and after them."""
    at = config.prefix + "mtp.layers.{layer}"
    layers = range(modules)
    weights = [
        linear(config.prefix + "mtp.fc", dims.hidden, 2 * dims.hidden, part=Part.MTP),
        *(vector(config.prefix + name, dims.hidden) for name in MTP_NORMS),
        *attention(at, dims, layers),
        *dense_mlp(at, dims, layers),
        *norms(at, dims.hidden, layers, *LLAMA.norms),
        *(vector(f"{at}.{name}", dims.head_dim, layers=layers) for name in LLAMA.qk_norms),
    ]
    return [replace(weight, part=Part.MTP) for weight in weights]
