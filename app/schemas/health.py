"""Answers of the health routes."""

from typing import Literal

from app.schemas.types import AnswerModel


class Health(AnswerModel):
    """The state of the process."""

    status: Literal["ok"]
