"""The calculations by their paths: what each reads, and what makes its answer."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, SchemaSerializer

from app.answers.concurrency import concurrency_answer
from app.answers.crossover import crossover_answer
from app.answers.kv import kv_answer
from app.answers.plan import plan_answer
from app.errors import InputError
from app.resolve.gpu import ResolvedGpu, requested_gpu
from app.resolve.model import ResolvedModel
from app.schemas.answer import Answer
from app.schemas.concurrency import ConcurrencyAnswer
from app.schemas.crossover import CrossoverAnswer
from app.schemas.kv import KvAnswer
from app.schemas.plan import PlanAnswer
from app.schemas.request import (
    ConcurrencyBody,
    ConcurrencyQuery,
    CrossoverBody,
    CrossoverQuery,
    KvBody,
    KvQuery,
    PlanBody,
    PlanQuery,
)

Asked = KvQuery | ConcurrencyQuery | CrossoverQuery | PlanQuery


@dataclass(frozen=True, kw_only=True, eq=False)
class Calculation:
    """One kind of question.

    Attributes:
        path: Where it is asked.
        body: The model of a POST's body, whose base is that of a GET's query.
        answer: The model of the answer.
        make: The answer to a request about a resolved model and GPU.
        memory_needed: Whether a GPU of one's own needs a memory size.
    """

    path: str
    body: type[BaseModel]
    answer: type[Answer]
    make: Callable[[Any, ResolvedModel, ResolvedGpu | None], Answer]
    memory_needed: bool = True

    def compute(self, asked: Any, model: ResolvedModel) -> bytes:
        """The answer as JSON.

        Raises:
            InputError: on what can't be deployed.
            UnknownGpu: on a name that the catalogue does not have.
        """
        spec = vars(asked).get("gpu_spec")  # of a body alone
        gpu = requested_gpu(asked, spec, memory_needed=self.memory_needed)
        answer = self.make(asked, model, gpu)
        try:
            return _serializer(self.answer).to_json(answer)
        except PydanticSerializationError:
            # Only a name in an inline config is repeated as it came.
            raise InputError.of("config", "holds half a character (a lone surrogate)") from None


def canonical(asked: BaseModel) -> bytes | None:
    """What a request says, as JSON in the order of the schema: the same for a query and a body.

    A default that is spelled out is said, too: an answer may speak of what was said to no effect.
    None for an inline config that cannot be written: nested too deeply, or half a character.
    """
    try:
        return _serializer(type(asked)).to_json(asked, exclude_unset=True)
    except PydanticSerializationError:
        return None


def _serializer(model: type[BaseModel]) -> SchemaSerializer:
    # The public methods answer text; bytes are what is sent, kept and hashed.
    return model.__pydantic_serializer__


KV = Calculation(path="/kv", body=KvBody, answer=KvAnswer, make=kv_answer)
CONCURRENCY = Calculation(
    path="/concurrency", body=ConcurrencyBody, answer=ConcurrencyAnswer, make=concurrency_answer
)
CROSSOVER = Calculation(
    path="/crossover",
    body=CrossoverBody,
    answer=CrossoverAnswer,
    make=crossover_answer,
    memory_needed=False,
)
PLAN = Calculation(path="/plan", body=PlanBody, answer=PlanAnswer, make=plan_answer)

CALCULATIONS = {each.path: each for each in (KV, CONCURRENCY, CROSSOVER, PLAN)}
