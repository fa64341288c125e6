"""Many requests in one, and their answers."""

from typing import Annotated, Any

from pydantic import Field, WithJsonSchema

from app.schemas.types import AnswerModel, BodyModel

MAX_ITEMS = 10_000

BatchItem = Annotated[
    Any,
    WithJsonSchema(
        {
            # Open, even for what is no object: an item that is wrong fails by itself.
            "description": "`path` of a calculation (`/kv`, `/concurrency`, `/crossover`, `/plan`) "
            "and beside it the fields of its POST body.",
            "examples": [{"path": "/kv", "model": "llama-3-8b", "context": 8192}],
        }
    ),
]

EXAMPLES: dict[str, Any] = {
    "three": {
        "summary": "Three questions, one of which cannot be answered",
        "value": {
            "items": [
                {"path": "/kv", "model": "llama-3-8b", "context": 8192},
                {"path": "/concurrency", "model": "llama-3-8b", "gpu": "h100", "context": 8192},
                {"path": "/kv", "model": "llama-3-8b", "context": 0},
            ]
        },
    },
}


class BatchBody(BodyModel):
    """Requests to be answered in this order."""

    items: Annotated[list[BatchItem], Field(max_length=MAX_ITEMS)]


class BatchResult(AnswerModel):
    """What a POST of one item to its path would have answered."""

    index: int = Field(description="Place of the item in the request, from 0.")
    status: int
    retry_after_s: int | None = Field(None, description="When asking again makes sense.")
    body: dict[str, Any] = Field(description="The answer, or a problem document.")


class BatchAnswer(AnswerModel):
    """One result an item, in the order of the items. As JSON lines, one result a line."""

    results: list[BatchResult]
