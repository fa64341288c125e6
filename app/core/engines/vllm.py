"""vLLM 0.33: from a model, a device and engine arguments to the cache the engine lays out.

`plan_cache` is the entry. Rules were read in the source of vLLM 0.33.0 and hold for CUDA devices;
each module beside this one names the files it follows:

- `vllm_arguments`: what may be asked, and the settings that result
- `vllm_served`: what it does not serve
- `vllm_defaults`: settings by GPU, entry point and kind of model; refusals of parallel sizes
- `vllm_cache_dtype`: cache precisions and their bytes
- `vllm_facts`: what the engine reads off a model
- `vllm_backends`, `vllm_blocks`: attention backends and the block size
- `vllm_specs`, `vllm_layers`, `vllm_groups`: one layer's cache, all layers', and their groups
- `vllm_capacity`: blocks, bytes and concurrency for any context and budget
"""

from dataclasses import replace

from app.core.engines.vllm_arguments import H100, VERSION, VllmArguments, VllmSettings
from app.core.engines.vllm_backends import Backend
from app.core.engines.vllm_blocks import (
    Deployment,
    check_encoder_only,
    resolve_backends,
    settle_block_size,
)
from app.core.engines.vllm_capacity import VllmCapacity, VllmPlan
from app.core.engines.vllm_defaults import (
    UNSTATED_LENGTH,
    batch_limits,
    cache_dtype,
    check_parallel,
    concurrent_batches,
    longest,
    prefix_caching,
    speculation,
    state_cache_mode,
)
from app.core.engines.vllm_facts import Facts, model_facts
from app.core.engines.vllm_groups import group_layers
from app.core.engines.vllm_layers import layer_specs
from app.core.engines.vllm_rules import VllmRules, rules_for
from app.core.engines.vllm_served import check_served, dropped
from app.core.engines.vllm_specs import promote_windows
from app.core.hardware import Gpu
from app.core.model import ModelShape
from app.core.parallel import pipeline_stages

__all__ = [
    "H100",
    "VERSION",
    "VllmArguments",
    "VllmCapacity",
    "VllmPlan",
    "VllmSettings",
    "plan_cache",
]


def plan_cache(
    shape: ModelShape, arguments: VllmArguments | None = None, gpu: Gpu | None = None
) -> VllmPlan:
    """How vLLM caches `shape` under `arguments` on `gpu` (an H100 80 GB where none is named).

    Raises `InputError` where the engine would not start: heads that do not divide, a cache type no
    backend takes, a block size none works in.
    """
    arguments = arguments or VllmArguments()
    device = gpu or H100
    capability = device.compute_capability or (9, 0)
    rules = rules_for(arguments.version)
    facts = model_facts(shape)
    check_served(shape, facts, rules)
    check_parallel(shape, arguments, facts)
    use_drafts, drafted, lookahead = speculation(shape, arguments)
    caching = prefix_caching(facts, arguments, rules)
    mode = state_cache_mode(facts, prefix_caching_enabled=caching)
    deployment = Deployment(
        shape=shape,
        facts=facts,
        capability=capability,
        tensor_parallel_size=arguments.tensor_parallel_size,
        decode_context_parallel=arguments.decode_context_parallel_size > 1,
        cache_dtype=cache_dtype(shape, facts, arguments, capability),
        block_size=arguments.block_size,
        align_states=mode == "align",
        exports_states=rules.exports_states,
        num_speculative_tokens=drafted,
    )
    if not facts.layers:
        check_encoder_only(deployment)
    backends, stored = resolve_backends(deployment)
    deployment = replace(deployment, cache_dtype=stored)
    length = longest(shape, arguments)
    tokens, seqs = batch_limits(facts, arguments, device, length, rules)
    settings = VllmSettings(
        version=arguments.version or VERSION,
        rules=rules,
        tensor_parallel_size=arguments.tensor_parallel_size,
        pipeline_parallel_size=arguments.pipeline_parallel_size,
        decode_context_parallel_size=arguments.decode_context_parallel_size,
        kv_cache_dtype=stored,
        max_model_len=length,
        max_num_batched_tokens=tokens,
        max_num_seqs=seqs,
        max_concurrent_batches=concurrent_batches(facts, arguments, rules),
        enable_prefix_caching=caching,
        disable_hybrid_kv_cache_manager=_one_manager(facts, arguments, rules, drafting=use_drafts),
        block_size=settle_block_size(deployment, backends),
        mamba_cache_mode=mode,
        num_speculative_tokens=drafted,
        window_lookahead=lookahead,
        attention_backends=tuple(backend.name for backend in backends),
    )
    cached = (*facts.layers, *facts.drafts) if use_drafts else facts.layers
    layers = layer_specs(deployment, settings, cached)
    if settings.disable_hybrid_kv_cache_manager and layers:
        layers = promote_windows(layers)
    return VllmPlan(
        settings=settings,
        groups=group_layers(layers, packed=facts.compressed, few_more=rules.few_more),
        stages=_stages(shape, arguments, drafting=use_drafts),
        assumptions=(
            *_assumptions(gpu, settings, arguments, facts),
            *_unstated_length(shape, arguments),
            *_odd_block_size(arguments, backends),
            *dropped(shape),
        ),
    )


