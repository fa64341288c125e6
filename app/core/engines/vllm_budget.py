"""What vLLM will report as available for its KV cache, before it has started.

`utilization x memory - weights - activation peak - non-torch - CUDA graphs`, each part by the
rules of the version asked for (`determine_available_memory` of the workers).
"""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from app.core.budget import MemoryBudget
from app.core.engines.budgets import (
    GIB,
    NOTHING_MEASURED,
    Calibration,
    Doubt,
    EngineBudget,
    band_around,
)
from app.core.engines.vllm_activation import (
    activation_peak,
    encoder_peak,
    standing_sampler_bytes,
)
from app.core.engines.vllm_arguments import VllmSettings
from app.core.engines.vllm_overhead import graphs, non_torch
from app.core.engines.vllm_weights import Adapters, vllm_weight_bytes
from app.core.hardware import Gpu
from app.core.model import ModelShape
from app.core.parallel import pipeline_stages
from app.core.weights import Sharding, StoredBytes

PLAIN_DOUBT = 0.004
PACKED_DOUBT = 0.012
"""Shares of the weights that nine of ten are off by: 16 and 8 bits, and fewer."""
PACKED = ("int4", "int3", "nvfp4", "mxfp4", "nf4", "fp4", "awq", "gptq")
UNMEASURED_SEQUENCES = 128
"""Sequences from which the sampler's peak was measured up to 0.19 only."""
KERNEL_DOUBT = 0.025
"""Where it depends on the build which kernel, and so which padding, MXFP4 experts have."""
OTHER_VENDOR_DOUBT = 0.08
EIGHT_BITS = frozenset({"fp8", "int8"})
"""Formats under which activations are quantised on the way into each matrix."""
STATED_TOTAL_DOUBT = 0.012
"""Of a memory of which it is not known what a process sees."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BudgetArguments:
    """What decides a budget beside the settings; None is the engine's default.

    Attributes:
        used_bytes: Memory that other processes hold on the GPU when the engine starts.
        weight_bytes: Bytes of the weights per GPU, where the caller knows better.
    """

    gpu_memory_utilization: Fraction | None = None
    kv_cache_memory_bytes: int | None = None
    enforce_eager: bool = False
    adapters: Adapters | None = None
    used_bytes: int = 0
    weight_bytes: int | None = None
    measured: Calibration = NOTHING_MEASURED


def vllm_budgets(
    shape: ModelShape,
    stored: StoredBytes,
    sharding: Sharding,
    settings: VllmSettings,
    *,
    gpu: Gpu,
    arguments: BudgetArguments,
) -> tuple[EngineBudget, ...]:
    """The budget of a GPU of each pipeline stage."""
    stages: tuple[range | None, ...] = (None,)
    if sharding.pipeline_parallel_size > 1:
        stages = pipeline_stages(shape.num_hidden_layers, sharding.pipeline_parallel_size)
    formats = frozenset(run.format for weight in shape.weights for run in stored(weight))
    run = _Run(shape, stored, sharding, settings, gpu, arguments, formats)
    return tuple(run.budget(stage) for stage in stages)


@dataclass(frozen=True, slots=True)
class _Run:
    """One start of the engine."""

    shape: ModelShape
    stored: StoredBytes
    sharding: Sharding
    settings: VllmSettings
    gpu: Gpu
    arguments: BudgetArguments
    formats: frozenset[str]

    def budget(self, stage: range | None) -> EngineBudget:
        """Of a GPU of a pipeline stage; None for the whole model."""
        rules, arguments = self.settings.rules, self.arguments
        measured = arguments.measured
        total = measured.gpu_memory_bytes or self.gpu.visible_memory_bytes
        share = arguments.gpu_memory_utilization
        utilization = Fraction(str(rules.utilization)) if share is None else share
        requested = ceil(total * utilization)
        weights, weight_doubt = self._weights(stage)
        activation, activation_doubt = self._activation(stage)
        overhead, overhead_doubt = self._overhead()
        graph, graph_doubt = self._graphs(stage)
        if rules.charges_others:
            overhead += arguments.used_bytes
        parts = MemoryBudget(
            gpu_memory_bytes=total,
            weight_bytes=weights,
            activation_bytes=activation,
            overhead_bytes=overhead,
            cuda_graph_bytes=graph,
            unrequested_bytes=total - requested,
        )
        total_doubt = Doubt()
        if self.gpu.visible_memory_basis != "memory_bytes_cuda" and not measured.gpu_memory_bytes:
            total_doubt = Doubt.both(STATED_TOTAL_DOUBT * total)
        budget = parts.kv_budget_bytes
        doubts = (weight_doubt, activation_doubt, overhead_doubt, graph_doubt, total_doubt)
        band = band_around(budget, doubts)
        found = EngineBudget(
            parts=parts,
            kv_budget_bytes=budget,
            band=band,
            refusal=self._refusal(total, requested),
        )
        return found.known_to_be(arguments.kv_cache_memory_bytes or measured.kv_budget_bytes)

    def _weights(self, stage: range | None) -> tuple[int, Doubt]:
        """What was measured has everything in it; a caller's weights are those of the model."""
        if self.arguments.measured.weight_bytes is not None:
            return self.arguments.measured.weight_bytes, Doubt()
        size = self._loaded(stage)
        if self.arguments.weight_bytes is not None:
            beside = size - self._loaded(stage, alone=True)
            return self.arguments.weight_bytes + beside, Doubt()
        share = PACKED_DOUBT if any(f.startswith(PACKED) for f in self.formats) else PLAIN_DOUBT
        if "mxfp4" in self.formats and not self.settings.rules.interleaves_experts:
            share = KERNEL_DOUBT
        if self.gpu.vendor == "AMD":
            share = OTHER_VENDOR_DOUBT
        return size, Doubt.both(size * share)

    def _loaded(self, stage: range | None, *, alone: bool = False) -> int:
        """The weights by our count; `alone` is without prediction modules and adapters."""
        drafting = self.settings.num_speculative_tokens > 0 and bool(self.shape.draft_groups)
        return vllm_weight_bytes(
            self.shape,
            self.stored,
            self.sharding,
            stage,
            drafting=drafting and not alone,
            adapters=None if alone else self.arguments.adapters,
            rules=self.settings.rules,
            gpu=self.gpu,
        )

    def _activation(self, stage: range | None) -> tuple[int, Doubt]:
        if self.arguments.measured.activation_bytes is not None:
            return self.arguments.measured.activation_bytes, Doubt()
        peak = activation_peak(
            self.shape,
            self.settings,
            first_stage=stage is None or stage.start == 0,
            last_stage=stage is None or stage.stop >= self.shape.num_hidden_layers,
            quantised_inputs=not self.formats.isdisjoint(EIGHT_BITS),
        )
        more = less = 0.03 * peak + 0.04 * GIB
        if "multimodal" in self.shape.traits:
            more += 1.3 * GIB
            less += 0.4 * GIB + 0.4 * encoder_peak(self.shape, self.settings)
        if (
            self.settings.rules.charges_graphs
            and self.settings.max_num_seqs >= UNMEASURED_SEQUENCES
        ):
            logits = self.settings.max_num_seqs * self.shape.vocab_size
            more, less = more + 4 * logits, less + 8 * logits
        return peak, Doubt(more=round(more), less=round(less))

    def _overhead(self) -> tuple[int, Doubt]:
        if self.arguments.measured.non_torch_bytes is not None:
            return self.arguments.measured.non_torch_bytes, Doubt()
        size, doubt = non_torch(self.settings, self.gpu)
        if self.sharding.expert_parallel_size > 1:
            doubt = Doubt(more=doubt.more + round(1.5 * GIB), less=doubt.less)
        return size + standing_sampler_bytes(self.shape, self.settings), doubt

    def _graphs(self, stage: range | None) -> tuple[int, Doubt]:
        eager = self.arguments.enforce_eager
        measured = self.arguments.measured.cuda_graph_bytes
        if measured is not None:
            return measured if self.settings.rules.charges_graphs and not eager else 0, Doubt()
        layers = self.shape.num_hidden_layers if stage is None else len(stage)
        return graphs(self.shape, self.settings, self.gpu, enforce_eager=eager, layers=layers)

    def _refusal(self, total: int, requested: int) -> str | None:
        """The check before anything is loaded: what is requested has to be free."""
        if not self.settings.rules.checks_free or self.arguments.kv_cache_memory_bytes:
            return None
        free = total - self.arguments.used_bytes
        if not self.arguments.used_bytes or free >= requested:
            return None
        return (
            f"vLLM {self.settings.version} does not start: {free} bytes are free on "
            f"{self.gpu.name}, and gpu_memory_utilization asks for {requested}"
        )
