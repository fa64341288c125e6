"""Answer of `/plan`."""

from typing import Literal

from pydantic import Field

from app.schemas.answer import Answer, Step
from app.schemas.concurrency import BandBytes, LimitedBy
from app.schemas.types import AnswerModel

PlanLimit = Literal[LimitedBy, "latency", "concurrent_users", "prefill", "ttft"]


class Prefill(AnswerModel):
    """The prompts' share of the work."""

    prefill_tokens_per_s: float | None = Field(description="What the workload asks for.")
    prefill_tokens_per_s_per_node: float
    ttft_ms: float = Field(description="One prompt alone on a replica.")
    nodes_for_prefill: float | None = Field(
        description="Nodes that would do nothing else; decode's share of the time adds to it."
    )


class Alternative(AnswerModel):
    """Another way to serve the same workload, fewest GPUs first."""

    gpu: str
    tensor_parallel_size: int
    kv_cache_dtype: str
    nodes: int
    gpus: int
    sequences_per_node: int
    itl_ms: float


class PlanAnswer(Answer):
    """From a workload to machines."""

    kv_cache_dtype: str
    concurrent_users: int
    context: int
    nodes: int | None = Field(
        description="With headroom and spares; null where no number of nodes serves the workload."
    )
    gpus: int | None
    nodes_for_kv: int | None
    nodes_for_latency: int | None
    replicas: int | None
    gpus_per_replica: int
    sequences_per_node: int
    sequences_per_replica: int
    weight_bytes: int
    kv_bytes_per_sequence: int = Field(
        description="On all GPUs that hold it, repeated heads and latents included."
    )
    kv_bytes_total: int
    kv_bytes_per_node: int
    kv_budget_band_bytes: BandBytes | None = Field(
        None, description="With an engine: budget of one GPU, nine starts of ten."
    )
    step_bytes_per_gpu: int | None
    step_ms: float | None = Field(description="Roofline; null where nothing fits.")
    itl_ms: float | None = Field(
        description="With efficiency and communication; null where nothing fits."
    )
    meets_slo: bool
    tokens_per_s_per_node: float
    tokens_per_s: float = Field(description="Of the nodes before headroom.")
    limited_by: PlanLimit = Field(
        description="`max_position_embeddings`: the engine's `max_model_len` is shorter than "
        "`context`."
    )
    prefill: Prefill | None = None
    steps: list[Step]
    alternatives: list[Alternative]
