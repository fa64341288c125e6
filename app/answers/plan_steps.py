"""The six steps of a plan as a person would write them, every line with its numbers put in."""

from app.answers.kv import kv_steps
from app.answers.planned import Planned
from app.answers.prefill import flop_per_token, peak_of
from app.answers.room import EngineRoom
from app.answers.steps import n, rounded_up, step
from app.schemas.answer import Step
from app.schemas.request import PlanQuery


def plan_steps(request: PlanQuery, work: Planned) -> list[Step]:
    """All six, always. Sequences and bytes are of a unit: one node, or the nodes that a replica
    spans."""
    nodes = work.plan.layout.nodes_per_unit
    unit = "node" if nodes == 1 else f"{nodes} nodes"
    return [
        *_kv(work),
        *_nodes_for_kv(work, unit),
        *_latency(request, work, unit),
        *_throughput(request, work, unit),
        _headroom(request, work, unit),
    ]


def _kv(work: Planned) -> list[Step]:
    """Steps 1 and 2."""
    made, deployment = work.plan, work.deployment
    lines = kv_steps(deployment, work.workload.context)
    last = lines[-1]
    lines[-1] = last.model_copy(update={"name": "1. kv_bytes_per_sequence"})
    if made.kv_bytes_per_sequence != last.value:
        lines.append(
            step(
                "1. kv_bytes_per_sequence on its GPUs",
                "as the engine reserves it, or with the heads and latents that ranks repeat",
                _on_its_gpus(work),
                made.kv_bytes_per_sequence,
            )
        )
    lines.append(
        step(
            "2. kv_bytes_total",
            "concurrent_users x kv_bytes_per_sequence",
            f"{n(work.workload.concurrent_users)} x {n(made.kv_bytes_per_sequence)}",
            made.kv_bytes_total,
        )
    )
    return lines


def _on_its_gpus(work: Planned) -> str:
    """One sequence on each stage's GPU, and on as many GPUs as a stage has."""
    context, load = work.workload.context, work.deployment.load
    if isinstance(work.room, EngineRoom):
        plan = work.room.reserve(context).plan
        sizes = [plan.blocks(context) * block for block in plan.stage_block_bytes]
    else:
        sizes = [stage.profile.bytes_per_sequence(context) for stage in load.stages]
    return f"({' + '.join(map(n, sizes))}) x {load.tensor_parallel_size}"


def _nodes_for_kv(work: Planned, unit: str) -> list[Step]:
    """Step 3."""
    made, budgets = work.plan, work.room.budgets
    load, layout = work.deployment.load, made.layout
    copies = load.tensor_parallel_size * layout.ranks_per_unit
    shares = " + ".join(n(budget) for budget in budgets.per_stage)
    lines = [*budgets.steps(0)] if len(budgets.per_stage) == 1 else []
    lines.append(
        step(
            f"3. kv bytes per {unit}",
            "kv_budget_bytes of each GPU x GPUs",
            f"({shares}) x {copies}" if len(budgets.per_stage) > 1 else f"{shares} x {copies}",
            made.kv_bytes_per_unit,
        )
    )
    formula = f"kv_bytes_total / kv bytes per {unit}, rounded up"
    written = "not one sequence fits"
    if made.units_for_kv is not None:
        held = f"{n(made.kv_bytes_total)} / {n(made.kv_bytes_per_unit)}"
        written = rounded_up(held, layout.nodes_per_unit)
    lines.append(
        step("3. nodes_for_kv", formula, written, made.nodes_of(made.units_for_kv), "nodes")
    )
    return lines