def _one_manager(
    facts: Facts, arguments: VllmArguments, rules: VllmRules, *, drafting: bool
) -> bool:
    """Chunked layers beside a drafting model are allocated in full, whatever was asked."""
    if arguments.disable_hybrid_kv_cache_manager is not None:
        return arguments.disable_hybrid_kv_cache_manager
    return (facts.chunked and drafting) or not rules.hybrid_manager


def _stages(shape: ModelShape, arguments: VllmArguments, *, drafting: bool) -> tuple[range, ...]:
    """Layers of each pipeline stage; prediction modules run on the last."""
    stages = pipeline_stages(shape.num_hidden_layers, arguments.pipeline_parallel_size)
    if not drafting:
        return stages
    last = stages[-1]
    return (*stages[:-1], range(last.start, last.stop + len(shape.draft_groups)))


def _assumptions(
    gpu: Gpu | None, settings: VllmSettings, arguments: VllmArguments, facts: Facts
) -> tuple[str, ...]:
    said = []
    if gpu is None:
        said.append(f"no GPU was named: vLLM's defaults for an {H100.driver_name} are taken")
    elif gpu.vendor not in (None, "NVIDIA"):
        said.append(
            f"{gpu.name}: vLLM's rules for NVIDIA devices are taken; those for "
            f"{gpu.vendor} were not read"
        )
    elif gpu.compute_capability is None:
        said.append(f"{gpu.name} states no compute capability: 9.0 is taken")
    if facts.ignores_cache_dtype and arguments.kv_cache_dtype != "auto":
        said.append("vLLM's attention for this model keeps its own precision whatever is asked")
    if arguments.max_num_batched_tokens is None:
        entry = "API server" if arguments.entry_point == "api_server" else "LLM class"
        said.append(
            f"vLLM {settings.version} defaults for its {entry}: max_num_batched_tokens "
            f"{settings.max_num_batched_tokens}, max_num_seqs {settings.max_num_seqs}"
        )
    return tuple(said)


def _unstated_length(shape: ModelShape, arguments: VllmArguments) -> tuple[str, ...]:
    """The engine's own guess where neither caller nor config says how long sequences may be."""
    if arguments.max_model_len or shape.max_position_embeddings:
        return ()
    return (f"the config states no longest sequence: vLLM takes {UNSTATED_LENGTH} tokens",)


def _odd_block_size(arguments: VllmArguments, backends: tuple[Backend, ...]) -> tuple[str, ...]:
    """A block size that a model's own kernels can't be cut into: planned, and said."""
    asked = arguments.block_size
    names = [b.name for b in backends if asked is not None and not b.accepts(asked)]
    if not names:
        return ()
    return (f"{', '.join(names)} can't work in blocks of {asked}: vLLM may stop at start-up",)
