"""Qwen3.5 and the models published as it (3.6, 3.7, 3.8): dense and mixture, text and vision.

The text model is Qwen3-Next with its delta net's projections apart and, in the dense sizes, no
experts; the vision tower is Qwen3-VL's without deepstack.
"""

from collections.abc import Sequence
from dataclasses import replace

from app.core.inventory import Part, Weight
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_qwen_vision import qwen3_vision
from app.resolve.architectures.blocks_state import read_delta_net
from app.resolve.architectures.common_shape import Dims, read_dims
from app.resolve.architectures.fields import Config
from app.resolve.architectures.hybrid import with_kv_heads
from app.resolve.architectures.llama_like import dense_mlp
from app.resolve.architectures.multimodal import multimodal
from app.resolve.architectures.qwen3_next import delta_model, qwen_mixture

NESTED = "model.language_model."


@family("qwen3_5_text", architectures=("Qwen3_5ForCausalLM",))
def qwen3_5_text(config: Config) -> ModelShape:
    """Dense: full attention in every fourth layer, gated delta nets in the others, their state in
    `mamba_ssm_dtype` (fp32 in the published configs). Defaults: Qwen3_5TextConfig.
    """
    return _without_prediction(_dense(config, "model."))


@family("qwen3_5_moe_text", architectures=("Qwen3_5MoeForCausalLM",))
def qwen3_5_moe_text(config: Config) -> ModelShape:
    """As the dense text model, with experts in every layer. Defaults: Qwen3_5MoeTextConfig."""
    return _without_prediction(_sparse(config, "model."))


@family("qwen3_5", architectures=("Qwen3_5ForConditionalGeneration",))
def qwen3_5(config: Config) -> ModelShape:
    """The dense text model with a vision tower. Defaults: Qwen3_5Config."""
    return _with_vision(config, _dense(_text(config), NESTED))


@family("qwen3_5_moe", architectures=("Qwen3_5MoeForConditionalGeneration",))
def qwen3_5_moe(config: Config) -> ModelShape:
    """The mixture with a vision tower. Defaults: Qwen3_5MoeConfig."""
    return _with_vision(config, _sparse(_text(config), NESTED))


@family("intern_s2_preview", architectures=("InternS2PreviewForConditionalGeneration",))
def intern_s2_preview(config: Config) -> ModelShape:
    """Qwen3.5, dense or a mixture as its text model says, beside a tower for time series."""
    text = _text(config)
    sparse = text.text("model_type") != "qwen3_5_text"
    shape = _with_vision(config, (_sparse if sparse else _dense)(text, NESTED))
    return replace(shape, assumptions=("the tower for time series is not counted",))


def _without_prediction(text: ModelShape) -> ModelShape:
    """A text model on its own is what transformers saves, and it skips `mtp.` when it loads."""
    kept = tuple(weight for weight in text.weights if weight.part is not Part.MTP)
    return replace(text, weights=kept)


def _text(config: Config) -> Config:
    """The wrapper decides whether the head is tied, and its class says no."""
    tied = config.boolean("tie_word_embeddings", default=False)
    return config.section("text_config").overlay(tie_word_embeddings=tied)


def _with_vision(config: Config, text: ModelShape) -> ModelShape:
    vision = config.section("vision_config")
    return multimodal(config, text, qwen3_vision(vision, config.prefix + "model.visual."))


def _dense(config: Config, root: str) -> ModelShape:
    dims = read_dims(
        with_kv_heads(config, 4),
        layers=32,
        hidden=4096,
        heads=16,
        head_dim=256,
        intermediate=12288,
        vocab=248320,
        max_positions=32768,
    )
    return _model(config, dims, root, sparse=False)


def _sparse(config: Config, root: str) -> ModelShape:
    dims = read_dims(
        with_kv_heads(config, 2),
        layers=40,
        hidden=2048,
        heads=16,
        head_dim=256,
        intermediate=0,
        vocab=248320,
        max_positions=32768,
    )
    return _model(config, dims, root, sparse=True)


def _model(config: Config, dims: Dims, root: str, *, sparse: bool) -> ModelShape:
    def mlp(at: str, layers: Sequence[int]) -> list[Weight]:
        if sparse:
            return qwen_mixture(config, dims, at, layers, num_experts=256, top_k=8)
        return dense_mlp(at, dims, layers)

    net = read_delta_net(config, dims.hidden)
    return delta_model(
        config,
        dims,
        net,
        root=root,
        projections=(
            ("in_proj_qkv", 2 * net.keys + net.values),
            ("in_proj_z", net.values),
            ("in_proj_b", net.value_heads),
            ("in_proj_a", net.value_heads),
        ),
        mlp=mlp,
        mtp_modules=config.integer("mtp_num_hidden_layers", default=0, minimum=0, maximum=64),
    )
