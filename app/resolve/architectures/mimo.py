"""MiMo-7B: a Qwen2-like dense decoder that drafts with a prediction module."""

from app.core.inventory import Part, Weight
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_moe import as_mtp, drafts, mtp_layers
from app.resolve.architectures.common_shape import Dims, attention_part, read_dims
from app.resolve.architectures.common_weights import attention, linear, norms
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import dense_mlp, llama_like, window_size


@family("mimo", architectures=("MiMoForCausalLM",))
def mimo(config: Config) -> ModelShape:
    """K and V of every token in every layer, as far as a stated `sliding_window` reaches: engines
    apply it though `use_sliding_window` is false, since they know no class of this name that would
    clear it. Defaults: Qwen2Config, which MiMo's own extends.
    """
    dims = read_dims(
        config,
        layers=32,
        hidden=4096,
        heads=32,
        kv_heads=32,
        intermediate=22016,
        vocab=151680,
        max_positions=32768,
    )
    bias = config.boolean("attention_bias", default=True)
    modules = mtp_layers(config, dims)
    return llama_like(
        config,
        dims,
        windows=window_size(config),
        qkv_bias=bias,
        extra=_mtp(config, dims, len(modules), bias=bias),
        draft_groups=drafts(modules, dims.heads, attention_part(dims, window=window_size(config))),
    )


def _mtp(config: Config, dims: Dims, count: int, *, bias: bool) -> list[Weight]:
    if not count:
        return []
    at = config.prefix + "model.mtp_layers.{layer}"
    layers = tuple(range(count))
    return as_mtp(
        [
            linear(f"{at}.input_proj", dims.hidden, 2 * dims.hidden, part=Part.MTP, layers=layers),
            *attention(at, dims, layers, bias=bias),
            *dense_mlp(at, dims, layers),
            *norms(
                at,
                dims.hidden,
                layers,
                "token_layernorm",
                "hidden_layernorm",
                "input_layernorm",
                "post_attention_layernorm",
                "final_layernorm",
            ),
        ]
    )
