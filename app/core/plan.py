"""The capacity plan of the text's section 8: from a workload to machines, in six steps.

1. KV per sequence. 2. KV of all users. 3. Nodes that hold it. 4. The decode step at that load
against the inter-token SLO; sequences per node are lowered until it is met. 5. Throughput.
6. Headroom for spikes and spare nodes.
"""

from dataclasses import dataclass
from fractions import Fraction
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
    """A node: its GPUs (all alike) and what they reach in practice."""

    gpus_per_node: int
    gpu_memory_bytes: int
    memory_bandwidth_bytes_per_s: int
    efficiency: float = DEFAULT_EFFICIENCY
    tp_overhead: float = DEFAULT_TP_OVERHEAD


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """How replicas sit on nodes: several on one, or one over several."""

    gpus_per_replica: int
    replicas_per_unit: int
    nodes_per_unit: int

    @property
    def gpus_used(self) -> int:
        """GPUs of a unit that work."""
        return self.gpus_per_replica * self.replicas_per_unit


def layout_on_nodes(gpus_per_replica: int, gpus_per_node: int) -> Layout:
    """Whole replicas on a node while they fit; beyond, a replica takes whole nodes."""
    if gpus_per_replica <= gpus_per_node:
        return Layout(
            gpus_per_replica=gpus_per_replica,
            replicas_per_unit=gpus_per_node // gpus_per_replica,
            nodes_per_unit=1,
        )
    return Layout(
        gpus_per_replica=gpus_per_replica,
        replicas_per_unit=1,
        nodes_per_unit=-(-gpus_per_replica // gpus_per_node),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """The answer. Bytes and sequences "per unit" are those of the nodes a replica layout repeats
    over: one node, but where a replica spans several. `nodes` is None where no number of nodes
    serves the workload (`limited_by` says why)."""

    layout: Layout
    kv_bytes_per_sequence: int
    kv_bytes_total: int
    kv_bytes_per_unit: int
    sequences_by_memory: int
    sequences_per_unit: int
    step_bytes_per_gpu: int
    step_seconds: float
    itl_seconds: float
    meets_slo: bool
    units_for_kv: int | None
    units_for_latency: int | None
    nodes: int | None
    limited_by: str
    tokens_per_s_per_unit: float

    @property
    def nodes_for_kv(self) -> int | None:
        """Nodes that hold every user's cache, before headroom."""
        return self._nodes(self.units_for_kv)

    @property
    def nodes_for_latency(self) -> int | None:
        """Nodes at the sequences per node that meet the SLO, before headroom."""
        return self._nodes(self.units_for_latency)

    @property
    def nodes_before_headroom(self) -> int | None:
        """The larger of the two."""
        if self.nodes_for_kv is None or self.nodes_for_latency is None:
            return None
        return max(self.nodes_for_kv, self.nodes_for_latency)

    @property
    def tokens_per_s(self) -> float:
        """Tokens per second of all nodes before headroom."""
        units = self.units_for_latency or 0
        return self.tokens_per_s_per_unit * max(units, self.units_for_kv or 0)

    def _nodes(self, units: int | None) -> int | None:
        return None if units is None else units * self.layout.nodes_per_unit


def with_headroom(nodes: int, *, spike_headroom: float, spare_nodes: int) -> int:
    """Step 6: ceil(nodes x (1 + headroom) + spare), in the decimals the caller wrote."""
    return ceil(nodes * (1 + decimal(spike_headroom)) + spare_nodes)


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
    kv_bytes_per_unit: int,
    kv_bytes_per_sequence: int,
    sequences_by_memory: int,
    spike_headroom: float = DEFAULT_SPIKE_HEADROOM,
    spare_nodes: int = DEFAULT_SPARE_NODES,
) -> Plan:
    """Work out the six steps.

    `weights` are what a step reads on one GPU; `kv_bytes_per_unit` what the nodes of one layout
    unit leave for the cache; `sequences_by_memory` how many whole sequences one replica holds.
    """
    layout = layout_on_nodes(load.gpus, machine.gpus_per_node)
    context = workload.context
    stage = load.fullest_stage(context)
    total = kv_bytes_per_sequence * workload.concurrent_users

    ceiling = min(sequences_by_memory, workload.max_num_seqs or sequences_by_memory)
    ceiling = min(ceiling, ceil(Fraction(workload.concurrent_users, layout.replicas_per_unit)))
    wanted, limited_by = ceiling, "memory"
    if sequences_by_memory == 0:
        limited_by = "weights" if kv_bytes_per_unit <= 0 else "memory"
    elif workload.max_num_seqs is not None and workload.max_num_seqs < sequences_by_memory:
        limited_by = "max_num_seqs"
    if workload.itl_slo_seconds is not None and ceiling:
        wanted = sequences_within_latency(
            stage=stage,
            weights=weights,
            context=context,
            at_most=ceiling,
            # The stages of a pipeline read one after another: each gets its part of the time.
            step_bytes=step_bytes_within(
                workload.itl_slo_seconds,
                machine.memory_bandwidth_bytes_per_s,
                efficiency=machine.efficiency,
                tp_overhead=machine.tp_overhead,
                tensor_parallel_size=load.tensor_parallel_size,
            )
            // len(load.stages),
        )
        if wanted < ceiling:
            limited_by = "latency"
    shown = max(1, wanted)
    step_bytes = decode_bytes_per_step(
        weights.bytes_for(shown), stage.profile.bytes_per_sequence(context), shown
    )
    roofline = step_seconds(step_bytes, machine.memory_bandwidth_bytes_per_s) * len(load.stages)
    itl = inter_token_seconds(
        roofline,
        efficiency=machine.efficiency,
        tp_overhead=machine.tp_overhead,
        tensor_parallel_size=load.tensor_parallel_size,
    )
    per_unit = min(wanted * layout.replicas_per_unit, workload.concurrent_users)
    units_for_kv = _units(total, kv_bytes_per_unit) if sequences_by_memory else None
    units_for_latency = _units(workload.concurrent_users, per_unit)
    units = (
        None
        if units_for_kv is None or units_for_latency is None
        else max(units_for_kv, units_for_latency)
    )
    nodes = None
    if units is not None:
        nodes = with_headroom(
            units * layout.nodes_per_unit, spike_headroom=spike_headroom, spare_nodes=spare_nodes
        )
    return Plan(
        layout=layout,
        kv_bytes_per_sequence=kv_bytes_per_sequence,
        kv_bytes_total=total,
        kv_bytes_per_unit=kv_bytes_per_unit,
        sequences_by_memory=sequences_by_memory,
        sequences_per_unit=per_unit,
        step_bytes_per_gpu=step_bytes,
        step_seconds=roofline,
        itl_seconds=itl,
        meets_slo=wanted > 0,
        units_for_kv=units_for_kv,
        units_for_latency=units_for_latency,
        nodes=nodes,
        limited_by=limited_by,
        tokens_per_s_per_unit=per_unit / itl if per_unit else 0.0,
    )


def _units(amount: int, per_unit: int) -> int | None:
    """Whole units that hold the amount; None where a unit holds nothing."""
    if amount == 0:
        return 0
    return -(-amount // per_unit) if per_unit > 0 else None
