"""A workload's plan, worked out of a request, and all that it was made from."""

from dataclasses import dataclass, replace
from fractions import Fraction

from app.answers.deployment import Deployment, contexts_asked, engine_length
from app.answers.prefill import prompts_of, users_of
from app.answers.room import EngineRoom, Fit, Room, before_start, room_of
from app.core.plan import Layout, Machine, Plan, Prompts, Workload, layout_on_nodes, plan
from app.errors import InputError
from app.resolve.gpu import ResolvedGpu, bandwidth_of
from app.resolve.model import ResolvedModel
from app.schemas.request import PlanQuery


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class Planned:
    """A plan and what it was made from. `gpu_weight_bytes` are those a step reads on one GPU."""

    room: Room
    workload: Workload
    machine: Machine
    prompts: Prompts | None
    plan: Plan
    gpu_weight_bytes: int
    assumptions: tuple[str, ...]

    @property
    def deployment(self) -> Deployment:
        """The model on its GPUs."""
        return self.room.deployment


def planned(request: PlanQuery, model: ResolvedModel, gpu: ResolvedGpu | None) -> Planned:
    """Work out the plan of a request.

    Raises:
        InputError: on what can't be deployed, or is missing.
    """
    if gpu is None:
        raise InputError.of("gpu", "is needed: a plan counts machines", type="missing")
    users, wanted, notes = users_of(request)
    context, beyond = contexts_asked(model.shape, wanted, [], engine_length(request))
    layout = _layout(request)
    room = room_of(request, model, gpu, context, node_overhead_per_gpu=_overhead(request, layout))
    deployment, load = room.deployment, room.deployment.load
    here = room.at(context)
    machine = Machine(
        gpus_per_node=request.gpus_per_node,
        memory_bandwidth_bytes_per_s=bandwidth_of(gpu.gpu) // layout.instances_per_gpu,
        efficiency=request.efficiency,
        tp_overhead=request.tp_overhead,
    )
    workload = Workload(
        concurrent_users=users,
        context=context,
        itl_slo_seconds=None if request.itl_slo_ms is None else request.itl_slo_ms / 1000,
        max_num_seqs=here.ceiling,
    )
    weights = deployment.placed.gpu_step_weights
    share = Fraction(layout.gpus_per_replica, layout.instances_per_gpu)
    prompts = prompts_of(request, deployment, share)
    budget = sum(room.budgets.per_stage) * load.tensor_parallel_size
    made = plan(
        load,
        weights,
        workload,
        machine,
        layout=layout,
        kv_bytes_per_unit=budget * layout.ranks_per_unit,
        kv_bytes_per_sequence=_held_bytes(room, context),
        sequences_by_memory=_by_memory(here, users),
        prompts=prompts,
        spike_headroom=request.spike_headroom,
        spare_nodes=request.spare_nodes,
    )
    if not here.fits:
        made = replace(made, limited_by=here.limited_by(model.shape.longest_context))
    return Planned(
        room=room,
        workload=workload,
        machine=machine,
        prompts=prompts,
        plan=made,
        gpu_weight_bytes=weights.bytes_for(max(1, made.sequences_per_rank)),
        assumptions=(
            *deployment.assumptions,
            *notes,
            *beyond,
            *_idle(request, layout),
            *room.budgets.assumptions,
            *before_start(room, here),
        ),
    )


def _layout(request: PlanQuery) -> Layout:
    """Ranks that share one set of experts stand together; others are replicas of their own."""
    together = 1
    expert_ranks = request.expert_parallel_size or 1
    if request.enable_expert_parallel or expert_ranks > request.tensor_parallel_size:
        together = request.data_parallel_size
    gpus = request.tensor_parallel_size * request.pipeline_parallel_size * together
    return layout_on_nodes(
        gpus,
        request.gpus_per_node,
        ranks_per_replica=together,
        instances_per_gpu=request.instances_per_gpu if request.engine == "vllm" else 1,
    )


def _overhead(request: PlanQuery, layout: Layout) -> int | None:
    if request.node_overhead_bytes is None:
        return None
    if request.engine != "formula":
        rule = "goes with engine=formula: an engine's own overhead is worked out"
        raise InputError.of("node_overhead_bytes", rule)
    return -(-request.node_overhead_bytes * layout.nodes_per_unit // layout.gpus_used)


def _idle(request: PlanQuery, layout: Layout) -> list[str]:
    idle = request.gpus_per_node * layout.nodes_per_unit - layout.gpus_used
    if not idle:
        return []
    return [f"{idle} GPUs stay idle beside replicas of {layout.gpus_per_replica}"]


def _held_bytes(room: Room, context: int) -> int:
    """Bytes of one sequence on all GPUs of the rank that holds it."""
    if isinstance(room, EngineRoom):
        return room.reserve(context).replica_bytes(context)
    return room.deployment.load.replica_bytes_per_sequence(context)


def _by_memory(fit: Fit, users: int) -> int:
    if not fit.fits:
        return 0
    return users if fit.by_memory is None else fit.by_memory
