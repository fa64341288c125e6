"""What engines leave for their caches: a request's fields as each engine's rules take them."""

from dataclasses import dataclass, fields
from fractions import Fraction

from app.answers.deployment import Deployment
from app.answers.drafting import beside_draft, draft_of
from app.answers.engine import Reserve, Reserves, engine_shape
from app.answers.remembering import remembering
from app.core.cache import MlaLatent
from app.core.decode import decimal
from app.core.engines import llama_cpp, sglang, tensorrt_llm
from app.core.engines.budgets import NOTHING_MEASURED, Calibration, EngineBudget
from app.core.engines.llama_cpp import (
    UBATCH,
    LlamaCppArguments,
    LlamaCppPools,
    compute_buffer,
    llama_cpp_budget,
)
from app.core.engines.pools import Pools, check_cache_type
from app.core.engines.sglang import SglangArguments, SglangPools, sglang_budget
from app.core.engines.tensorrt_llm import (
    TensorRtLlmArguments,
    TensorRtLlmPools,
    runtime_buffers,
    tensorrt_llm_budget,
)
from app.core.engines.vllm_activation import widths_of
from app.core.engines.vllm_budget import BudgetArguments, vllm_budgets
from app.core.engines.vllm_rules import rules_for
from app.core.engines.vllm_weights import Adapters
from app.core.hardware import Gpu
from app.core.inventory import Part
from app.core.model import ModelShape
from app.errors import InputError
from app.schemas.request import BudgetedRequest, EngineRequest, MeasuredParts

_CACHE_TYPES = {
    "sglang": sglang.CACHE_TYPES,
    "tensorrt-llm": tensorrt_llm.CACHE_TYPES,
    "llama.cpp": llama_cpp.CACHE_TYPES,
}

_budgets = remembering(vllm_budgets)


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineStart:
    """One start of an engine: the budget of each stage's GPU, and what fills it.

    `pools` is None for vLLM, whose blocks `Reserve` lays out.
    """

    budgets: tuple[EngineBudget, ...]
    pools: tuple[Pools, ...] | None = None
    assumptions: tuple[str, ...] = ()


def check_engine_cache(request: EngineRequest) -> None:
    """Whether an engine that keeps tokens in pools has the cache asked for.

    Raises:
        InputError: on `kv_cache_dtype` for one that it does not have.
    """
    check_cache_type(request.kv_cache_dtype, request.engine, _CACHE_TYPES[request.engine])


def engine_start(
    request: BudgetedRequest,
    deployment: Deployment,
    gpu: Gpu,
    context: int,
    reserves: Reserves | None,
) -> EngineStart:
    """The budgets of an engine that is started for sequences of `context` tokens.

    `reserves` are vLLM's, None for the others.

    Raises:
        InputError: on arguments that the engine refuses, and versions we have no rules for.
    """
    if reserves is not None:
        return _vllm(request, deployment, gpu, reserves.of(context))
    check_version(request)
    if request.instances_per_gpu > 1:
        rule = f"goes with engine=vllm: how {request.engine} shares a GPU is not modelled"
        raise InputError.of("instances_per_gpu", rule, type="not_modelled")
    check_engine_cache(request)
    if request.engine == "sglang":
        return _sglang(request, deployment, gpu)
    if request.engine == "tensorrt-llm":
        return _tensorrt_llm(request, deployment, gpu)
    return _llama_cpp(request, deployment, gpu, context)


def check_version(request: BudgetedRequest) -> None:
    """Rules of engines other than vLLM are those of one version, for which none is named."""
    if request.engine_version is not None:
        rule = f"rules by version are known for vLLM only, not for {request.engine}"
        raise InputError.of("engine_version", rule, type="unknown_version")


def eight_bits(request: BudgetedRequest) -> str:
    """The engine's cache of about half the size of 16 bits, by its own name."""
    return "q8_0" if request.engine == "llama.cpp" else "fp8"


