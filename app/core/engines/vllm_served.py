"""What vLLM 0.33 does not serve, or no longer serves in classes of its own.

Read in `model_executor/models/registry.py` (`_PREVIOUSLY_SUPPORTED_MODELS`), `models/qwen2.py` and
the attention backends.
"""

from app.core.cache import CrossAttention
from app.core.engines.vllm_facts import Facts
from app.core.engines.vllm_rules import VllmRules
from app.core.model import ModelShape
from app.core.recurrent import UnitState
from app.errors import InputError

ENCODER_DECODERS = frozenset(
    {
        "CohereAsrForConditionalGeneration",
        "FireRedASR2ForConditionalGeneration",
        "NemotronParseForConditionalGeneration",
        "RadioMBartPrefixForCausalLM",
        "WhisperForConditionalGeneration",
    }
)
"""Architectures with cross-attention that are left."""

LAST_VERSIONS = {
    "0.9.2": ("Phi3SmallForCausalLM",),
    "0.10.2": ("MotifForCausalLM", "Phi4FlashForCausalLM", "MllamaForConditionalGeneration"),
    "0.12.0": ("Phi4MultimodalForCausalLM",),
    "0.22.0": ("JAISLMHeadModel",),
    "0.23.0": (
        "InternLM2VEForCausalLM",
        "QWenLMHeadModel",
        "QwenVLForConditionalGeneration",
        "InternLMForCausalLM",
        "XverseForCausalLM",
        "Dots1ForCausalLM",
        "BambaForCausalLM",
        "MiniMaxForCausalLM",
        "MiniMaxText01ForCausalLM",
        "MiniMaxM1ForCausalLM",
        "MiniMaxVL01ForConditionalGeneration",
        "BaiChuanForCausalLM",
        "BaichuanForCausalLM",
    ),
    "0.24.0": (
        "AquilaModel",
        "AquilaForCausalLM",
        "Grok1ModelForCausalLM",
        "Grok1ForCausalLM",
        "MusicFlamingoForConditionalGeneration",
        "AyaVisionForConditionalGeneration",
    ),
    "0.25.0": ("TeleChatForCausalLM", "PersimmonForCausalLM", "FuyuForCausalLM"),
    "0.26.0": ("Plamo2ForCausalLM", "OuroForCausalLM"),
    "0.28.0": (
        "ArcticForCausalLM",
        "ChameleonForConditionalGeneration",
        "MPTForCausalLM",
        "MptForCausalLM",
        "RWForCausalLM",
        "StableLMEpochForCausalLM",
    ),
}
"""The last version with a class for an architecture."""

_DROPPED = {name: version for version, names in LAST_VERSIONS.items() for name in names}


LAST_DUAL_CHUNK = (0, 10)
"""Release after which attention within chunks has no backend: Qwen's 1M configs fail to start."""


def check_served(shape: ModelShape, facts: Facts, rules: VllmRules) -> None:
    """Refuse what the engine has no layers for."""
    parts = [part for part, _ in facts.layers]
    crossing = any(isinstance(part, CrossAttention) for part in parts)
    served = shape.architecture in ENCODER_DECODERS or shape.model_type == "whisper"
    if crossing and not served:
        raise _not_served(shape, "encoder-decoders other than Whisper and a few for speech")
    if any(isinstance(part, UnitState) for part in parts):
        raise _not_served(shape, "this kind of recurrence")
    if "dual_chunk_attention" in shape.traits and rules.since > LAST_DUAL_CHUNK:
        raise _not_served(shape, "dual_chunk_attention_config (without that key it does)")
    if "windows_in_some_layers" in shape.traits:
        raise _not_served(shape, "Qwen's class takes windows in all layers or in none")


def dropped(shape: ModelShape) -> tuple[str, ...]:
    """What to say of an architecture whose own class is gone."""
    version = _DROPPED.get(shape.architecture)
    if version is None:
        return ()
    return (
        f"vLLM had a class for {shape.architecture} up to {version}; it serves it now, if at all, "
        "through its Transformers backend",
    )


def _not_served(shape: ModelShape, what: str) -> InputError:
    name = shape.architecture or shape.model_type
    return InputError.of("engine", f"vLLM does not serve {name}: {what}", type="engine_refuses")
