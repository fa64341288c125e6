"""The capacity plan of the text's section 8: from a workload to machines, in six steps.

1. KV per sequence. 2. KV of all users. 3. Nodes that hold it. 4. The decode step at that load
against the inter-token SLO; sequences per node are lowered until it is met. 5. Throughput.
6. Headroom for spikes and spare nodes.
"""

from dataclasses import dataclass
from math import ceil

from app.core.decode import (
    DEFAULT_EFFICIENCY,
    DEFAULT_TP_OVERHEAD,
    decimal,
    decode_bytes_per_step,
    inter_token_seconds,
    step_bytes_within,
    step_seconds,
)
from app.core.load import ReplicaLoad, Stage
from app.core.weights import StepWeights

DEFAULT_SPIKE_HEADROOM = 0.30
DEFAULT_SPARE_NODES = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload:
    """What has to be served: users decoding at once, tokens each holds, and the latency promised.

    `itl_slo_seconds` None promises nothing. `max_num_seqs` bounds the sequences of one replica.
    """

    concurrent_users: int
    context: int
    itl_slo_seconds: float | None = None
    max_num_seqs: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """A node: its GPUs (all alike), the bandwidth of each in bytes/s, and the shares of it that
    are reached in practice."""

    gpus_per_node: int
    memory_bandwidth_bytes_per_s: int
    efficiency: float = DEFAULT_EFFICIENCY
    tp_overhead: float = DEFAULT_TP_OVERHEAD


@dataclass(frozen=True, kw_only=True, slots=True)
class Prompts:
    """The prompts' share of a workload.

    `tokens_per_s_per_replica` is how fast one replica prefills. The rate of requests is given, or
    follows from `output_tokens` (a user asks again when an answer is through), or is left out.
    """

    input_tokens: int
    tokens_per_s_per_replica: float
    request_rate_per_s: float | None = None
    output_tokens: int | None = None
    ttft_slo_seconds: float | None = None

    @property
    def ttft_seconds(self) -> float:
        """Time to first token of one prompt alone on a replica, in seconds."""
        return self.input_tokens / self.tokens_per_s_per_replica

    def tokens_per_s(self, users: int, itl_seconds: float) -> float:
        """Prompt tokens a second of all users together."""
        if self.request_rate_per_s is not None:
            return self.request_rate_per_s * self.input_tokens
        if self.output_tokens is None:
            return 0.0
        return users / (self.output_tokens * itl_seconds) * self.input_tokens


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """How replicas sit on nodes. A unit is what repeats: one node with as many whole replicas as
    it holds, or the nodes that one replica spans.

    `ranks_per_replica` are data-parallel ranks that share one set of experts: each batches and
    caches for itself, none runs without the others. `instances_per_gpu` replicas share each GPU.
    """

    gpus_per_replica: int
    ranks_per_replica: int
    replicas_per_unit: int
    nodes_per_unit: int
    instances_per_gpu: int = 1

    @property
    def gpus_used(self) -> int:
        """GPUs of a unit that work."""
        return self.gpus_per_replica * self.replicas_per_unit // self.instances_per_gpu

    @property
    def ranks_per_unit(self) -> int:
        """Independent batches of a unit."""
        return self.ranks_per_replica * self.replicas_per_unit


