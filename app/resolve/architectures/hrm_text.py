"""HRM-Text: two stacks of layers run again and again, each pass with a cache of its own."""

from collections.abc import Sequence
from dataclasses import replace

from app.core.inventory import Part, Split, Weight
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.common_shape import (
    Dims,
    attention_part,
    model_shape,
    read_dims,
    uniform_groups,
)
from app.resolve.architectures.common_weights import (
    attention,
    gated_mlp,
    linear,
    vector,
    vocabulary,
)
from app.resolve.architectures.fields import MAX_LAYERS, Config
from app.resolve.architectures.llama_like import FUSED_GATE_UP

GQKV = "gqkv_proj"


@family("hrm_text", architectures=("HrmTextForCausalLM",))
def hrm_text(config: Config) -> ModelShape:
    """An L stack, run `H_cycles x L_cycles` times, and an H stack, run `H_cycles` times; multi-head
    attention with a gate; norms without parameters. Defaults: HrmTextConfig.

    A config that states `num_layers_per_stack` counts all passes in `num_hidden_layers`; one that
    does not states the layers of one stack there.
    """
    dims = read_dims(
        config.overlay(num_key_value_heads=None),
        layers=16,
        hidden=1536,
        heads=12,
        head_dim=128,
        intermediate=4096,
        vocab=151808,
        max_positions=2048,
    )
    high = config.integer("H_cycles", default=2, maximum=MAX_LAYERS)
    low = config.integer("L_cycles", default=3, maximum=MAX_LAYERS)
    stack = config.integer("num_layers_per_stack", default=dims.layers, maximum=MAX_LAYERS)
    passes = stack * high * (low + 1)
    if passes > MAX_LAYERS:
        raise config.fail("H_cycles", f"makes more than {MAX_LAYERS} passes over layers")
    dims = replace(dims, layers=passes)
    bidirectional = config.boolean("prefix_lm", default=True)
    return model_shape(
        config,
        dims,
        groups=uniform_groups(dims, attention_part(dims)),
        weights=[
            *vocabulary(dims, prefix=config.prefix),
            vector(config.prefix + "model.z_L_init", dims.hidden, part=Part.OTHER),
            *(
                weight
                for module in ("L_module", "H_module")
                for weight in _stack(
                    config,
                    replace(dims, layers=stack),
                    config.prefix + f"model.{module}.layers.{{layer}}",
                    range(stack),
                )
            ),
        ],
        traits=("bidirectional_prompt",) if bidirectional else (),
    )


def _stack(config: Config, dims: Dims, at: str, layers: Sequence[int]) -> list[Weight]:
    bias = config.boolean("attention_bias", default=False)
    return [
        *attention(
            at,
            dims,
            layers,
            bias=bias,
            out_bias=bias,
            module="attn",
            names=(GQKV, GQKV, GQKV, "o_proj"),
        ),
        linear(
            f"{at}.attn.{GQKV}",
            dims.heads * dims.head_dim,
            dims.hidden,
            part=Part.ATTENTION,
            layers=layers,
            bias=bias,
            split=Split.COLUMN,
            fused="qkv_proj",
        ),
        *gated_mlp(
            at,
            dims.hidden,
            dims.intermediate,
            layers,
            bias=config.boolean("mlp_bias", default=False),
            names=FUSED_GATE_UP,
        ),
    ]
