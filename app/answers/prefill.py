"""The prompts' share of a plan: users behind a request rate, and how fast a replica prefills.

A first-order model with its assumptions stated: a prompt token costs 2 FLOPs an active parameter
(Kaplan et al., arXiv:2001.08361, section 2.1), reached at a stated share of the dense peak.
"""

from fractions import Fraction
from math import ceil

from app.answers.deployment import Deployment
from app.core.plan import Prompts
from app.errors import InputError
from app.schemas.request import PlanQuery

_PEAK_NAMES = {"bfloat16": "bf16", "float16": "fp16", "float32": "tf32"}


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


def prompts_of(request: PlanQuery, deployment: Deployment, gpus: Fraction) -> Prompts | None:
    """The prompts of a workload on replicas of `gpus` GPUs, which they may share; None where the request names none.

    Raises:
        InputError: on `gpu` where its peak is not known, on `input_tokens` where a promise needs
            them.
    """
    if request.input_tokens is None:
        if request.ttft_slo_ms is not None:
            raise InputError.of("input_tokens", "is needed for ttft_slo_ms", type="missing")
        return None
    speed = peak_of(deployment) * gpus * request.prefill_efficiency
    return Prompts(
        input_tokens=request.input_tokens,
        tokens_per_s_per_replica=speed / flop_per_token(deployment),
        request_rate_per_s=request.request_rate_per_s,
        output_tokens=request.output_tokens,
        ttft_slo_seconds=None if request.ttft_slo_ms is None else request.ttft_slo_ms / 1000,
    )


def flop_per_token(deployment: Deployment) -> int:
    """FLOPs of one prompt token: 2 an active parameter."""
    return 2 * deployment.shape.parameters.active


def peak_of(deployment: Deployment) -> int:
    """Dense FLOP/s of one GPU in the model's precision.

    Raises:
        InputError: on `gpu` where it is not known.
    """
    gpu, dtype = deployment.gpu, deployment.layout.model_dtype.name
    name = _PEAK_NAMES.get(dtype, dtype)
    peak = None if gpu is None else gpu.dense_peak(name)
    if peak is None:
        rule = f"has no known dense {name} peak, which prefill needs"
        raise InputError.of("gpu", rule, type="missing")
    return peak


def prefill_assumptions(request: PlanQuery) -> tuple[str, ...]:
    """What the prefill figures rest on."""
    notes = [
        f"prefill reaches {request.prefill_efficiency:g} of the dense peak and counts 2 FLOPs a "
        "token and active parameter; attention's own FLOPs are left out",
        "prefill and decode share the GPUs' time: the nodes that each would need alone add up",
        "ttft_ms is one prompt alone on a replica, without queueing",
    ]
    if request.request_rate_per_s is None and request.output_tokens is not None:
        notes.append("every user asks again as soon as an answer of output_tokens is through")
    return tuple(notes)
