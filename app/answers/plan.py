"""`/plan`: the six steps of the text's section 8, and what else would serve the workload."""

from dataclasses import dataclass
from fractions import Fraction

from app.answers.alternatives import alternatives
from app.answers.concurrency import doubts
from app.answers.deployment import Deployment, contexts_asked, engine_length
from app.answers.engine import version_notes
from app.answers.plan_steps import plan_steps
from app.answers.prefill import prefill_assumptions, prompts_of, users_of
from app.answers.room import EngineRoom, Fit, Room, room_of
from app.answers.rows import gpu_ref
from app.core.plan import Layout, Machine, Plan, Prompts, Workload, layout_on_nodes, plan
from app.errors import InputError
from app.resolve.gpu import ResolvedGpu, bandwidth_of
from app.resolve.model import ResolvedModel
from app.schemas.plan import PlanAnswer, Prefill
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
            *_of_engine(request, room, here),
        ),
    )


def _of_engine(request: PlanQuery, room: Room, here: Fit) -> tuple[str, ...]:
    """What an engine's answer rests on, and what to know before it is started."""
    known: tuple[str, ...] = ()
    if isinstance(room, EngineRoom):
        known = (*version_notes(request), *room.reserve(here.context).plan.assumptions)
    return (*known, *doubts(here, room.budgets.band(here.stage)))


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


def plan_answer(request: PlanQuery, model: ResolvedModel, gpu: ResolvedGpu | None) -> PlanAnswer:
    """The machines a workload needs.

    Raises:
        InputError: on what can't be deployed, or is missing.
    """
    work = planned(request, model, gpu)
    made, deployment, layout = work.plan, work.deployment, work.plan.layout
    units = None if made.nodes is None else made.nodes // layout.nodes_per_unit
    return PlanAnswer.model_validate(
        {
            "model": deployment.placed.model_ref,
            "gpu": gpu_ref(deployment.gpu),
            "assumptions": [*work.assumptions, *_assumptions(request, work)],
            "kv_cache_dtype": deployment.layout.attention_dtype.name,
            "concurrent_users": work.workload.concurrent_users,
            "context": work.workload.context,
            "nodes": made.nodes,
            "gpus": None if made.nodes is None else made.nodes * request.gpus_per_node,
            "nodes_for_kv": made.nodes_of(made.units_for_kv),
            "nodes_for_latency": made.nodes_of(made.units_for_latency),
            "replicas": None if units is None else units * layout.replicas_per_unit,
            "gpus_per_replica": layout.gpus_per_replica,
            "sequences_per_node": made.sequences_per_unit // layout.nodes_per_unit,
            "sequences_per_replica": made.sequences_per_rank * layout.ranks_per_replica,
            "weight_bytes": deployment.load.weight_bytes,
            "kv_bytes_per_sequence": made.kv_bytes_per_sequence,
            "kv_bytes_total": made.kv_bytes_total,
            "kv_budget_band_bytes": work.room.budgets.band(0),
            "kv_bytes_per_node": max(0, made.kv_bytes_per_unit) // layout.nodes_per_unit,
            "step_bytes_per_gpu": made.step_bytes_per_gpu,
            "step_ms": _ms(made.step_seconds),
            "itl_ms": _ms(made.itl_seconds),
            "meets_slo": made.meets_slo,
            "tokens_per_s_per_node": made.tokens_per_s_per_unit / layout.nodes_per_unit,
            "tokens_per_s": made.tokens_per_s_per_unit * (made.units or 0),
            "limited_by": made.limited_by,
            "prefill": _prefill(work),
            "steps": plan_steps(request, work),
            "alternatives": alternatives(request, model, _plan_of, deployment.gpu),
        }
    )


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000


def _plan_of(request: PlanQuery, model: ResolvedModel, gpu: ResolvedGpu) -> Plan:
    return planned(request, model, gpu).plan


def _prefill(work: Planned) -> Prefill | None:
    prompts, made, layout = work.prompts, work.plan, work.plan.layout
    if prompts is None:
        return None
    speed = prompts.tokens_per_s_per_replica * layout.replicas_per_unit
    asked = made.prompt_tokens_per_s
    return Prefill(
        prefill_tokens_per_s=asked,
        prefill_tokens_per_s_per_node=speed / layout.nodes_per_unit,
        ttft_ms=prompts.ttft_seconds * 1000,
        nodes_for_prefill=None if asked is None else asked / speed * layout.nodes_per_unit,
    )


def _assumptions(request: PlanQuery, work: Planned) -> list[str]:
    deployment = work.deployment
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
    if work.prompts is not None:
        notes += prefill_assumptions(request)
    return notes
