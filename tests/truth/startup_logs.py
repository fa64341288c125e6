"""Startup logs of `../shared/truth/startup-logs.jsonl` as starts of ours: model, device, arguments.

A log names a model; its config is the published one where the collection has it, else that of a
model of the same architecture and sizes (a fine-tune, a quantised build). Where there is neither,
the log is left out with the reason: no config is invented.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any

from app.catalog.gpus import gpu_catalogue
from app.core.engines.budgets import EngineBudget
from app.core.engines.vllm import H100, VllmArguments, VllmPlan, plan_cache
from app.core.engines.vllm_budget import BudgetArguments, vllm_budgets
from app.core.hardware import Gpu
from app.core.model import ModelShape
from app.core.precision import FLOAT32
from app.core.weights import Sharding
from app.resolve.architectures import shape_from_config
from app.resolve.quantization.loading import weight_storage
from tests.truth.shared import TRUTH, config_data

LOGS = TRUTH / "startup-logs.jsonl"

SAME_SIZES: dict[str, tuple[str, str | None]] = {
    "google/gemma-2-27b-it": ("google__gemma-2-27b", None),
    "google/gemma-3-27b-it": ("google__medgemma-27b-it", None),
    "google/gemma-7b": ("hfdefault__GemmaForCausalLM", None),
    "google/gemma-4-26B-A4B-it": ("google__gemma-4-26B-A4B", None),
    "deepseek-ai/DeepSeek-V2-Lite-Chat": ("deepseek-ai__DeepSeek-V2-Lite", None),
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-14B": ("Qwen__Qwen2.5-14B", None),
    "casperhansen/deepseek-r1-distill-qwen-14b-awq": ("Qwen__Qwen2.5-14B", "awq"),
    "RedHatAI/Llama-3.3-70B-Instruct-fp8-dynamic": ("unsloth__Llama-3.3-70B-Instruct", "ptpc_fp8"),
    "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic": ("unsloth__Llama-3.3-70B-Instruct", "ptpc_fp8"),
    "redhatai/Llama-3.3-70B-Instruct-quantized.w8a8": ("unsloth__Llama-3.3-70B-Instruct", "w8a8"),
    "RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16": (
        "meta-llama__Llama-3.1-8B-Instruct",
        "gptq",
    ),
    "moonshotai/Kimi-Dev-72B": ("Qwen__Qwen2-72B", None),
    "mistralai/Mistral-Small-3.1-24B-Instruct-2503": (
        "hfdefault__Mistral3ForConditionalGeneration",
        None,
    ),
    "mistralai/Mistral-Small-3.2-24B-Instruct-2506": (
        "hfdefault__Mistral3ForConditionalGeneration",
        None,
    ),
    "Qwen/Qwen2.5-14B-Instruct": ("Qwen__Qwen2.5-14B", None),
    "Qwen2.5-32B-Instruct": ("Qwen__Qwen2.5-32B", None),
    "Qwen2___5-3B": ("Qwen__Qwen2.5-3B", None),
    "Qwen3-235B-A22B-FP8": ("Qwen__Qwen3-235B-A22B-FP8", None),
    "Qwen3-30B-A3B": ("Qwen__Qwen3-30B-A3B", None),
    "Qwen3-30B-A3B-Instruct-2507-Int4-W4A16": ("Qwen__Qwen3-30B-A3B-Instruct-2507", "w4a16"),
    "cpatonn/Qwen3-30B-A3B-Thinking-2507-AWQ-4bit": ("Qwen__Qwen3-30B-A3B-Instruct-2507", "w4a16"),
    "Qwen3.5-27B": ("nvidia__Qwen3.6-27B-NVFP4", "none"),
    "Qwen/Qwen3.8-27B-FP8": ("Youssofal__Qwen3.8-27B-MTPLX-Optimized-Speed", "fp8_per_block"),
    "RedHatAI/Qwen3.8-27B-INT4": ("Youssofal__Qwen3.8-27B-MTPLX-Optimized-Speed", "w4a16"),
    "Llama-2-13b-chat-hf": ("meta-llama__Llama-2-13b-chat-hf", None),
    "Meta-Llama-3.1-8B-Instruct": ("meta-llama__Llama-3.1-8B-Instruct", None),
    "typhoon-ai/typhoon-s-thaillm-8b-instruct-research-preview": ("Qwen__Qwen3-8B", None),
    "huihui-ai/Huihui-gpt-oss-20b-mxfp4-abliterated-v2": ("openai__gpt-oss-20b", None),
    "deepseek-ai/DeepSeek-V4-Flash-0731": ("deepseek-ai__DeepSeek-V4-Flash", None),
}
"""Config of the same sizes, and the quantisation that the log's build has in place of its own."""
CACHE_ONLY: dict[str, str] = {
    "RedHatAI/Qwen3.6-35B-A3B-NVFP4": "nvidia__Qwen3.6-35B-A3B-NVFP4",
    "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4": (
        "nvidia__NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4"
    ),
    "lukealonso/GLM-5.1-NVFP4-MTP": "nvidia__GLM-5.1-NVFP4",
    "Qwen3.5-122B-A10B NVFP4 (Sehyo)": "nvidia__Qwen3.5-122B-A10B-NVFP4",
    "Qwen3.5-122B-A10B NVFP4 resharded": "nvidia__Qwen3.5-122B-A10B-NVFP4",
}
"""Builds that leave other layers unquantised than the one at hand: their cache is the same, their
weights are not.
"""
UNTIED = ("hfdefault__Mistral3ForConditionalGeneration",)
"""Class defaults whose head the published models do not tie."""
LEFT_OUT: dict[str, str] = {
    "row-4829412512": "an EAGLE draft, whose weights and cache no config describes",
    "vllm-6746-405b-fp8": "the checkpoint's first revision: 16 KV heads, attention in bf16",
    "llmd-emp-Mistral-Small-3.2-24B-Instruct-2506-tp1": (
        "says 0.11.0, yet its activation peak (2.12 GiB) is that of 0.17 and later to the byte"
    ),
    "row-a45b7e9207": "neither version nor device is stated",
    "vllm-21348-vllm": "the version is not stated",
    "row-0d7a0aea04": "the version is not stated: 7.3 GiB of it are a sampler of 0.16 or before",
}
GPUS = {
    "H100": "h100-sxm-80gb",
    "GB10 (DGX Spark)": "gb10",
    "RTX 3090": "rtx-3090-24gb",
    "RTX 5090": "rtx-5090-32gb",
    "RTX PRO 6000 Blackwell": "rtx-pro-6000-ws-96gb",
    "A100 80GB/unspecified": "a100-sxm-80gb",
    "B200": "b200-sxm-180gb",
    "Jetson AGX Thor": "jetson-thor",
    "MI300X": "mi300x-192gb",
    "RX 9070 XT": "rx-9070-xt-16gb",
    "RTX 4090": "rtx-4090-24gb",
    "L4": "l4-24gb",
    "T4": "t4-16gb",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Start:
    """One log, and our plan and budget of the same start.

    `weights_known` is false where only the cache of the build at hand is known.
    """

    record: dict[str, Any]
    shape: ModelShape
    plan: VllmPlan
    budget: EngineBudget
    gpu: Gpu | None
    version: str | None
    weights_known: bool

    @property
    def measured(self) -> dict[str, Any]:
        """What the log says."""
        figures: dict[str, Any] = self.record["measured"]
        return figures

    @property
    def what(self) -> str:
        """The start in words."""
        record = self.record
        device = record["gpu_class"] or "an unnamed device"
        return f"{record['model']} on {device}, TP {record['tp'] or 1}, vLLM {self.version}"


def records() -> Iterator[dict[str, Any]]:
    """All of them."""
    with LOGS.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def stated_version(record: dict[str, Any]) -> str | None:
    """The release a log names, or None where it names none we have rules for."""
    words = (record["engine_version"] or "").split()
    number = words[0].removeprefix("v") if words else ""
    parts = number.split(".")
    if len(parts) < 2 or parts[0] != "0" or not parts[1].isdigit() or int(parts[1]) < 6:
        return None
    return number.removesuffix(".x")


@cache
def _shape(name: str, *, fp32: bool, plain: bool) -> ModelShape:
    data = config_data(name + ".json")
    if plain:
        data = {key: value for key, value in data.items() if key != "quantization_config"}
    if name in UNTIED:
        data = {**data, "tie_word_embeddings": False}
        data["text_config"] = {**data["text_config"], "tie_word_embeddings": False}
    shape = shape_from_config(data)
    return replace(shape, dtype=FLOAT32) if fp32 else shape


def start_of(record: dict[str, Any]) -> Start | str:
    """Our start of a vLLM log, or why there is none."""
    if record["id"] in LEFT_OUT:
        return LEFT_OUT[record["id"]]
    if record["engine"] != "vllm":
        return f"{record['engine']}"
    model = record["model"] or ""
    name, quantization = SAME_SIZES.get(model, (model.replace("/", "__"), None))
    name = CACHE_ONLY.get(model, name)
    if not (TRUTH / "configs" / f"{name}.json").exists():
        return "no config of this model or of one of its sizes is at hand"
    if record["quantization"] == "fp8" and quantization is None and "FP8" not in name:
        quantization = "fp8" if "MiniMax" not in name else None
    fp32 = record["dtype"] == "float32" or record["id"] == "row-37179d181c"
    shape = _shape(name, fp32=fp32, plain=quantization is not None)
    gpu = None
    if record["gpu_class"] in GPUS:
        gpu = gpu_catalogue().find(GPUS[record["gpu_class"]]).gpu
    method, drafted = _speculation(record)
    if record["speculative"] and (method is None or not shape.draft_groups):
        return "a draft model, whose weights and cache no config describes"
    tp, pp = record["tp"] or 1, record["pp"] or 1
    cache_dtype = record["kv_cache_dtype"]
    length = record["max_model_len"] or record["measured"].get("concurrency_len")
    version = stated_version(record)
    plan = plan_cache(
        shape,
        VllmArguments(
            version=version,
            tensor_parallel_size=tp,
            pipeline_parallel_size=pp,
            decode_context_parallel_size=record["dcp"] or 1,
            kv_cache_dtype="auto" if cache_dtype in (None, "bfloat16") else cache_dtype,
            max_model_len=length,
            max_num_batched_tokens=record["max_num_batched_tokens"],
            max_num_seqs=record["max_num_seqs"],
            enable_prefix_caching=record["prefix_caching"],
            speculative_method=method,
            num_speculative_tokens=drafted,
        ),
        gpu,
    )
    stored, _ = weight_storage(shape, quantization=quantization, dtype="float32" if fp32 else None)
    share = record["gpu_memory_utilization"]
    budgets = vllm_budgets(
        shape,
        stored,
        Sharding(
            tensor_parallel_size=tp,
            pipeline_parallel_size=pp,
            expert_parallel_size=tp if record["ep"] else 1,
        ),
        plan.settings,
        gpu=gpu or H100,
        arguments=BudgetArguments(
            gpu_memory_utilization=None if share is None else Fraction(str(share)),
            enforce_eager=bool(record["enforce_eager"]),
        ),
    )
    return Start(
        record=record,
        shape=shape,
        plan=plan,
        budget=budgets[0],
        gpu=gpu,
        version=version,
        weights_known=model not in CACHE_ONLY,
    )


def _speculation(record: dict[str, Any]) -> tuple[str | None, int | None]:
    words = (record["speculative"] or "").lower()
    if "mtp" not in words or "eagle" in words:
        return None, None
    digits = words.replace("num_spec_tokens=", "mtp ").rpartition("mtp ")[2][:1]
    return "mtp", int(digits) if digits.isdigit() else None
