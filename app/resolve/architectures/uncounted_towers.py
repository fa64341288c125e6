"""Wrappers whose towers only their own code describes: the text model's cache and weights, and an
assumption that says what is not counted.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from app.core.model import ModelShape
from app.resolve.architectures import build, family, register
from app.resolve.architectures.common_shape import read_dims
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import Names, llama_like
from app.resolve.architectures.multimodal import filled, multimodal, text_model

NOTE = "the towers before the text model, and their projectors, are not counted"


@dataclass(frozen=True, kw_only=True, slots=True)
class Wrapper:
    """Where the text model's config is (at the top, where there is none of `sections`) and its
    type where it states none.
    """

    text: str
    sections: tuple[str, ...] = ("text_config",)
    architectures: tuple[str, ...] = ()
    force: bool = False
    prefix: str = "language_model."


FLAT: tuple[str, ...] = ()
WRAPPERS: Mapping[str, Wrapper] = {
    "ovis": Wrapper(text="qwen2", sections=("llm_config",), architectures=("Ovis",), prefix="llm."),
    "ovis2_5": Wrapper(
        text="qwen3",
        sections=("llm_config", "text_config"),
        architectures=("Ovis2_5",),
        prefix="llm.",
    ),
    "ovis2_6": Wrapper(
        text="qwen3",
        sections=("llm_config", "text_config"),
        architectures=("Ovis2_6ForCausalLM",),
        prefix="llm.",
    ),
    "ovis2_6_moe": Wrapper(
        text="qwen3_moe",
        sections=("llm_config", "text_config"),
        architectures=("Ovis2_6_MoeForCausalLM",),
        prefix="llm.",
    ),
    "bagel": Wrapper(
        text="qwen2", sections=("llm_config",), architectures=("BagelForConditionalGeneration",)
    ),
    "openpangu_vl": Wrapper(
        text="PanguEmbedded", architectures=("OpenPanguVLForConditionalGeneration",)
    ),
    "bee": Wrapper(text="qwen3", architectures=("BeeForConditionalGeneration",)),
    "eagle_2_5_vl": Wrapper(text="qwen3", architectures=("Eagle2_5_VLForConditionalGeneration",)),
    "funaudiochat": Wrapper(text="qwen3", architectures=("FunAudioChatForConditionalGeneration",)),
    "interns1_pro": Wrapper(
        text="qwen3_moe", architectures=("InternS1ProForConditionalGeneration",)
    ),
    "isaac": Wrapper(
        text="qwen3",
        sections=FLAT,
        architectures=("IsaacForConditionalGeneration",),
        force=True,
        prefix="",
    ),
    "kanana-1.5-v": Wrapper(text="llama", architectures=("KananaVForConditionalGeneration",)),
    "KeyeVL1_5": Wrapper(
        text="qwen3",
        sections=FLAT,
        architectures=("KeyeVL1_5ForConditionalGeneration",),
        force=True,
        prefix="",
    ),
    "Keye": Wrapper(
        text="qwen3",
        sections=FLAT,
        architectures=("KeyeForConditionalGeneration",),
        force=True,
        prefix="",
    ),
    "kimi_audio": Wrapper(
        text="qwen2",
        sections=FLAT,
        architectures=("MoonshotKimiaForCausalLM",),
        force=True,
        prefix="",
    ),
    "llava_onevision2": Wrapper(
        text="qwen3", architectures=("LlavaOnevision2ForConditionalGeneration",)
    ),
    "logics": Wrapper(
        text="qwen3",
        sections=FLAT,
        architectures=("LogicsForConditionalGeneration",),
        force=True,
        prefix="",
    ),
    "mage_vl": Wrapper(text="qwen3", architectures=("MageVLForConditionalGeneration",), prefix=""),
    "midashenglm": Wrapper(
        text="qwen2_5_omni_text", architectures=("MiDashengLMModel",), prefix="decoder."
    ),
    "mimovl": Wrapper(
        text="mimo_v2",
        sections=FLAT,
        architectures=("MiMoV2OmniForCausalLM",),
        force=True,
        prefix="",
    ),
    "moss_audio": Wrapper(
        text="qwen3", sections=("language_config",), architectures=("MossAudioModel",)
    ),
    "Llama_Nemotron_Nano_VL": Wrapper(
        text="llama",
        sections=("llm_config", "text_config"),
        architectures=("Llama_Nemotron_Nano_VL",),
    ),
    "openvla": Wrapper(text="llama", architectures=("OpenVLAForActionPrediction",)),
    "phi4-siglip": Wrapper(
        text="phi3", sections=FLAT, architectures=("Phi4ForCausalLMV",), force=True, prefix=""
    ),
    "R": Wrapper(text="qwen3", architectures=("RForConditionalGeneration",)),
    "tarsier": Wrapper(text="llama", architectures=("TarsierForConditionalGeneration",)),
    "vibevoice": Wrapper(
        text="qwen2",
        sections=("decoder_config", "text_config"),
        architectures=("VibeVoiceForConditionalGeneration",),
        prefix="model.",
    ),
    "vibevoice_asr": Wrapper(text="qwen2", architectures=("VibeVoiceAsrForConditionalGeneration",)),
    "infimm-zephyr": Wrapper(
        text="mistral", sections=("language",), architectures=("InfiMMZephyrModel",)
    ),
    "fast_vlm": Wrapper(text="qwen2", architectures=("FastVlmForConditionalGeneration",)),
    "perception_lm": Wrapper(text="llama", architectures=("PerceptionLMForConditionalGeneration",)),
    "step_robotics": Wrapper(text="qwen3", architectures=("StepVLForConditionalGeneration",)),
}


def _wrapped(config: Config, *, wrapper: Wrapper) -> ModelShape:
    """The text model's cache, whatever stands before it."""
    if config.has(*wrapper.sections):
        text = text_model(
            config,
            *wrapper.sections,
            prefix=wrapper.prefix,
            model_type=wrapper.text,
            force=wrapper.force,
        )
    else:
        text = build(filled(config, model_type=wrapper.text, force=True))
    return multimodal(config, text, assumptions=(NOTE,))


for _name, _wrapper in WRAPPERS.items():
    register(
        partial(_wrapped, wrapper=_wrapper),
        model_types=(_name,),
        architectures=_wrapper.architectures,
    )


@family("falcon_perception", architectures=("FalconPerceptionForSegmentation",))
def falcon_perception(config: Config) -> ModelShape:
    """One transformer for pixels and words; the heads that place and cut things out are not
    counted.
    """
    dims = read_dims(
        config.overlay(intermediate_size=config.get("intermediate_size", "ffn_dim")),
        max_positions=8192,
    )
    note = "the heads for coordinates, sizes and masks are not counted"
    text = llama_like(config, dims, names=Names(), assumptions=(note,))
    return multimodal(config, text)
