"""Muse Spark: Muse Glimmer's windows and gates over experts in a smaller width, with towers."""

from collections.abc import Sequence
from dataclasses import replace

from app.core.inventory import Part, Weight
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_encoder import array, layer_norm
from app.resolve.architectures.blocks_moe import chosen, correction, read_moe, sparse_layers
from app.resolve.architectures.common_shape import Dims, read_dims
from app.resolve.architectures.common_weights import (
    linear,
    norms,
    output_gate,
    routed_experts,
    router,
    vector,
)
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import (
    LLAMA,
    attention_bias,
    dense_mlp,
    layer_windows,
    llama_like,
    window_size,
)
from app.resolve.architectures.multimodal import multimodal, text_model
from app.resolve.architectures.muse_glimmer import vision

NAMES = replace(
    LLAMA, norms=("input_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm")
)
PERIOD = 4
AUDIO = Part.AUDIO
STAGES = {"patch_sizes": (16, 6, 5, 4), "hidden_sizes": (256, 512, 1024, 2048), "depths": (2,) * 4}


@family("muse_spark_text", architectures=("MuseSparkForCausalLM",))
def muse_spark_text(config: Config) -> ModelShape:
    """Each fourth layer counted back from the last keeps everything, the others a window.
    Defaults: MuseSparkTextConfig.
    """
    dims = read_dims(
        config,
        layers=62,
        hidden=8192,
        heads=128,
        kv_heads=16,
        head_dim=64,
        intermediate=16384,
        vocab=202048,
        max_positions=1048576,
    )
    windowed = [(dims.layers - 1 - index) % PERIOD != 0 for index in range(dims.layers)]
    window = window_size(config, default=2048)
    at = NAMES.at(config)
    layers = dims.all_layers
    residual = [
        vector(f"{at}.{name}_residual_gate.gate", dims.hidden, part=Part.OTHER, layers=layers)
        for name in ("post_attention", "post_feedforward")
    ]
    sparse = sparse_layers(config, dims.layers)
    return llama_like(
        config,
        dims,
        names=NAMES,
        windows=layer_windows(config, dims.layers, window, default=windowed),
        **attention_bias(config),
        mlp=[
            *dense_mlp(at, dims, chosen(sparse, False)),
            *_experts(config, at, dims, chosen(sparse, True)),
        ],
        extra=[output_gate(at, dims, layers), *residual],
    )


@family("muse_spark", architectures=("MuseSparkForConditionalGeneration",))
def muse_spark(config: Config) -> ModelShape:
    """The text model's cache. Defaults: MuseSparkConfig."""
    text = text_model(config, prefix="model.language_", model_type="muse_spark_text")
    towers = [*vision(config, text.hidden_size), *_audio(config.section("audio_config"))]
    return multimodal(config, text, towers)


def _experts(config: Config, at: str, dims: Dims, layers: Sequence[int]) -> list[Weight]:
    """Experts that work between a projection down and one up again."""
    moe = read_moe(config, experts=256, top_k=8, width=4096)
    if not layers or not moe.num_experts:
        return []
    width = config.integer("moe_hidden_size", default=4096)
    base = f"{at}.mlp"
    mlp = Part.MLP
    return [
        router(at, dims.hidden, moe.num_experts, layers),
        *correction(at, moe, layers),
        linear(f"{base}.pre_expert_proj", width, dims.hidden, part=mlp, layers=layers),
        *norms(base, width, layers, "pre_expert_norm", "experts.post_expert_norm"),
        *routed_experts(at, width, moe.width, layers, num_experts=moe.num_experts, top_k=moe.top_k),
        linear(f"{base}.post_expert_proj", dims.hidden, width, part=mlp, layers=layers),
    ]


def _audio(config: Config) -> list[Weight]:
    """Stages of causal convolutions over the waveform, each coarser and wider."""
    sizes = [config.integers(name, minimum=1) or list(default) for name, default in STAGES.items()]
    if len({len(column) for column in sizes}) != 1 or not sizes[0]:
        raise config.fail("hidden_sizes", "must have one entry a stage, as the other lists have")
    kernel = config.integer("conv_kernel_size", default=7)
    ratio = config.number("mlp_ratio", default=4.0, maximum=64.0)
    at = "model.audio_tower"
    weights: list[Weight] = []
    before = 1
    for index, (patch, width, depth) in enumerate(zip(*sizes, strict=True)):
        stage = f"{at}.layers.{index}"
        blocks = range(min(depth, 4096))
        inner = int(width * ratio)
        block = f"{stage}.conv_blocks.{{layer}}"
        weights += [
            linear(f"{stage}.patch_embedder.proj", width, before * patch, part=AUDIO, bias=True),
            layer_norm(f"{stage}.patch_embedder.norm", width, part=AUDIO, bias=False),
            array(f"{block}.conv", width, 1, kernel, part=AUDIO, layers=blocks, bias=width),
            layer_norm(f"{block}.norm", width, part=AUDIO, bias=False, layers=blocks),
            linear(f"{block}.mlp.fc1", inner, width, part=AUDIO, layers=blocks, bias=True),
            linear(f"{block}.mlp.fc2", width, inner, part=AUDIO, layers=blocks, bias=True),
        ]
        before = width
    out = config.integer("out_hidden_size", default=8192)
    return [
        *weights,
        layer_norm(f"{at}.norm", before, part=AUDIO, bias=False),
        linear(f"{at}.proj", out, before, part=Part.PROJECTOR, bias=True),
        layer_norm(f"{at}.post_proj_norm", out, part=Part.PROJECTOR, bias=False),
    ]
