"""The prompts' share of a plan: users behind a request rate, and the compute that prefill takes.

A first-order model with its assumptions stated: a prompt token costs 2 FLOPs an active parameter
(Kaplan et al., arXiv:2001.08361, section 2.1), reached at a stated share of the dense peak.
"""

from dataclasses import dataclass
from math import ceil

from app.answers.deployment import Deployment
from app.answers.steps import n, step
from app.core.plan import Plan
from app.errors import InputError
from app.schemas.answer import Step
from app.schemas.plan import Prefill
from app.schemas.request import PlanQuery

_PEAK_NAMES = {"bfloat16": "bf16", "float16": "fp16", "float32": "tf32"}


@dataclass(frozen=True, kw_only=True, slots=True)
class PrefillNeed:
    """What prefill asks of a plan."""

    nodes: int
    meets_slo: bool
    shown: Prefill
    step: Step
    assumptions: tuple[str, ...]


def users_of(request: PlanQuery) -> tuple[int, int | None, tuple[str, ...]]:
    """Users decoding at once, the context of each, and what that takes for granted.

    Without `concurrent_users`, Little's law: arrivals per second x seconds a request decodes,
    at the inter-token latency promised.

    Raises:
        InputError: on `concurrent_users` where neither is given.
    """
    context = request.context
    notes: tuple[str, ...] = ()
    if context is None and request.input_tokens is not None and request.output_tokens is not None:
        context = request.input_tokens + request.output_tokens
        notes = ("context is input_tokens + output_tokens: every sequence at its longest",)
    if request.concurrent_users is not None:
        return request.concurrent_users, context, notes
    rate, output, slo = request.request_rate_per_s, request.output_tokens, request.itl_slo_ms
    if rate is None or output is None or slo is None:
        rule = "is needed, or request_rate_per_s with output_tokens and itl_slo_ms"
        raise InputError.of("concurrent_users", rule, type="missing")
    users = max(1, ceil(rate * output * slo / 1000))
    note = f"Little's law: {rate:g} requests/s x {output} tokens x {slo:g} ms = {users} at once"
    return users, context, (*notes, note)


def prefill_need(
    request: PlanQuery, deployment: Deployment, made: Plan, users: int
) -> PrefillNeed | None:
    """What the prompts need; None where the request says nothing of them.

    Raises:
        InputError: on `gpu` where its peak is not known.
    """
    prompt = request.input_tokens
    if prompt is None:
        if request.ttft_slo_ms is not None:
            raise InputError.of("input_tokens", "is needed for ttft_slo_ms", type="missing")
        return None
    peak = _peak(deployment)
    load, layout = deployment.load, made.layout
    flop_per_token = 2 * deployment.shape.parameters.active
    replica_rate = peak * load.gpus * request.prefill_efficiency / flop_per_token
    node_rate = replica_rate * layout.replicas_per_unit / layout.nodes_per_unit
    ttft_ms = prompt / replica_rate * 1000
    needed = _tokens_per_s(request, made, users, prompt)
    nodes = ceil(needed / node_rate) if needed else 0
    slo = request.ttft_slo_ms
    return PrefillNeed(
        nodes=nodes,
        meets_slo=slo is None or ttft_ms <= slo,
        shown=Prefill(
            prefill_tokens_per_s=needed,
            prefill_tokens_per_s_per_node=node_rate,
            ttft_ms=ttft_ms,
            nodes_for_prefill=nodes,
        ),
        step=step(
            "5. nodes_for_prefill",
            "prompt tokens per s / (peak x GPUs x efficiency / 2 FLOPs an active parameter)",
            f"{n(needed)} / ({n(peak)} x {load.gpus} x {request.prefill_efficiency:g}"
            f" / {n(flop_per_token)})",
            nodes,
            "nodes",
        ),
        assumptions=(
            f"prefill reaches {request.prefill_efficiency:g} of the dense peak and counts "
            "2 FLOPs a token and active parameter; attention's own FLOPs are left out",
            "ttft_ms is one prompt alone on a replica, without queueing",
        ),
    )


def _tokens_per_s(request: PlanQuery, made: Plan, users: int, prompt: int) -> float:
    if request.request_rate_per_s is not None:
        return request.request_rate_per_s * prompt
    if request.output_tokens is None:
        return 0.0
    return users / (request.output_tokens * made.itl_seconds) * prompt


def _peak(deployment: Deployment) -> int:
    gpu = deployment.gpu
    name = _PEAK_NAMES.get(deployment.shape.dtype.name, deployment.shape.dtype.name)
    peak = None if gpu is None else gpu.dense_peak(name)
    if peak is None:
        rule = f"has no known dense {name} peak, which prefill needs"
        raise InputError.of("gpu", rule, type="missing")
    return peak
