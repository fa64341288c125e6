"""What to do when too few sequences fit: the text's diagram, each branch with its number.

Cut context or concurrency, quantise the cache (or the weights), or add GPUs.
"""

from math import ceil
from typing import Literal

from app.answers.budgets import formula_budgets
from app.answers.deployment import deploy
from app.core.concurrency import Capacity, capacity_at, longest_context
from app.core.load import ReplicaLoad
from app.errors import InputError
from app.resolve.gpu import ResolvedGpu
from app.resolve.model import ResolvedModel
from app.schemas.concurrency import Advice
from app.schemas.request import ConcurrencyQuery

MAX_TENSOR_PARALLEL = 64

Change = dict[str, int | str]
Tried = Literal["quantise_kv", "quantise_weights", "more_gpus"]


class Advisor:
    """Tries changes to one request that found `here`."""

    def __init__(
        self,
        request: ConcurrencyQuery,
        model: ResolvedModel,
        gpu: ResolvedGpu | None,
        here: Capacity,
    ) -> None:
        self.request = request
        self.model = model
        self.gpu = gpu
        self.here = here

    def advice(self, load: ReplicaLoad, budgets: tuple[int, ...]) -> list[Advice]:
        """Every change that helps, in the order of the diagram."""
        weights: Change = {"dtype": "fp8"}
        if self.request.weight_bytes is not None:
            weights = {"weight_bytes": ceil(self.request.weight_bytes / 2)}
        candidates = (
            self._shorter_context(load, budgets),
            self._fewer_sequences(),
            self._changed("quantise_kv", {"kv_cache_dtype": "fp8"}),
            self._changed("quantise_weights", weights),
            self._more_gpus(),
        )
        return [advice for advice in candidates if advice is not None]

    def _shorter_context(self, load: ReplicaLoad, budgets: tuple[int, ...]) -> Advice | None:
        shares = tuple(budget // self.request.batch for budget in budgets)
        context = longest_context(load, shares, at_most=self.here.context)
        if not 0 < context < self.here.context:
            return None
        found = capacity_at(load, context, budgets).whole_sequences or 0
        return Advice(
            action="shorter_context",
            change={"context": context},
            max_concurrency=found,
            detail=f"Cut the context to {context:,} tokens: {found:,} sequences fit.",
        )

    def _fewer_sequences(self) -> Advice | None:
        found = self.here.whole_sequences
        if not found or found >= self.request.batch:
            return None
        return Advice(
            action="fewer_sequences",
            change={"batch": found},
            max_concurrency=found,
            detail=f"Admit {found:,} sequences at once instead of {self.request.batch:,}.",
        )

    def _more_gpus(self) -> Advice | None:
        """The smallest doubling of tensor parallelism that holds what was asked for."""
        if self.request.kv_budget_bytes is not None:
            return None
        size = self.request.tensor_parallel_size * 2
        while size <= MAX_TENSOR_PARALLEL:
            change: Change = {"tensor_parallel_size": size}
            if (self._found_with(change) or 0) >= self.request.batch:
                return self._changed("more_gpus", change)
            size *= 2
        return None

    def _changed(self, action: Tried, change: Change) -> Advice | None:
        found = self._found_with(change)
        if found is None or found <= (self.here.whole_sequences or 0):
            return None
        said = " and ".join(f"{name}={value}" for name, value in change.items())
        return Advice(
            action=action,
            change=change,
            max_concurrency=found,
            detail=f"With {said}: {found:,} sequences fit.",
        )

    def _found_with(self, change: Change) -> int | None:
        """Whole sequences with some request fields changed, None where that can't be."""
        changed = self.request.model_copy(update=change)
        try:
            deployment = deploy(changed, self.model, self.gpu)
            budgets = formula_budgets(changed, deployment)
        except InputError:
            return None
        found = capacity_at(deployment.load, self.here.context, budgets.per_stage)
        return found.whole_sequences