def _latency(request: PlanQuery, work: Planned, unit: str) -> list[Step]:
    """Step 4."""
    made, load = work.plan, work.deployment.load
    ranks = made.layout.ranks_per_unit
    promised = "" if request.itl_slo_ms is None else f" within {request.itl_slo_ms:g} ms"
    users = work.workload.concurrent_users
    enough = f", of which {n(users)} users need {n(users)}"
    if made.sequences_per_rank * ranks <= users:
        enough = ""
    lines = [
        step(
            f"4. sequences per {unit}",
            "what memory, the engine and the users allow, lowered until the latency is met",
            f"memory holds {n(made.sequences_by_memory)} x {ranks}; {made.limited_by} leaves "
            f"{n(made.sequences_per_rank)} x {ranks}{promised}{enough}"
            if made.sequences_by_memory
            else f"{made.limited_by} leaves none",
            made.sequences_per_unit,
            "sequences",
        )
    ]
    if made.step_bytes_per_gpu is None or made.step_seconds is None or made.itl_seconds is None:
        return lines
    per_gpu = load.fullest_stage(work.workload.context).profile.bytes_per_sequence(
        work.workload.context
    )
    stages = len(load.stages)
    along = f" x {stages}" if stages > 1 else ""
    parallel = load.tensor_parallel_size > 1
    overhead = f" x (1 + {request.tp_overhead:g})" if parallel else ""
    lines += [
        step(
            "4. step_bytes_per_gpu",
            "weight_bytes_per_gpu + sequences x kv_bytes_per_sequence_per_gpu",
            f"{n(work.gpu_weight_bytes)} + {n(max(1, made.sequences_per_rank))} x {n(per_gpu)}",
            made.step_bytes_per_gpu,
        ),
        step(
            "4. step_ms",
            "step_bytes_per_gpu / memory_bandwidth"
            + (" x pipeline stages" if along else "")
            + " x 1,000",
            f"{n(made.step_bytes_per_gpu)} / {n(work.machine.memory_bandwidth_bytes_per_s)}{along}"
            " x 1,000",
            made.step_seconds * 1000,
            "ms",
        ),
        step(
            "4. itl_ms",
            "step_ms x (1 + tp_overhead) / efficiency" if parallel else "step_ms / efficiency",
            f"{n(made.step_seconds * 1000)}{overhead} / {request.efficiency:g}",
            made.itl_seconds * 1000,
            "ms",
        ),
        step(
            "4. nodes_for_latency",
            f"concurrent_users / sequences per {unit}, rounded up",
            rounded_up(
                f"{n(work.workload.concurrent_users)} / {n(made.sequences_per_unit)}",
                made.layout.nodes_per_unit,
            )
            if made.sequences_per_unit
            else "not one sequence meets the latency",
            made.nodes_of(made.units_for_latency),
            "nodes",
        ),
    ]
    return lines


def _throughput(request: PlanQuery, work: Planned, unit: str) -> list[Step]:
    """Step 5, and the prompts' share of the time."""
    made = work.plan
    if made.itl_seconds is None or made.units is None:
        formula = "units x sequences / itl"
        return [step("5. tokens_per_s", formula, "no node serves any", 0.0, "tokens per s")]
    lines = []
    if work.prompts is not None and made.prompt_tokens_per_s is not None:
        gpus = made.layout.gpus_used
        lines.append(
            step(
                f"5. prefill, in units of {unit}",
                "prompt tokens per s x FLOPs a token / (peak x GPUs x prefill_efficiency)",
                f"{n(made.prompt_tokens_per_s)} x {n(flop_per_token(work.deployment))} / "
                f"({n(peak_of(work.deployment))} x {gpus} x {request.prefill_efficiency:g})",
                made.prompt_tokens_per_s
                / (work.prompts.tokens_per_s_per_replica * made.layout.replicas_per_unit),
                "units",
            )
        )
        lines.append(
            step(
                "5. nodes for both",
                "decode and prefill share the time: their units add up, rounded up",
                rounded_up(
                    f"{n(work.workload.concurrent_users)} / {n(made.sequences_per_unit)} + "
                    f"{n(lines[-1].value or 0)}",
                    made.layout.nodes_per_unit,
                ),
                made.nodes_of(made.units_for_work),
                "nodes",
            )
        )
    lines.append(
        step(
            "5. tokens_per_s",
            f"units of {unit} x sequences / itl",
            f"{n(made.units)} x {n(made.sequences_per_unit)} / {n(made.itl_seconds)}",
            made.tokens_per_s_per_unit * made.units,
            "tokens per s",
        )
    )
    return lines


def _headroom(request: PlanQuery, work: Planned, unit: str) -> Step:
    """Step 6."""
    made, nodes = work.plan, work.plan.layout.nodes_per_unit
    written = "no number of nodes serves this workload"
    if made.nodes is not None:
        along = f" x {nodes}" if nodes > 1 else ""
        written = (
            f"ceil({n(made.units or 0)} x (1 + {request.spike_headroom:g})){along}"
            f" + {request.spare_nodes}"
        )
    return step(
        "6. nodes",
        f"units of {unit} x (1 + spike_headroom), rounded up, + spare_nodes",
        written,
        made.nodes,
        "nodes",
    )