def layout_on_nodes(
    gpus_per_replica: int,
    gpus_per_node: int,
    *,
    ranks_per_replica: int = 1,
    instances_per_gpu: int = 1,
) -> Layout:
    """Whole replicas on a node while they fit; beyond, a replica takes whole nodes."""
    fit = gpus_per_node // gpus_per_replica
    return Layout(
        gpus_per_replica=gpus_per_replica,
        ranks_per_replica=ranks_per_replica,
        replicas_per_unit=max(1, fit) * instances_per_gpu,
        nodes_per_unit=1 if fit else -(-gpus_per_replica // gpus_per_node),
        instances_per_gpu=instances_per_gpu,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """The answer. Bytes, sequences and rates "per unit" are those of a layout's unit.

    `sequences_by_memory` and `sequences_per_rank` are of one independent batch. Times are None
    where not even one sequence fits; `nodes` is None where no number of nodes serves the workload
    (`limited_by` says why).
    """

    layout: Layout
    kv_bytes_per_sequence: int
    kv_bytes_total: int
    kv_bytes_per_unit: int
    sequences_by_memory: int
    sequences_per_rank: int
    sequences_per_unit: int
    step_bytes_per_gpu: int | None
    step_seconds: float | None
    itl_seconds: float | None
    meets_slo: bool
    units_for_kv: int | None
    units_for_latency: int | None
    prompt_tokens_per_s: float | None
    units_for_work: int | None
    nodes: int | None
    limited_by: str

    @property
    def units(self) -> int | None:
        """Units before headroom."""
        if self.units_for_kv is None or self.units_for_work is None:
            return None
        return max(self.units_for_kv, self.units_for_work)

    def nodes_of(self, units: int | None) -> int | None:
        """Nodes of so many units."""
        return None if units is None else units * self.layout.nodes_per_unit

    @property
    def tokens_per_s_per_unit(self) -> float:
        """Tokens that a full unit makes in a second."""
        return self.sequences_per_unit / self.itl_seconds if self.itl_seconds else 0.0


def with_headroom(units: int, layout: Layout, *, spike_headroom: float, spare_nodes: int) -> int:
    """Step 6, in nodes: whole units with the headroom, in the decimals the caller wrote, and the
    spare nodes."""
    more = decimal(spike_headroom)
    grown = -(-units * (more.denominator + more.numerator) // more.denominator)
    return grown * layout.nodes_per_unit + spare_nodes


def sequences_within_latency(
    *,
    stage: Stage,
    weights: StepWeights,
    context: int,
    at_most: int,
    step_bytes: int,
) -> int:
    """The most sequences of one replica whose decode step reads at most `step_bytes` on a GPU."""
    per_sequence = stage.profile.bytes_per_sequence(context)
    low, high = 0, at_most
    while low < high:
        middle = (low + high + 1) // 2
        needed = decode_bytes_per_step(weights.bytes_for(middle), per_sequence, middle)
        if needed <= step_bytes:
            low = middle
        else:
            high = middle - 1
    return low


def plan(
    load: ReplicaLoad,
    weights: StepWeights,
    workload: Workload,
    machine: Machine,
    *,
    layout: Layout,
    kv_bytes_per_unit: int,
    kv_bytes_per_sequence: int,
    sequences_by_memory: int,
    prompts: Prompts | None = None,
    spike_headroom: float = DEFAULT_SPIKE_HEADROOM,
    spare_nodes: int = DEFAULT_SPARE_NODES,
) -> Plan:
    """Work out the six steps.

    `weights` are what a step reads on one GPU; `kv_bytes_per_unit` what a unit's GPUs leave for
    the cache; `kv_bytes_per_sequence` what one sequence takes (or an engine reserves) on all GPUs
    that hold it; `sequences_by_memory` how many whole ones an independent batch holds.
    """
    users, context = workload.concurrent_users, workload.context
    stage = load.fullest_stage(context)
    per_sequence = stage.profile.bytes_per_sequence(context)
    ceiling, limited_by = _ceiling(workload, layout, sequences_by_memory, kv_bytes_per_unit)
    wanted = ceiling
    if workload.itl_slo_seconds is not None and ceiling:
        allowed = step_bytes_within(
            workload.itl_slo_seconds,
            machine.memory_bandwidth_bytes_per_s,
            efficiency=machine.efficiency,
            tp_overhead=machine.tp_overhead,
            tensor_parallel_size=load.tensor_parallel_size,
        )
        # The stages of a pipeline read one after another: each gets its part of the time.
        wanted = sequences_within_latency(
            stage=stage,
            weights=weights,
            context=context,
            at_most=ceiling,
            step_bytes=allowed // len(load.stages),
        )
        limited_by = "latency" if wanted < ceiling else limited_by
    step_bytes = roofline = itl = None
    if sequences_by_memory:
        shown = max(1, wanted)
        step_bytes = decode_bytes_per_step(weights.bytes_for(shown), per_sequence, shown)
        roofline = step_seconds(step_bytes, machine.memory_bandwidth_bytes_per_s)
        roofline *= len(load.stages)
        itl = inter_token_seconds(
            roofline,
            efficiency=machine.efficiency,
            tp_overhead=machine.tp_overhead,
            tensor_parallel_size=load.tensor_parallel_size,
        )
    total = kv_bytes_per_sequence * users
    per_unit = min(wanted * layout.ranks_per_unit, users)
    units_for_kv = _units(total, kv_bytes_per_unit) if sequences_by_memory else None
    units_for_latency = units_for_work = _units(users, per_unit)
    asked, meets_slo = None, wanted > 0
    if prompts is not None and itl is not None and units_for_latency is not None:
        asked = prompts.tokens_per_s(users, itl)
        prefill = asked / (prompts.tokens_per_s_per_replica * layout.replicas_per_unit)
        units_for_work = ceil(users / per_unit + prefill)
        if units_for_work > max(units_for_latency, units_for_kv or 0):
            limited_by = "prefill"
        slo = prompts.ttft_slo_seconds
        if slo is not None and prompts.ttft_seconds > slo:
            limited_by, meets_slo = "ttft", False
    nodes = None
    units = _larger(units_for_kv, units_for_work)
    if units is not None and meets_slo:
        nodes = with_headroom(units, layout, spike_headroom=spike_headroom, spare_nodes=spare_nodes)
    return Plan(
        layout=layout,
        kv_bytes_per_sequence=kv_bytes_per_sequence,
        kv_bytes_total=total,
        kv_bytes_per_unit=kv_bytes_per_unit,
        sequences_by_memory=sequences_by_memory,
        sequences_per_rank=wanted,
        sequences_per_unit=per_unit,
        step_bytes_per_gpu=step_bytes,
        step_seconds=roofline,
        itl_seconds=itl,
        meets_slo=meets_slo,
        units_for_kv=units_for_kv,
        units_for_latency=units_for_latency,
        prompt_tokens_per_s=asked,
        units_for_work=units_for_work,
        nodes=nodes,
        limited_by=limited_by,
    )


def _ceiling(
    workload: Workload, layout: Layout, sequences_by_memory: int, kv_bytes_per_unit: int
) -> tuple[int, str]:
    """Sequences of one batch that memory, the engine and the users themselves allow, and which of
    the three is least."""
    if sequences_by_memory == 0:
        return 0, "weights" if kv_bytes_per_unit <= 0 else "memory"
    limits = [(sequences_by_memory, "memory")]
    if workload.max_num_seqs is not None:
        limits.append((workload.max_num_seqs, "max_num_seqs"))
    share = -(-workload.concurrent_users // layout.ranks_per_unit)
    limits.append((share, "concurrent_users"))
    return min(limits, key=lambda limit: limit[0])


def _units(amount: int, per_unit: int) -> int | None:
    """Whole units that hold the amount; None where a unit holds nothing."""
    if amount == 0:
        return 0
    return -(-amount // per_unit) if per_unit > 0 else None


def _larger(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else max(one, other)
