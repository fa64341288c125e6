"""What an engine makes of a request: the cache as it lays it out, and what it reserves."""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import lcm

from app.answers.deployment import Deployment
from app.answers.remembering import KEPT, remembering
from app.answers.steps import n, step
from app.core.engines.vllm import VERSION, VllmArguments, VllmPlan, plan_cache
from app.core.engines.vllm_defaults import check_method
from app.core.model import ModelShape
from app.core.precision import precision
from app.schemas.answer import Step
from app.schemas.kv import EngineGroup, EngineReserve
from app.schemas.request import EngineRequest

_FAR = 2**24
"""A context beyond every window, for the slope of the reserve."""
HALF_BITS = 16
"""Bits from which on a `dtype` is one that a model computes in; what is less only stores weights."""

_planned = remembering(plan_cache)


@dataclass(frozen=True, kw_only=True, slots=True)
class Reserve:
    """vLLM's plan for requests of up to `plan.settings.max_model_len` tokens.

    Bytes are those of the GPU whose blocks are largest, but for `replica_bytes`.
    """

    plan: VllmPlan
    tensor_parallel_size: int

    def gpu_bytes(self, context: int) -> int:
        """What the engine compares with its pool, for one request."""
        return self.plan.request_bytes(context)

    def replica_bytes(self, context: int) -> int:
        """The same on all GPUs of the replica together."""
        per_rank = self.plan.blocks(context) * sum(self.plan.stage_block_bytes)
        return per_rank * self.tensor_parallel_size

    @property
    def gpu_bytes_per_token(self) -> Fraction:
        """Bytes a token adds far beyond every window, blocks averaged."""
        span = lcm(*(group.block_size for group in self.plan.rows(1))) * 2**7
        start = span * -(-_FAR // span)
        grown = self.plan.blocks(start + span) - self.plan.blocks(start)
        return Fraction(grown * self.plan.bytes_per_block, span)

    @property
    def replica_bytes_per_token(self) -> Fraction:
        """The same on all GPUs of the replica together."""
        ratio = Fraction(sum(self.plan.stage_block_bytes), self.plan.bytes_per_block or 1)
        return self.gpu_bytes_per_token * ratio * self.tensor_parallel_size

    @property
    def gpu_state_bytes(self) -> int:
        """Bytes of the state blocks of one request."""
        blocks = sum(row.blocks for row in self.plan.rows(1) if row.kind == "state")
        return blocks * self.plan.bytes_per_block

    def shown(self, context: int) -> EngineReserve:
        """The layout, for the answer."""
        plan = self.plan
        return EngineReserve(
            engine="vllm",
            engine_version=plan.settings.version,
            block_size=plan.block_size,
            bytes_per_block=plan.bytes_per_block,
            blocks_per_sequence=plan.blocks(context),
            max_model_len=plan.settings.max_model_len,
            max_num_batched_tokens=plan.settings.max_num_batched_tokens,
            max_num_seqs=plan.settings.max_num_seqs,
            attention_backends=list(plan.settings.attention_backends),
            groups=[
                EngineGroup(
                    kind=row.kind,
                    layers=row.layers,
                    block_size=row.block_size,
                    window=row.window,
                    block_bytes=row.block_bytes,
                    blocks=row.blocks,
                )
                for row in plan.rows(context)
            ],
        )

    def steps(self, context: int) -> list[Step]:
        """Blocks of one request by group, and their bytes."""
        rows = self.plan.rows(context)
        return [
            step(
                "blocks_per_sequence",
                "blocks of one request, summed over the engine's groups",
                " + ".join(n(row.blocks) for row in rows) or "0",
                self.plan.blocks(context),
                "blocks",
            ),
            step(
                "kv_bytes_per_sequence_per_gpu",
                "blocks_per_sequence x bytes_per_block",
                f"{n(self.plan.blocks(context))} x {n(self.plan.bytes_per_block)}",
                self.gpu_bytes(context),
            ),
        ]


class Reserves:
    """The engine's plans for one request, each length's made once."""

    def __init__(self, request: EngineRequest, deployment: Deployment) -> None:
        self._request = request
        self._deployment = deployment
        self._made: dict[int, Reserve] = {}

    def of(self, context: int) -> Reserve:
        """As `reserve`."""
        length = self._request.max_model_len or context
        found = self._made.get(length)
        if found is None:
            found = self._made[length] = reserve(self._request, self._deployment, context)
        return found


def reserve(request: EngineRequest, deployment: Deployment, context: int) -> Reserve:
    """The engine's plan for a request; `context` is its `max_model_len` unless that is given.

    Raises:
        InputError: on a version we have no rules for, and where the engine would refuse to start.
    """
    if request.draft_model is not None and request.speculative_method is not None:
        check_method(request.speculative_method)
    arguments = VllmArguments(
        version=request.engine_version,
        entry_point=request.entry_point,
        tensor_parallel_size=request.tensor_parallel_size,
        pipeline_parallel_size=request.pipeline_parallel_size,
        decode_context_parallel_size=request.decode_context_parallel_size,
        kv_cache_dtype=request.kv_cache_dtype,
        max_model_len=request.max_model_len or context,
        max_num_batched_tokens=request.max_num_batched_tokens,
        max_num_seqs=request.max_num_seqs,
        block_size=request.block_size,
        enable_prefix_caching=request.enable_prefix_caching,
        disable_hybrid_kv_cache_manager=request.disable_hybrid_kv_cache_manager,
        # A draft model's layers are charged with the budget: the target is planned alone.
        speculative_method=None if request.draft_model else request.speculative_method,
        num_speculative_tokens=None if request.draft_model else request.num_speculative_tokens,
        gpu_memory_utilization=request.gpu_memory_utilization,
        kv_cache_memory_bytes=request.kv_cache_memory_bytes,
        enforce_eager=bool(request.enforce_eager),
    )
    return Reserve(
        plan=_planned(deployment.model)(
            engine_shape(request, deployment), arguments, deployment.gpu
        ),
        tensor_parallel_size=request.tensor_parallel_size,
    )


def engine_shape(request: EngineRequest, deployment: Deployment) -> ModelShape:
    """The model in the precision it is served in, which `dtype` of 16 bits and more sets; the cache
    keeps that precision too.
    """
    shape = deployment.shape
    if request.dtype in (None, "auto"):
        return shape
    return _served_in(shape, request.dtype or "")


@lru_cache(maxsize=KEPT)
def _served_in(shape: ModelShape, dtype: str) -> ModelShape:
    asked = precision(dtype)
    if asked.bits < HALF_BITS or asked == shape.dtype:
        return shape
    return replace(shape, dtype=asked)


def version_notes(request: EngineRequest) -> tuple[str, ...]:
    """What an older version's layout takes for granted."""
    if request.engine_version is None:
        return (f"vLLM {VERSION}, the newest whose rules are known",)
    return (
        f"vLLM {request.engine_version}: groups, windows and defaults as that version has them; "
        f"block sizes and attention backends as in {VERSION}",
    )
