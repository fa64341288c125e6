"""`/plan`: the six steps of the text's section 8, and what else would serve the workload."""

from dataclasses import dataclass
from math import ceil

from app.answers.alternatives import alternatives
from app.answers.budgets import Budgets
from app.answers.deployment import Deployment, gpu_ref, longest, model_ref, step_weights_of
from app.answers.kv import kv_steps
from app.answers.prefill import PrefillNeed, prefill_need, users_of
from app.answers.room import EngineRoom, Fit, Room, room_of
from app.answers.steps import n, step
from app.core.decode import inter_token_seconds
from app.core.plan import Layout, Machine, Plan, Workload, layout_on_nodes, plan, with_headroom
from app.errors import InputError
from app.resolve.gpu import ResolvedGpu, bandwidth_of
from app.resolve.model import ResolvedModel
from app.schemas.answer import Step
from app.schemas.plan import PlanAnswer
from app.schemas.request import PlanQuery


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class Planned:
    """A plan and what it was made from."""

    room: Room
    workload: Workload
    machine: Machine
    plan: Plan
    gpu_weight_bytes: int
    assumptions: tuple[str, ...]

    @property
    def deployment(self) -> Deployment:
        """The model on its GPUs."""
        return self.room.deployment

    @property
    def budgets(self) -> Budgets:
        """What each GPU leaves for the cache."""
        return self.room.budgets


