"""vLLM's rules by version, in one table: what changed when, and where that was read.

A row holds from its release on; rows name only what they change. Read in the wheels of 0.6.6,
0.8.5, 0.9.2, 0.10.2, 0.11.0, 0.12.0, 0.13.0, 0.14.0, 0.15.1, 0.17.0, 0.19.0 to 0.29.0, 0.31.0 and
0.33.0, so a change is dated by the first of these that has it. Figures that no source states were
fitted on startup logs (`tests/truth`), and `docs/engines.md` says with which error.
"""

from bisect import bisect_right
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

from app.core.engines.budgets import MIB
from app.core.engines.versions import Version, release
from app.errors import InputError

NEWEST = "0.33.0"


@dataclass(frozen=True, kw_only=True, slots=True)
class VllmRules:
    """What a version does.

    Attributes:
        since: First release the rules hold for.
        core: The engine's generation: `v0` profiles without a sampler's peak of its own.
        utilization: Default of `gpu_memory_utilization` (`config/cache.py`).
        charges_graphs: CUDA graphs are estimated and taken off the budget
            (`VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS`, `envs.py`).
        whole_consumption: Everything between the first and the last snapshot is charged
            (`utils/mem_utils.py`), so the sampler's standing state too.
        sampler_state_of: Whose sampler keeps counts of every token of the vocabulary for every
            sequence (model runner V2, `config/vllm.py`).
        sampler_bytes: Bytes a logit at the sampler's peak. 14: bf16 and fp32 logits,
            probabilities, noise; 38 with sorted copies and their indices
            (`v1/sample/ops/topk_topp_sampler.py`).
        sampler_buffer: The Triton filter keeps a row of the vocabulary a multiprocessor.
        interleaves_experts: MXFP4 experts are laid out for Hopper's matrix units.
        standing_workspaces: Workspaces of experts stay allocated after a layer.
        bounds_videos: Qwen3-VL's profile run takes its processor's largest video, not one as long
            as `max_model_len` (`models/qwen3_vl.py`).
        hbm_context: Non-torch memory of a data-centre device alone, bytes (fitted).
        hbm_parallel: The same with tensor parallelism (fitted).
        pipelined_context: The same of a pipeline stage without tensor parallelism (fitted).
        small_context: That of other devices (fitted).
        small_parallel: The same with tensor parallelism (fitted).
        charges_others: What other processes hold counts against the engine's own share.
        checks_state_blocks: With graphs, every sequence of a batch needs a block of its own for
            its state, or the engine refuses to start (`config/compilation.py`).
        checks_free: The engine refuses to start where less is free than it requests.
        tiers: How `max_num_batched_tokens` and `max_num_seqs` follow from the device
            (`engine/arg_utils.py`).
        tokens_are: What "GPU KV cache size" counts: `blocks` over groups x block size, or
            `length`: concurrency x `max_model_len` (`v1/core/kv_cache_utils.py`).
        hybrid_manager: Windows free their blocks.
        few_more: Groups are as long as the largest kind where it has fewer than so many times
            the layers of the smallest.
        steps_in_flight: Windows hold tokens of every step that may be scheduled at once.
        caches_hybrids: Prefix caching is on by default for models with states.
        exports_states: A prefill keeps one more block for a state it exports.
    """

    since: Version
    core: Literal["v0", "v1"] = "v0"
    utilization: float = 0.9
    charges_graphs: bool = False
    whole_consumption: bool = False
    sampler_state_of: Literal["none", "dense", "all"] = "none"
    sampler_bytes: int = 38
    sampler_buffer: bool = False
    interleaves_experts: bool = False
    standing_workspaces: bool = False
    bounds_videos: bool = False
    hbm_context: int = 0
    hbm_parallel: int = 0
    pipelined_context: int = 70 * MIB
    small_context: int = 0
    small_parallel: int = 0
    charges_others: bool = False
    checks_free: bool = False
    checks_state_blocks: bool = False
    tiers: Literal["v0", "70", "70_no_a100", "160"] = "v0"
    tokens_are: Literal["blocks", "length"] = "blocks"
    hybrid_manager: bool = False
    few_more: float = 1.0
    steps_in_flight: bool = False
    caches_hybrids: bool = False
    exports_states: bool = False


_CHANGES: tuple[tuple[Version, dict[str, Any]], ...] = (
    (
        (0, 6),
        {
            "hbm_context": 300 * MIB,
            "hbm_parallel": 300 * MIB,
            "small_context": 300 * MIB,
            "small_parallel": 300 * MIB,
            "charges_others": True,
        },
    ),
    ((0, 6, 6), {"charges_others": False}),
    (
        (0, 8),
        {
            "core": "v1",
            "tiers": "70",
            "charges_others": True,
            "hbm_context": 600 * MIB,
            "hbm_parallel": 1100 * MIB,
            "small_context": 500 * MIB,
            "small_parallel": 600 * MIB,
        },
    ),
    (
        (0, 9),
        {
            "tiers": "70_no_a100",
            "charges_others": False,
            "checks_free": True,
            "hbm_context": 70 * MIB,
            "hbm_parallel": 560 * MIB,
            "small_context": 20 * MIB,
            "small_parallel": 100 * MIB,
        },
    ),
    ((0, 10), {"hybrid_manager": True}),
    ((0, 11), {"hbm_context": 133 * MIB}),
    ((0, 12), {"few_more": 1.25}),
    ((0, 13), {"interleaves_experts": True}),
    ((0, 14), {"standing_workspaces": True}),
    ((0, 15), {"bounds_videos": True}),
    ((0, 17), {"sampler_bytes": 14, "sampler_buffer": True}),
    ((0, 18), {"hbm_context": 256 * MIB, "hbm_parallel": 2140 * MIB}),
    ((0, 19), {"few_more": 1.5}),
    ((0, 20), {"utilization": 0.92, "charges_graphs": True, "checks_state_blocks": True}),
    ((0, 21), {"tokens_are": "length", "sampler_buffer": False}),
    ((0, 23), {"sampler_state_of": "dense"}),
    ((0, 26), {"steps_in_flight": True}),
    ((0, 27), {"whole_consumption": True}),
    ((0, 28), {"caches_hybrids": True, "tiers": "160"}),
    ((0, 29), {"exports_states": True, "sampler_state_of": "all"}),
)


def _accumulate() -> tuple[VllmRules, ...]:
    rows: list[VllmRules] = []
    for since, changes in _CHANGES:
        rules = replace(rows[-1], since=since) if rows else VllmRules(since=since)
        rows.append(replace(rules, **changes))
    return tuple(rows)


RULES = _accumulate()


@lru_cache(maxsize=256)
def rules_for(version: str | None) -> VllmRules:
    """The rules of a version; of the newest one for None.

    Raises:
        InputError: on `engine_version` for versions before 0.6 and after the newest we read.
    """
    found = release(version or NEWEST)
    row = bisect_right([rules.since for rules in RULES], found) - 1
    if row < 0 or found[:2] > release(NEWEST)[:2]:
        rule = f"vLLM's rules are known for 0.6 to {NEWEST}, not for {version}"
        raise InputError.of("engine_version", rule, type="unknown_version")
    return RULES[row]
