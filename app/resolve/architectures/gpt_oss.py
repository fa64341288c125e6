"""gpt-oss: windowed and full layers in turn, attention sinks, biases everywhere."""

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_moe import EXPERTS, TOP_K, Moe
from app.resolve.architectures.common_shape import read_dims
from app.resolve.architectures.fields import Config
from app.resolve.architectures.gqa_moe import moe_decoder, sinks
from app.resolve.architectures.llama_like import layer_windows, window_size


@family("gpt_oss", architectures=("GptOssForCausalLM",))
def gpt_oss(config: Config) -> ModelShape:
    """Even layers keep a window, odd ones everything, unless `layer_types` says otherwise.
    Defaults: GptOssConfig.
    """
    dims = read_dims(
        config,
        layers=36,
        hidden=2880,
        heads=64,
        kv_heads=8,
        head_dim=64,
        intermediate=2880,
        vocab=201088,
        max_positions=131072,
    )
    moe = Moe(
        num_experts=config.integer(*EXPERTS, default=128),
        top_k=config.integer(*TOP_K, "experts_per_token", default=4),
        width=dims.intermediate,
    )
    bias = config.boolean("attention_bias", default=True)
    even = [index % 2 == 0 for index in range(dims.layers)]
    at = config.prefix + "model.layers.{layer}"
    return moe_decoder(
        config,
        dims,
        moe,
        [True] * dims.layers,
        windows=layer_windows(config, dims.layers, window_size(config, default=128), default=even),
        qkv_bias=bias,
        out_bias=bias,
        mlp_bias=True,
        router_bias=True,
        gate="router",
        experts="experts",
        expert_names=("gate_up_proj", "gate_up_proj", "down_proj"),
        correction_name="",
        extra=sinks(at, dims, dims.all_layers),
        traits=("attention_sinks",),
    )
