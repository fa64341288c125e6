"""Answer of `/kv`."""

from pydantic import Field

from app.schemas.answer import Answer
from app.schemas.types import AnswerModel


class PerGpuKv(AnswerModel):
    """Bytes on the GPU that holds most."""

    kv_bytes_per_token: float | int
    kv_bytes_per_sequence: int
    kv_bytes_total: int
    state_bytes_per_sequence: int


class LayerRow(AnswerModel):
    """Like parts of like layers."""

    kind: str
    layers: int
    bytes_per_token: float | int = Field(description="One layer, the whole model.")
    fixed_bytes: int = Field(description="One layer, the whole model.")
    kv_heads: int | None = None
    head_dim: int | None = None
    v_head_dim: int | None = None
    window: int | None = None


class KvSegment(AnswerModel):
    """From `from_context` on, a sequence takes `fixed_bytes + bytes_per_token x context`."""

    from_context: int
    fixed_bytes: int
    bytes_per_token: float | int


class KvAtContext(AnswerModel):
    """One sequence of `context` tokens."""

    context: int
    kv_bytes_per_sequence: int
    per_gpu_kv_bytes_per_sequence: int


class Parameters(AnswerModel):
    """Parameter counts."""

    total: int
    active: int = Field(description="Taking part in one token's forward pass.")
    embedding: int
    by_part: dict[str, int] = Field(
        description="With `mtp`, prediction modules that `total` leaves out: a server without "
        "speculation does not load them."
    )


class EngineGroup(AnswerModel):
    """Layers that the engine gives blocks of one size."""

    kind: str
    layers: int
    block_size: int = Field(description="Tokens.")
    window: int | None
    block_bytes: int = Field(description="What the group itself needs of a block.")
    blocks: int = Field(description="Of one request of `context` tokens.")


class EngineReserve(AnswerModel):
    """How the engine lays the cache out, on one GPU; every group's block costs `bytes_per_block`."""

    engine: str
    engine_version: str
    block_size: int
    bytes_per_block: int
    blocks_per_sequence: int
    max_model_len: int
    max_num_batched_tokens: int
    max_num_seqs: int
    attention_backends: list[str]
    groups: list[EngineGroup]


class KvAnswer(Answer):
    """Bytes of a model's cache."""

    kv_cache_dtype: str
    context: int
    batch: int
    kv_bytes_per_token: float | int = Field(
        description="What the next token adds once every window is full; whole but for "
        "compressed caches."
    )
    kv_bytes_per_sequence: int = Field(
        description="Everything one sequence holds, recurrent state included."
    )
    kv_bytes_total: int
    state_bytes_per_sequence: int
    per_gpu: PerGpuKv
    segments: list[KvSegment] = Field(
        description="What the tokens need, as straight lines; empty with an engine, whose reserve "
        "follows from `engine.groups`."
    )
    layers: list[LayerRow]
    by_context: list[KvAtContext]
    parameters: Parameters
    weight_bytes: int
    weight_bytes_by_dtype: dict[str, int] = Field(
        description="Every parameter in that format. A checkpoint of that quantisation keeps some "
        "parts wider: `quantization` gives its `weight_bytes`."
    )
    engine: EngineReserve | None = None