def measured_parts(request: BudgetedRequest) -> Calibration:
    """The request's calibration."""
    given: MeasuredParts | None = getattr(request, "calibration", None)
    return NOTHING_MEASURED if given is None else Calibration(**given.model_dump())


def calibrated(measured: Calibration) -> tuple[str, ...]:
    """That measurements were used, and which."""
    used = [field.name for field in fields(measured) if getattr(measured, field.name) is not None]
    if not used:
        return ()
    return (f"calibration: measured {', '.join(used)} in place of what is worked out",)


def _share(value: float | None) -> Fraction | None:
    return None if value is None else decimal(value)


def _vllm(request: BudgetedRequest, deployment: Deployment, gpu: Gpu, held: Reserve) -> EngineStart:
    share, used, notes = _share_of_memory(request, gpu)
    adapters = None
    if request.lora_rank is not None:
        adapters = Adapters(max_loras=request.max_loras, rank=request.lora_rank)
    shape = engine_shape(request, deployment)
    arguments = BudgetArguments(
        gpu_memory_utilization=share,
        kv_cache_memory_bytes=request.kv_cache_memory_bytes,
        enforce_eager=bool(request.enforce_eager),
        adapters=adapters,
        used_bytes=used,
        weight_bytes=_given_weights(request, deployment),
        measured=measured_parts(request),
    )
    budgets = _budgets(deployment.model)(
        shape,
        deployment.stored,
        deployment.sharding,
        held.plan.settings,
        gpu=gpu,
        arguments=arguments,
    )
    measured = arguments.measured
    notes += calibrated(measured)
    if request.draft_model is not None:
        draft = draft_of(request.draft_model, request.tensor_parallel_size)
        weighed = measured.weight_bytes is not None
        pooled = measured.kv_budget_bytes is not None or request.kv_cache_memory_bytes is not None
        budgets = tuple(
            beside_draft(budget, draft, deployment.load, weighed=weighed, pooled=pooled)
            for budget in budgets
        )
        taken = "of the cache" if weighed or pooled else "its weights, and of the cache"
        notes.append(
            f"{request.draft_model} drafts on the same GPUs: {taken} its share by bytes a token "
            f"({float(draft.share(deployment.load)):.1%}) is taken off"
        )
    beside = (request.lora_rank, request.speculative_method, request.draft_model)
    if measured.weight_bytes is not None and any(beside):
        notes.append(
            "the calibration's weight_bytes are all that was loaded: adapters, prediction modules "
            "and a draft model are in them"
        )
    if gpu.visible_memory_basis != "memory_bytes_cuda":
        notes.append(f"what a process sees of {gpu.name} is not known: {gpu.visible_memory_basis}")
    if gpu.unified_memory:
        notes.append("unified memory: host allocations count as used, which no rule foresees")
    return EngineStart(budgets=budgets, assumptions=tuple(notes))


def _share_of_memory(request: BudgetedRequest, gpu: Gpu) -> tuple[Fraction, int, list[str]]:
    """The share that one instance asks for, bytes that others hold at its start, and in words what
    that takes for granted, where the share decides anything.
    """
    share, used = _share(request.gpu_memory_utilization), request.gpu_memory_used_bytes
    instances, notes = request.instances_per_gpu, []
    if share is None:
        rules = rules_for(request.engine_version)
        share = Fraction(str(rules.utilization)) / instances
        said = "the engine's default"
        if instances > 1:
            said += f" divided by {instances} instances"
        notes.append(f"gpu_memory_utilization {float(share):.4g}, {said}")
    if instances > 1:
        used += int(gpu.visible_memory_bytes * share) * (instances - 1)
        notes.append(
            f"{instances} instances share each GPU, each with gpu_memory_utilization "
            f"{float(share):.4g}, one started after another: started together each charges the "
            "other's loading to itself"
        )
    return share, used, notes if request.kv_cache_memory_bytes is None else []


