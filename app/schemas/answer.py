"""What every calculation's answer repeats: the model, the GPU, the steps."""

from typing import Literal

from pydantic import Field

from app.schemas.types import AnswerModel

ModelSource = Literal["config", "catalogue", "local_cache", "local_folder", "hub"]


class ModelRef(AnswerModel):
    """The model as it was resolved."""

    id: str | None = Field(description="Resolved hub id; null for an inline config.")
    revision: str | None = Field(description="Commit, where known.")
    architecture: str
    model_type: str
    source: ModelSource
    stale: bool = Field(
        False, description="The hub did not answer; the last known files were used."
    )


class GpuRef(AnswerModel):
    """The GPU as it was resolved."""

    id: str
    name: str
    memory_bytes: int | None
    memory_bandwidth_bytes_per_s: int | None


class Step(AnswerModel):
    """One line of arithmetic as a person would write it."""

    name: str
    formula: str
    substituted: str
    value: float | int | None = Field(description="null where there is no such number.")
    unit: str


class Answer(AnswerModel):
    """The common head of every answer."""

    model: ModelRef
    gpu: GpuRef | None
    assumptions: list[str] = Field(
        description="Every default or guess that the answer rests on, in words."
    )
    steps: list[Step] | None = Field(None, description="With `explain=true`.")
