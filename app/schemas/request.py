"""The fields of a calculation's request, as the contract names them, in groups.

Each calculation has a query model and, for POST, its strict subclass with `config` and
`gpu_spec`. Names are vLLM's and Hugging Face's own.

Documents list a model's fields from its last base to its first; so what nearly every question
names, `Subject` and the amounts of work, is the last base of each. The `examples` of a field are
what `/docs` fills in.
"""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from app.schemas.gpus import GpuSpec
from app.schemas.types import (
    BodyModel,
    Count,
    Flag,
    Fraction01,
    Natural,
    Positive,
    QueryModel,
    Share,
    Whole,
    none_given,
)

ParallelSize = Annotated[int, Whole(1, 4096)]
Words = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_.+-]+$")]
ModelName = Annotated[str, Field(min_length=1, max_length=128)]
Contexts = Annotated[list[Count], Field(max_length=256)]
Batches = Annotated[list[Count], Field(max_length=256)]
Engine = Literal["formula", "vllm", "sglang", "tensorrt-llm", "llama.cpp"]


class ModelSubject(QueryModel):
    """What the question is about: a model."""

    model: ModelName | None = Field(
        None,
        description="Hub id `org/name`, or a catalogue alias such as `llama-3-8b`.",
        examples=["llama-3-8b"],
    )


class Subject(ModelSubject):
    """What the question is about: a model on a GPU."""

    gpu: Annotated[str, Field(min_length=1, max_length=100)] | None = Field(
        None, description="Catalogue id or alias.", examples=["h100"]
    )


class ModelFields(ModelSubject):
    """Which files of the model, in which precision and spread over how many GPUs."""

    revision: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        None, description="Branch, tag or commit; naming one goes past the catalogue."
    )
    source: Literal["any", "hub"] = Field(
        "any", description="`any`: catalogue, local cache, hub; `hub`: the hub as it is now."
    )
    gguf_file: Annotated[str, Field(min_length=1, max_length=512)] | None = Field(
        None, description="A GGUF file of the repository to read instead of its config.json."
    )
    dtype: Words | None = Field(
        None, description="Precision of the weights, where it should differ from the checkpoint's."
    )
    quantization: Words | None = Field(
        None, description="Quantisation of the weights, where it should differ."
    )
    weight_bytes: Count | None = Field(
        None, description="Total weight bytes of the model, where the caller knows better."
    )
    kv_cache_dtype: Words = Field("auto", description="`auto`: what the engine would pick.")
    assume: Literal["dense_attention"] | None = Field(
        None,
        description="Answer for an unknown model type as if all its layers were plain attention.",
    )
    tensor_parallel_size: ParallelSize = 1
    pipeline_parallel_size: ParallelSize = 1
    data_parallel_size: ParallelSize = 1
    decode_context_parallel_size: ParallelSize = 1
    enable_expert_parallel: Flag = False
    expert_parallel_size: ParallelSize | None = Field(
        None, description="Ranks that whole experts are dealt out over, as other engines say it."
    )
    explain: Flag = Field(False, description="Include the worked steps.")


class GpuFields(Subject):
    """Which GPU, where the catalogue's figures are not the ones."""

    gpu_memory_bytes: Count | None = Field(
        None, description="Memory of the GPU, in place of the catalogue's or without one."
    )
    memory_bandwidth_bytes_per_s: Count | None = Field(
        None, description="Bandwidth of the GPU, in place of the catalogue's or without one."
    )


class EngineFields(QueryModel):
    """Which engine, and its arguments by their own names."""

    engine: Engine = Field(
        "formula",
        description="`formula`: memory - weights - activation - overhead. Others: that engine's "
        "own cache layout and budget.",
    )
    engine_version: Words | None = None
    entry_point: Literal["api_server", "llm_class"] = Field(
        "api_server", description="What starts vLLM: its defaults differ."
    )
    gpu_memory_utilization: Fraction01 | None = None
    mem_fraction_static: Fraction01 | None = Field(
        None, description="SGLang: share of the memory for weights and pools."
    )
    free_gpu_memory_fraction: Fraction01 | None = Field(
        None, description="TensorRT-LLM: share of what is free once the engine is loaded."
    )
    max_running_requests: Count | None = Field(None, description="SGLang: as `max_num_seqs`.")
    max_model_len: Count | None = None
    max_num_seqs: Count | None = None
    max_num_batched_tokens: Count | None = None
    block_size: Annotated[int, Whole(1, 2**20)] | None = None
    enforce_eager: Flag | None = None
    enable_prefix_caching: Flag | None = None
    disable_hybrid_kv_cache_manager: Flag | None = None
    speculative_method: Words | None = None
    num_speculative_tokens: Annotated[int, Whole(0, 1024)] | None = None
    kv_cache_memory_bytes: Count | None = None
    draft_model: ModelName | None = Field(
        None, description="vLLM: a catalogue model that drafts, on the same GPUs."
    )
    lora_rank: Annotated[int, Whole(1, 4096)] | None = Field(
        None, description="Highest rank of the adapters that vLLM keeps slots for."
    )
    max_loras: Annotated[int, Whole(1, 4096)] = Field(1, description="Slots for adapters.")


class EngineRequest(EngineFields, ModelFields):
    """A request that can name an engine."""