def _given_weights(request: BudgetedRequest, deployment: Deployment) -> int | None:
    """The caller's weights, split evenly."""
    if request.weight_bytes is None:
        return None
    return deployment.load.stages[0].weight_bytes


def _sglang(request: BudgetedRequest, deployment: Deployment, gpu: Gpu) -> EngineStart:
    arguments = SglangArguments(
        tensor_parallel_size=request.tensor_parallel_size,
        pipeline_parallel_size=request.pipeline_parallel_size,
        mem_fraction_static=_share(request.mem_fraction_static),
        max_running_requests=request.max_running_requests or request.max_num_seqs,
        chunked_prefill_size=request.max_num_batched_tokens,
        page_size=request.block_size or 1,
        disable_radix_cache=request.enable_prefix_caching is False,
        disable_cuda_graph=bool(request.enforce_eager),
    )
    latent = any(
        isinstance(part, MlaLatent) for group in deployment.shape.groups for part in group.parts
    )
    stages = deployment.load.stages
    return _start(
        request,
        tuple(
            sglang_budget(
                stage.weight_bytes,
                gpu,
                arguments,
                latent=latent,
                tower=_tower(deployment.shape),
                used_bytes=request.gpu_memory_used_bytes,
                measured=measured_parts(request),
            )
            for stage in stages
        ),
        tuple(SglangPools(profile=stage.profile, arguments=arguments) for stage in stages),
    )


def _tower(shape: ModelShape) -> tuple[int, int]:
    """Layers and hidden width of a vision tower."""
    hidden = widths_of(shape).tower[1]
    layers = [w.occurrences for w in shape.weights if w.part is Part.VISION and w.linear]
    return max(layers, default=0), hidden


def _tensorrt_llm(request: BudgetedRequest, deployment: Deployment, gpu: Gpu) -> EngineStart:
    arguments = TensorRtLlmArguments(
        tensor_parallel_size=request.tensor_parallel_size,
        free_gpu_memory_fraction=_share(request.free_gpu_memory_fraction),
        max_batch_size=request.max_num_seqs,
        max_num_tokens=request.max_num_batched_tokens,
        tokens_per_block=request.block_size,
    )
    shape, stages = deployment.shape, deployment.load.stages
    buffers = runtime_buffers(shape.vocab_size, shape.hidden_size, arguments)
    return _start(
        request,
        tuple(
            tensorrt_llm_budget(
                stage.weight_bytes,
                buffers,
                gpu,
                arguments,
                used_bytes=request.gpu_memory_used_bytes,
                measured=measured_parts(request),
            )
            for stage in stages
        ),
        tuple(TensorRtLlmPools(profile=stage.profile, arguments=arguments) for stage in stages),
    )


def _llama_cpp(
    request: BudgetedRequest, deployment: Deployment, gpu: Gpu, context: int
) -> EngineStart:
    if deployment.load.gpus > 1:
        rule = "llama.cpp's split over several GPUs is not modelled"
        raise InputError.of("tensor_parallel_size", rule, type="not_modelled")
    shape = deployment.shape
    arguments = LlamaCppArguments(parallel_slots=request.max_num_seqs)
    buffer = compute_buffer(shape, request.max_model_len or context, UBATCH)
    budget = llama_cpp_budget(
        deployment.load.stages[0].weight_bytes,
        buffer,
        gpu,
        used_bytes=request.gpu_memory_used_bytes,
        measured=measured_parts(request),
    )
    cache_type = deployment.layout.attention_dtype
    pools = LlamaCppPools.of(shape, cache_type, arguments)
    return _start(request, (budget,), (pools,))


def _start(
    request: BudgetedRequest, budgets: tuple[EngineBudget, ...], pools: tuple[Pools, ...]
) -> EngineStart:
    given = request.kv_cache_memory_bytes
    return EngineStart(
        budgets=tuple(budget.known_to_be(given) for budget in budgets),
        pools=pools,
        assumptions=(
            *(budgets[0].assumptions if given is None else ()),
            *calibrated(measured_parts(request)),
        ),
    )
