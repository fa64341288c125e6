"""The problem document (RFC 9457) that every failure answers."""

from pydantic import ConfigDict, Field

from app.schemas.types import AnswerModel


class ProblemError(AnswerModel):
    """One thing that is wrong with one field of the request."""

    loc: list[str | int] = Field(description="Path of the field, from where it was sent.")
    msg: str
    type: str


class Problem(AnswerModel):
    """What went wrong. Some kinds carry further members, `nearest` names for one."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "examples": [
                {
                    "type": "/problems/invalid-input",
                    "title": "Invalid input",
                    "status": 422,
                    "detail": "query.context: Input should be greater than or equal to 1",
                    "instance": "/kv",
                    "request_id": "0af7651916cd43dd8448eb211c80319c",
                    "errors": [
                        {
                            "loc": ["query", "context"],
                            "msg": "Input should be greater than or equal to 1",
                            "type": "greater_than_equal",
                        }
                    ],
                }
            ]
        },
    )

    type: str = Field(description="URI reference of the kind; GET it for a description.")
    title: str
    status: int = Field(ge=400, le=599)
    detail: str
    instance: str = Field(description="The path that was asked.")
    request_id: str | None = None
    errors: list[ProblemError] | None = None


class ProblemKind(AnswerModel):
    """One kind of problem, as it can be looked up under its type."""

    type: str
    title: str
    status: int
    description: str
