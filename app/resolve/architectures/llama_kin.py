"""Models that are Llama but for their defaults: Aquila, XVERSE, Yi, IQuest-Coder, Skywork, TeleChat 3,
Solar and others that keep its module names.
"""

from functools import partial

from app.core.model import ModelShape
from app.resolve.architectures import register
from app.resolve.architectures.common_shape import read_dims
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import layer_windows, llama_like, window_size

KIN: tuple[tuple[tuple[str, ...], tuple[str, ...], dict[str, int]], ...] = (
    (("Yi",), ("YiForCausalLM",), {"max_positions": 4096}),
    (("xverse",), ("XverseForCausalLM",), {}),
    (("aquila",), ("AquilaForCausalLM", "AquilaModel"), {"max_positions": 2048}),
    (("skywork",), ("SkyworkForCausalLM",), {"max_positions": 4096}),
    (("telechat3",), ("TeleChat3ForCausalLM",), {}),
    (
        ("iquestcoder",),
        ("IQuestCoderForCausalLM",),
        {
            "layers": 80,
            "hidden": 5120,
            "heads": 40,
            "kv_heads": 8,
            "head_dim": 128,
            "intermediate": 27648,
            "vocab": 76800,
            "max_positions": 131072,
        },
    ),
    (("nanbeige",), ("NanbeigeForCausalLM",), {}),
    (("solar",), ("SolarForCausalLM",), {}),
)


def kin(config: Config, *, defaults: dict[str, int]) -> ModelShape:
    """Full attention, SwiGLU, RMS norms. A size that is neither stated nor here is refused."""
    dims = read_dims(config, **defaults)  # type: ignore[arg-type]
    bias = config.boolean("attention_bias", "bias", default=False)
    return llama_like(
        config,
        dims,
        windows=layer_windows(config, dims.layers, window_size(config)),
        qkv_bias=config.boolean("qkv_bias", default=bias),
        out_bias=bias,
        mlp_bias=config.boolean("mlp_bias", default=False),
    )


for types, classes, defaults in KIN:
    register(partial(kin, defaults=defaults), model_types=types, architectures=classes)