class BudgetFields(QueryModel):
    """What the memory leaves for the cache."""

    activation_bytes: Natural | None = Field(None, description="Per GPU, with `formula`: 2e9.")
    overhead_bytes: Natural | None = Field(None, description="Per GPU, with `formula`: 2e9.")
    kv_budget_bytes: Count | None = Field(None, description="Per GPU: skips the budget arithmetic.")
    gpu_memory_used_bytes: Natural = Field(
        0, description="With an engine: memory that other processes hold on each GPU at its start."
    )
    instances_per_gpu: Annotated[int, Whole(1, 64)] = Field(
        1, description="With an engine: instances that share each GPU, one started after another."
    )


class BudgetedRequest(BudgetFields, EngineRequest, GpuFields):
    """A request that asks what fits."""


class SpeedFields(QueryModel):
    """What hardware reaches in practice."""

    efficiency: Fraction01 = Field(0.70, description="Share of the roofline that is reached.")
    tp_overhead: Share = Field(0.30, description="Time that tensor parallelism adds.")


class InlineFields(BodyModel):
    """What only a body can carry."""

    config: dict[str, Any] | None = Field(
        None, description="A config.json object instead of `model`."
    )
    hf_quant_config: dict[str, Any] | None = Field(
        None,
        description="The hf_quant_config.json beside `config`, which counts where `config` itself "
        "has no quantization_config.",
    )
    gpu_spec: GpuSpec | None = Field(None, description="A GPU's description instead of `gpu`.")

    @model_validator(mode="before")
    @classmethod
    def _put_quantization_in_its_place(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        config, quantization = value.get("config"), value.get("hf_quant_config")
        if not isinstance(config, dict) or not isinstance(quantization, dict):
            return value
        described = {"producer": {"name": "modelopt"}, **quantization}  # whose file that is
        return {**value, "config": {"quantization_config": described, **config}}


class MeasuredParts(BodyModel):
    """Measured parts of a GPU's memory, in bytes, in place of an engine's predicted ones."""

    gpu_memory_bytes: Count | None = Field(None, description="The total that a process sees.")
    weight_bytes: Count | None = None
    activation_bytes: Natural | None = None
    non_torch_bytes: Natural | None = None
    cuda_graph_bytes: Natural | None = None
    kv_budget_bytes: Count | None = Field(None, description="The cache memory itself.")


class CalibratedFields(BodyModel):
    """What a startup log told, as `/verify` returns it."""

    calibration: MeasuredParts | None = Field(
        None, description="Measurements that the engine's budget stands on; per GPU."
    )


class HeldTokens(Subject):
    """The sequences asked about."""

    context: Count | None = Field(
        None,
        description="Tokens held per sequence, prompt and output together.",
        examples=[8192],
    )
    contexts: Contexts = none_given("Further contexts for `by_context`.")
    batch: Count = Field(1, description="Sequences decoding together.")


class KvQuery(EngineRequest, GpuFields, HeldTokens):
    """Bytes of a model's cache."""


class KvBody(InlineFields, KvQuery):
    """Bytes of a model's cache."""


class ConcurrencyQuery(BudgetedRequest, HeldTokens):
    """How many sequences fit."""

    batch: Count = Field(1, description="Sequences wanted at once; below it, advice is given.")


class ConcurrencyBody(InlineFields, CalibratedFields, ConcurrencyQuery):
    """How many sequences fit."""


class CurvePoints(Subject):
    """Where on the curve to look."""

    models: Annotated[list[ModelName], Field(max_length=8)] = none_given(
        "Several models in one picture, instead of `model`."
    )
    context: Count | None = Field(
        None, description="Tokens per sequence of the first point.", examples=[4096]
    )
    contexts: Contexts = none_given("Contexts of further points.")
    batch: Count | None = Field(
        None, description="Sequences decoding together, of the first point.", examples=[32]
    )
    batches: Batches = none_given("Batches of further points.")
    format: Literal["json", "svg", "png"] = Field(
        "json", description="A picture instead of the numbers; `Accept` does the same."
    )


class CrossoverQuery(SpeedFields, ModelFields, GpuFields, CurvePoints):
    """Where reading the cache costs as much as reading the weights."""


class CrossoverBody(InlineFields, CrossoverQuery):
    """Where reading the cache costs as much as reading the weights."""


class Workload(Subject):
    """What is to be served, and how well."""

    concurrent_users: Annotated[int, Whole(1, 10**12)] | None = Field(
        None,
        description="Users decoding at once; or `request_rate_per_s` with token counts.",
        examples=[2000],
    )
    context: Count | None = Field(
        None,
        description="Tokens held per sequence; else `input_tokens` + `output_tokens`.",
        examples=[6000],
    )
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    request_rate_per_s: Positive | None = None
    itl_slo_ms: Positive | None = None
    ttft_slo_ms: Positive | None = None
    gpus_per_node: ParallelSize = 8
    spike_headroom: Share = 0.30
    spare_nodes: Annotated[int, Whole(0, 10**6)] = 1
    node_overhead_bytes: Natural | None = Field(
        None, description="Per node, instead of `activation_bytes` and `overhead_bytes`."
    )
    prefill_efficiency: Fraction01 = Field(
        0.45, description="Share of the dense peak that prefill reaches."
    )


class PlanQuery(SpeedFields, BudgetedRequest, Workload):
    """From a workload to machines."""


class PlanBody(InlineFields, CalibratedFields, PlanQuery):
    """From a workload to machines."""
