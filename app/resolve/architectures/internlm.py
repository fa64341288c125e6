"""InternLM 1, 2 and 3."""

from dataclasses import replace

from app.core.inventory import Part
from app.core.model import ModelShape
from app.resolve.architectures import architecture_names, family
from app.resolve.architectures.common_shape import read_dims
from app.resolve.architectures.common_weights import linear
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import Names, layer_windows, llama_like, window_size

INTERNLM2 = Names(
    embed="model.tok_embeddings",
    head="output",
    norms=("attention_norm", "ffn_norm"),
    attention="attention",
    qkvo=("wqkv", "wqkv", "wqkv", "wo"),
    mlp_module="feed_forward",
    mlp=("w1", "w3", "w2"),
)


@family("internlm", architectures=("InternLMForCausalLM",))
def internlm(config: Config) -> ModelShape:
    """Llama with biases on all four attention projections. Defaults: InternLMConfig."""
    dims = read_dims(
        config,
        layers=32,
        hidden=4096,
        heads=32,
        intermediate=11008,
        vocab=103168,
        max_positions=2048,
    )
    bias = config.boolean("bias", default=True)
    return llama_like(config, dims, qkv_bias=bias, out_bias=bias)


@family(
    "internlm2",
    architectures=("InternLM2ForCausalLM", "InternLM2ForRewardModel", "InternLM2VEForCausalLM"),
)
def internlm2(config: Config) -> ModelShape:
    """Grouped-query attention, fused projection. Defaults: InternLM2Config.

    A reward model has a one-row `v_head` in place of the head.
    """
    dims = read_dims(
        config,
        layers=32,
        hidden=4096,
        heads=32,
        intermediate=11008,
        vocab=103168,
        max_positions=2048,
    )
    bias = config.boolean("bias", default=True)
    reward = "InternLM2ForRewardModel" in architecture_names(config)
    shape = llama_like(
        config,
        dims,
        names=INTERNLM2,
        qkv_bias=bias,
        out_bias=bias,
        extra=[linear("v_head", 1, dims.hidden, part=Part.OTHER)] if reward else (),
        traits=("pooling",) if reward else (),
    )
    if not reward:
        return shape
    kept = tuple(weight for weight in shape.weights if weight.part is not Part.HEAD)
    return replace(shape, weights=kept)


@family("internlm3", architectures=("InternLM3ForCausalLM",))
def internlm3(config: Config) -> ModelShape:
    """Llama with switches of its own: `qkv_bias` for q, k and v, `bias` for the rest. Defaults:
    InternLM3Config.
    """
    dims = read_dims(
        config,
        layers=48,
        hidden=4096,
        heads=32,
        kv_heads=2,
        head_dim=128,
        intermediate=10240,
        vocab=128512,
        max_positions=32768,
    )
    bias = config.boolean("bias", "mlp_bias", default=False)
    return llama_like(
        config,
        dims,
        windows=layer_windows(config, dims.layers, window_size(config)),
        qkv_bias=config.boolean("qkv_bias", "attention_bias", default=False),
        out_bias=bias,
        mlp_bias=bias,
    )
