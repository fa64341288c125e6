"""What is worked out for a model, kept for the next question about the same one."""

from collections.abc import Callable
from functools import lru_cache
from typing import ParamSpec, TypeVar, cast

from app.resolve.model import ResolvedModel

KEPT = 512

P = ParamSpec("P")
R = TypeVar("R")


def remembering(work_out: Callable[P, R]) -> Callable[[ResolvedModel], Callable[P, R]]:
    """`work_out` as it is to be called for a model: with its results kept, if the model has a name.

    Inline configs are new models each time: to keep what is theirs would only push others out.
    """
    kept = cast(Callable[P, R], lru_cache(maxsize=KEPT)(work_out))
    return lambda model: work_out if model.id is None else kept
