"""What to do when too few sequences fit: the text's diagram, each branch with its number.

Cut context or concurrency, quantise the cache (or the weights), or add GPUs.
"""

from collections.abc import Iterator
from math import ceil
from typing import Literal

from app.answers.deployment import engine_length
from app.answers.engine_budgets import eight_bits
from app.answers.room import Fit, Room, longest_fitting, room_of
from app.errors import InputError
from app.resolve.gpu import ResolvedGpu
from app.resolve.model import ResolvedModel
from app.schemas.concurrency import Advice
from app.schemas.request import ConcurrencyQuery

MAX_TENSOR_PARALLEL = 64

Change = dict[str, int | str]
Tried = Literal["set_max_model_len", "quantise_kv", "quantise_weights", "more_gpus"]


class Advisor:
    """Tries changes to one request."""

    def __init__(
        self, request: ConcurrencyQuery, model: ResolvedModel, gpu: ResolvedGpu | None
    ) -> None:
        self.request = request
        self.model = model
        self.gpu = gpu

    def advice(self, room: Room, here: Fit) -> list[Advice]:
        """Every change that helps on what was found, in the order of the diagram."""
        candidates = (
            self._fitting_length(here),
            self._shorter_context(room, here),
            self._fewer_sequences(here),
            self._changed(here, "quantise_kv", {"kv_cache_dtype": eight_bits(self.request)}),
            *self._quantised_weights(here),
            self._more_gpus(here),
        )
        return [advice for advice in candidates if advice is not None]

    def _fitting_length(self, here: Fit) -> Advice | None:
        """An engine started for sequences of the length asked about, no shorter and no longer."""
        asked, own = engine_length(self.request), self.model.shape.longest_context
        if asked in (None, here.context) or here.context > (own or here.context):
            return None
        return self._changed(here, "set_max_model_len", {"max_model_len": here.context})

    def _quantised_weights(self, here: Fit) -> Iterator[Advice | None]:
        """Weights of 8 bits, and of 4 where those leave no room beyond what was asked for."""
        given = self.request.weight_bytes
        for quantization, divisor in (("fp8", 2), ("awq", 4)):
            change: Change = {"quantization": quantization}
            if given is not None:
                change = {"weight_bytes": ceil(given / divisor)}
            found = self._found_with(here.context, change)
            yield _better(here, "quantise_weights", change, found)
            if found > self.request.batch:
                return

    def _shorter_context(self, room: Room, here: Fit) -> Advice | None:
        context = longest_fitting(room, self.request.batch, here.context)
        if not 0 < context < here.context:
            return None
        found = room.at(context).served or 0
        return Advice(
            action="shorter_context",
            change={"context": context},
            max_concurrency=found,
            detail=f"Cut the context to {context:,} tokens: {_fit(found)}.",
        )

    def _fewer_sequences(self, here: Fit) -> Advice | None:
        found = here.served
        if not found or found >= self.request.batch:
            return None
        return Advice(
            action="fewer_sequences",
            change={"batch": found},
            max_concurrency=found,
            detail=f"Admit {found:,} sequences at once instead of {self.request.batch:,}.",
        )

    def _more_gpus(self, here: Fit) -> Advice | None:
        """The smallest doubling of tensor parallelism that holds what was asked for, else the one
        that holds most."""
        if self.request.kv_budget_bytes is not None:
            return None
        found: dict[int, int] = {}
        size = self.request.tensor_parallel_size * 2
        while size <= MAX_TENSOR_PARALLEL:
            found[size] = self._found_with(here.context, {"tensor_parallel_size": size})
            if found[size] >= self.request.batch:
                break
            size *= 2
        if not found:
            return None
        best = max(found, key=lambda size: found[size])
        return _better(here, "more_gpus", {"tensor_parallel_size": best}, found[best])

    def _changed(self, here: Fit, action: Tried, change: Change) -> Advice | None:
        return _better(here, action, change, self._found_with(here.context, change))

    def _found_with(self, context: int, change: Change) -> int:
        """Whole sequences with some request fields changed, 0 where that can't be."""
        changed = self.request.model_copy(update=change)
        try:
            found = room_of(changed, self.model, self.gpu, context).at(context)
        except InputError:
            return 0
        return found.served or 0


def _better(here: Fit, action: Tried, change: Change, found: int) -> Advice | None:
    """The change as advice, where it holds more than what was asked does."""
    if found <= (here.served or 0):
        return None
    said = " and ".join(f"{name}={value}" for name, value in change.items())
    return Advice(
        action=action,
        change=change,
        max_concurrency=found,
        detail=f"With {said}: {_fit(found)}.",
    )


def _fit(count: int) -> str:
    return f"{count:,} sequence{'s fit' if count != 1 else ' fits'}"
