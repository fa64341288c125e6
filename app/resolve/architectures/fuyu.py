"""Fuyu: Persimmon that takes patches of pixels as tokens, without any tower."""

from collections.abc import Mapping
from typing import Any

from app.core.inventory import Part
from app.core.model import ModelShape
from app.resolve.architectures import build, family
from app.resolve.architectures.common_weights import linear
from app.resolve.architectures.fields import Config
from app.resolve.architectures.multimodal import TIED, filled, multimodal, with_head_named

TEXT: Mapping[str, Any] = {
    "vocab_size": 262144,
    "max_position_embeddings": 16384,
    "hidden_size": 4096,
    "intermediate_size": 16384,
    "num_hidden_layers": 36,
    "num_attention_heads": 64,
    "qk_layernorm": True,
}


@family("fuyu", architectures=("FuyuForCausalLM",))
def fuyu(config: Config) -> ModelShape:
    """The text model's cache. The published config names the text model in `text_config` and has
    its sizes at the top. Defaults: FuyuConfig.
    """
    section = config.section("text_config")
    top = {name: config.data[name] for name in TEXT if config.data.get(name) is not None}
    data = {**TEXT, **top, **section.data, TIED: config.boolean(TIED, default=False)}
    text = build(
        filled(Config(data, path=section.path, prefix="language_model."), model_type="persimmon")
    )
    patch = config.integer("patch_size", default=30, maximum=4096)
    pixels = config.integer("num_channels", default=3) * patch * patch
    weights = [
        linear("vision_embed_tokens", text.hidden_size, pixels, part=Part.PROJECTOR, bias=True)
    ]
    return multimodal(config, with_head_named(text, "language_model.lm_head"), weights)
