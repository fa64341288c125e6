"""Ultravox: any text model behind Whisper's encoder."""

from app.core.inventory import Part
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_audio import whisper_encoder
from app.resolve.architectures.blocks_encoder import layer_norm
from app.resolve.architectures.common_weights import linear
from app.resolve.architectures.fields import Config
from app.resolve.architectures.multimodal import multimodal, text_model

PROJECTOR = Part.PROJECTOR
AT = "multi_modal_projector"


@family("ultravox", architectures=("UltravoxModel",))
def ultravox(config: Config) -> ModelShape:
    """The text model's cache. Most published configs only name it (`text_model_id`): its shape is
    in another repository, and such a config is refused.
    """
    if not config.has("text_config"):
        other = config.text("text_model_id", default="")
        raise config.fail(
            "text_model_id",
            f"names another model ({other!r}) whose shape this config does not hold: "
            "send its config as text_config",
        )
    text = text_model(config, prefix="language_model.", model_type="llama")
    audio = config.section("audio_config")
    width = audio.integer("d_model", default=1280)
    stacked = width * config.integer("stack_factor", default=8, maximum=1024)
    hidden = config.integer("hidden_size", default=4096)
    gated = config.text("projector_act", default="swiglu") == "swiglu"
    middle = hidden // 2 if gated else hidden
    halfway = config.boolean("projector_ln_mid", default=False)
    normed = middle if halfway else text.hidden_size
    weights = [
        *whisper_encoder(audio, "audio_tower"),
        layer_norm(f"{AT}.ln_pre", stacked, part=PROJECTOR, bias=False),
        linear(f"{AT}.linear_1", hidden, stacked, part=PROJECTOR),
        linear(f"{AT}.linear_2", text.hidden_size, middle, part=PROJECTOR),
        layer_norm(
            f"{AT}.ln_mid" if halfway else f"{AT}.ln_post", normed, part=PROJECTOR, bias=False
        ),
    ]
    return multimodal(config, text, weights)
