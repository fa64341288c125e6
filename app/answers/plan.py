"""`/plan`: the six steps of the text's section 8, and what else would serve the workload."""

from app.answers.alternatives import alternatives
from app.answers.plan_steps import plan_steps
from app.answers.planned import Planned, planned
from app.answers.prefill import prefill_assumptions
from app.answers.rows import gpu_ref
from app.core.plan import Plan
from app.resolve.gpu import ResolvedGpu
from app.resolve.model import ResolvedModel
from app.schemas.plan import PlanAnswer, Prefill
from app.schemas.request import PlanQuery


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
