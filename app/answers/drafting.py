"""A draft model beside the one that is served: what it takes of a GPU's memory."""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

from app.catalog.models import model_catalogue
from app.core.cache import CacheLayout
from app.core.engines.budgets import Band, EngineBudget
from app.core.kv import profile_of
from app.core.load import ReplicaLoad
from app.core.weights import Sharding, gpu_weight_bytes
from app.errors import InputError
from app.resolve.model import catalogue_model
from app.resolve.quantization.loading import weight_storage


@dataclass(frozen=True, kw_only=True, slots=True)
class Draft:
    """Bytes of a draft model on one GPU: of its weights, and of a token far beyond its windows."""

    weight_bytes: int
    bytes_per_token: Fraction

    def share(self, target: ReplicaLoad) -> Fraction:
        """The draft's part of a token's bytes in both caches."""
        both = self.bytes_per_token + target.stages[0].profile.bytes_per_token
        return self.bytes_per_token / both if both else Fraction(0)


@lru_cache(maxsize=64)
def draft_of(name: str, tensor_parallel_size: int) -> Draft:
    """A catalogue model as a draft, divided as the target is.

    Raises:
        InputError: on `draft_model` for a model the catalogue does not have, on
            `tensor_parallel_size` where its heads do not divide.
    """
    entry = model_catalogue().find(name)
    if entry is None:
        rule = "is not in the catalogue: draft models are taken from there only"
        raise InputError.of("draft_model", rule, type="unknown_model")
    shape = catalogue_model(entry).shape
    stored, _ = weight_storage(shape)
    layout = CacheLayout(
        tensor_parallel_size=tensor_parallel_size,
        attention_dtype=shape.dtype,
        model_dtype=shape.dtype,
    )
    sharding = Sharding(tensor_parallel_size=tensor_parallel_size)
    return Draft(
        weight_bytes=gpu_weight_bytes(shape, stored, sharding),
        bytes_per_token=profile_of(shape.groups, layout).bytes_per_token,
    )


def beside_draft(
    budget: EngineBudget, draft: Draft, target: ReplicaLoad, *, weighed: bool, pooled: bool
) -> EngineBudget:
    """The target's budget beside a draft: both caches are divided by bytes a token.

    `weighed`: the budget's weights are those that were loaded, the draft's among them. `pooled`:
    its cache was given or measured, so that no weights are taken from it.
    """
    own = 1 - draft.share(target)
    added = 0 if weighed else draft.weight_bytes
    taken = 0 if pooled else added
    cached = max(budget.kv_budget_bytes - taken, 0)
    drafted = cached - int(cached * own)
    parts = replace(
        budget.parts,
        weight_bytes=budget.parts.weight_bytes + added,
        overhead_bytes=budget.parts.overhead_bytes + drafted,
        unexplained_bytes=budget.parts.unexplained_bytes - (added - taken),
    )
    band = Band(
        low=int((budget.band.low - taken) * own), high=int((budget.band.high - taken) * own)
    )
    return replace(budget, parts=parts, kv_budget_bytes=parts.kv_budget_bytes, band=band)