def planned(request: PlanQuery, model: ResolvedModel, gpu: ResolvedGpu | None) -> Planned:
    """Work out the plan of a request.

    Raises:
        InputError: on what can't be deployed, or is missing.
    """
    if gpu is None:
        raise InputError.of("gpu", "is needed: a plan counts machines", type="missing")
    users, context, notes = users_of(request)
    context, beyond = longest(model.shape, context)
    overhead = None
    if request.node_overhead_bytes is not None:
        overhead = ceil(request.node_overhead_bytes / request.gpus_per_node)
    room = room_of(request, model, gpu, context, node_overhead_per_gpu=overhead)
    deployment, load = room.deployment, room.deployment.load
    layout = layout_on_nodes(load.gpus, request.gpus_per_node)
    here = room.at(context)
    machine = Machine(
        gpus_per_node=request.gpus_per_node,
        gpu_memory_bytes=gpu.gpu.memory_bytes,
        memory_bandwidth_bytes_per_s=bandwidth_of(gpu.gpu),
        efficiency=request.efficiency,
        tp_overhead=request.tp_overhead,
    )
    workload = Workload(
        concurrent_users=users,
        context=context,
        itl_slo_seconds=None if request.itl_slo_ms is None else request.itl_slo_ms / 1000,
        max_num_seqs=here.ceiling,
    )
    weights = step_weights_of(deployment, request.weight_bytes)
    made = plan(
        load,
        weights,
        workload,
        machine,
        kv_bytes_per_unit=_unit_budget(request, deployment, room.budgets, layout),
        kv_bytes_per_sequence=_replica_bytes(room, context),
        sequences_by_memory=_by_memory(here, users),
        spike_headroom=request.spike_headroom,
        spare_nodes=request.spare_nodes,
    )
    idle = request.gpus_per_node * layout.nodes_per_unit - layout.gpus_used
    if idle:
        notes = (*notes, f"{idle} of the GPUs of a node stay idle: replicas take {load.gpus}")
    shown = max(1, made.sequences_per_unit // layout.replicas_per_unit)
    return Planned(
        room=room,
        workload=workload,
        machine=machine,
        plan=made,
        gpu_weight_bytes=weights.bytes_for(shown),
        assumptions=(*deployment.assumptions, *notes, *beyond, *room.budgets.assumptions),
    )


def _replica_bytes(room: Room, context: int) -> int:
    if isinstance(room, EngineRoom):
        return room.reserve(context).replica_bytes(context)
    return room.deployment.load.replica_bytes_per_sequence(context)


def _by_memory(fit: Fit, users: int) -> int:
    if not fit.fits:
        return 0
    return users if fit.by_memory is None else fit.by_memory


def _unit_budget(
    request: PlanQuery, deployment: Deployment, budgets: Budgets, layout: Layout
) -> int:
    """What the nodes of one layout unit leave for the cache, all GPUs together."""
    load = deployment.load
    if not budgets.parts or request.engine != "formula":
        per_replica = sum(budgets.per_stage) * load.tensor_parallel_size
        return per_replica * layout.replicas_per_unit
    weights = request.weight_bytes or load.gpu_weight_bytes
    spent = sum(part.activation_bytes + part.overhead_bytes for part in budgets.parts)
    overhead = spent * load.tensor_parallel_size * layout.replicas_per_unit
    if request.node_overhead_bytes is not None:
        overhead = request.node_overhead_bytes * layout.nodes_per_unit
    memory = budgets.parts[0].gpu_memory_bytes * layout.gpus_used
    return memory - weights * layout.replicas_per_unit - overhead


def plan_answer(request: PlanQuery, model: ResolvedModel, gpu: ResolvedGpu | None) -> PlanAnswer:
    """The machines a workload needs.

    Raises:
        InputError: on what can't be deployed, or is missing.
    """
    work = planned(request, model, gpu)
    made, deployment = work.plan, work.deployment
    need = prefill_need(request, deployment, made, work.workload.concurrent_users)
    nodes, limited_by, meets = made.nodes, made.limited_by, made.meets_slo
    if need is not None:
        meets = meets and need.meets_slo
        if not need.meets_slo:
            limited_by = "ttft"
        if made.nodes_before_headroom is not None and need.nodes > made.nodes_before_headroom:
            limited_by = "prefill"
            nodes = with_headroom(
                need.nodes,
                spike_headroom=request.spike_headroom,
                spare_nodes=request.spare_nodes,
            )
    layout = made.layout
    units = None if nodes is None else nodes // layout.nodes_per_unit
    per_replica = -(-made.sequences_per_unit // layout.replicas_per_unit)
    return PlanAnswer.model_validate(
        {
            "model": model_ref(model),
            "gpu": gpu_ref(deployment.gpu),
            "assumptions": [
                *work.assumptions,
                *_assumptions(request, deployment),
                *(() if need is None else need.assumptions),
            ],
            "kv_cache_dtype": deployment.layout.attention_dtype.name,
            "concurrent_users": work.workload.concurrent_users,
            "context": work.workload.context,
            "nodes": nodes,
            "gpus": None if nodes is None else nodes * request.gpus_per_node,
            "nodes_for_kv": made.nodes_for_kv,
            "nodes_for_latency": made.nodes_for_latency,
            "replicas": None if units is None else units * layout.replicas_per_unit,
            "gpus_per_replica": layout.gpus_per_replica,
            "sequences_per_node": made.sequences_per_unit // layout.nodes_per_unit,
            "sequences_per_replica": per_replica,
            "weight_bytes": deployment.load.weight_bytes,
            "kv_bytes_per_sequence": made.kv_bytes_per_sequence,
            "kv_bytes_total": made.kv_bytes_total,
            "kv_budget_band_bytes": work.room.budgets.band(0),
            "kv_bytes_per_node": max(0, made.kv_bytes_per_unit) // layout.nodes_per_unit,
            "step_bytes_per_gpu": made.step_bytes_per_gpu,
            "step_ms": made.step_seconds * 1000,
            "itl_ms": made.itl_seconds * 1000,
            "meets_slo": meets,
            "tokens_per_s_per_node": made.tokens_per_s_per_unit / layout.nodes_per_unit,
            "tokens_per_s": made.tokens_per_s,
            "limited_by": limited_by,
            "prefill": None if need is None else need.shown,
            "steps": _steps(request, work, need, nodes),
            "alternatives": alternatives(request, model, _nodes_of, deployment.gpu),
        }
    )


def _nodes_of(request: PlanQuery, model: ResolvedModel, gpu: ResolvedGpu) -> Plan:
    return planned(request, model, gpu).plan


def _assumptions(request: PlanQuery, deployment: Deployment) -> list[str]:
    notes = [f"decode reaches {request.efficiency:g} of the memory roofline"]
    if deployment.load.tensor_parallel_size > 1:
        notes.append(f"tensor parallelism adds {request.tp_overhead:g} to a step")
    if len(deployment.load.stages) > 1:
        notes.append("a step passes the pipeline's stages one after another, unoverlapped")
    notes.append(
        f"{request.spike_headroom:g} spike headroom and {request.spare_nodes} spare node(s)"
    )
    if request.itl_slo_ms is None:
        notes.append("no itl_slo_ms given: latency limits nothing")
    return notes


def _steps(
    request: PlanQuery, work: Planned, need: PrefillNeed | None, nodes: int | None
) -> list[Step]:
    """The six steps, each with its numbers put in."""
    made, load = work.plan, work.deployment.load
    per_gpu = load.fullest_stage(work.workload.context).profile.bytes_per_sequence(
        work.workload.context
    )
    sequences = made.sequences_per_unit
    per_replica = -(-sequences // made.layout.replicas_per_unit)
    lines = kv_steps(work.deployment, work.workload.context)
    lines[-1] = lines[-1].model_copy(update={"name": "1. kv_bytes_per_sequence"})
    lines += [
        step(
            "2. kv_bytes_total",
            "concurrent_users x kv_bytes_per_sequence",
            f"{n(work.workload.concurrent_users)} x {n(made.kv_bytes_per_sequence)}",
            made.kv_bytes_total,
        ),
        _budget_step(request, work),
        step(
            "3. nodes_for_kv",
            "kv_bytes_total / kv_bytes_per_node, rounded up",
            f"{n(made.kv_bytes_total)} / {n(made.kv_bytes_per_unit // made.layout.nodes_per_unit)}",
            made.nodes_for_kv or 0,
            "nodes",
        ),
        step(
            "4. sequences_per_node",
            "what memory holds, lowered until the inter-token latency is met",
            f"memory holds {n(made.sequences_by_memory * made.layout.replicas_per_unit)}; "
            f"limited by {made.limited_by}",
            sequences,
            "sequences",
        ),
        step(
            "4. step_bytes_per_gpu",
            "weight_bytes_per_gpu + sequences x kv_bytes_per_sequence_per_gpu",
            f"{n(work.gpu_weight_bytes)} + {n(max(1, per_replica))} x {n(per_gpu)}",
            made.step_bytes_per_gpu,
        ),
        step(
            "4. step_ms",
            "step_bytes_per_gpu / memory_bandwidth"
            + (" x pipeline stages" if len(load.stages) > 1 else ""),
            f"{n(made.step_bytes_per_gpu)} / {n(work.machine.memory_bandwidth_bytes_per_s)}"
            + (f" x {len(load.stages)}" if len(load.stages) > 1 else ""),
            made.step_seconds * 1000,
            "ms",
        ),
        _latency_step(request, work),
        step(
            "5. tokens_per_s",
            "nodes before headroom x sequences_per_node / itl",
            f"{n(made.nodes_before_headroom or 0)} x {n(sequences)} / {n(made.itl_seconds)}",
            made.tokens_per_s,
            "tokens per s",
        ),
    ]
    before = made.nodes_before_headroom
    if need is not None:
        lines.append(need.step)
        before = None if before is None else max(before, need.nodes)
    lines.append(
        step(
            "6. nodes",
            "nodes x (1 + spike_headroom) + spare_nodes, rounded up",
            f"{n(before or 0)} x (1 + {request.spike_headroom:g}) + {request.spare_nodes}"
            if nodes is not None
            else "no number of nodes serves this workload",
            nodes or 0,
            "nodes",
        )
    )
    return lines


def _budget_step(request: PlanQuery, work: Planned) -> Step:
    made, load, layout = work.plan, work.deployment.load, work.plan.layout
    if not work.budgets.parts:
        return step(
            "3. kv_bytes_per_node",
            "kv_budget_bytes x GPUs",
            f"{n(request.kv_budget_bytes or 0)} x {layout.gpus_used}",
            made.kv_bytes_per_unit // layout.nodes_per_unit,
        )
    weights = (request.weight_bytes or load.gpu_weight_bytes) * layout.replicas_per_unit
    memory = work.budgets.parts[0].gpu_memory_bytes * layout.gpus_used
    return step(
        "3. kv_bytes_per_node",
        "GPU memory of the node - weights on it - overhead and activations",
        f"{n(memory)} - {n(weights)} - {n(memory - weights - made.kv_bytes_per_unit)}"
        + (f", over {layout.nodes_per_unit} nodes" if layout.nodes_per_unit > 1 else ""),
        made.kv_bytes_per_unit // layout.nodes_per_unit,
    )


def _latency_step(request: PlanQuery, work: Planned) -> Step:
    parallel = work.deployment.load.tensor_parallel_size > 1
    slo = "" if request.itl_slo_ms is None else f"; SLO {request.itl_slo_ms:g} ms"
    written = f"{n(work.plan.step_seconds * 1000)}"
    if parallel:
        written += f" x (1 + {request.tp_overhead:g})"
    expected = inter_token_seconds(
        work.plan.step_seconds,
        efficiency=request.efficiency,
        tp_overhead=request.tp_overhead,
        tensor_parallel_size=work.deployment.load.tensor_parallel_size,
    )
    return step(
        "4. itl_ms",
        "step_ms x (1 + tp_overhead) / efficiency" if parallel else "step_ms / efficiency",
        f"{written} / {request.efficiency:g}{slo}",
        expected * 1000,
        "ms",
    )
