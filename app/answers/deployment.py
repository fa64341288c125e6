"""A resolved request: the model as placed, on which GPU, and what that takes for granted."""

from dataclasses import dataclass
from operator import attrgetter

from app.answers.placement import ExpertRanks, Placement, Placing, place
from app.answers.unheard import unheard
from app.core.cache import CacheLayout
from app.core.hardware import Gpu
from app.core.load import ReplicaLoad
from app.core.model import ModelShape
from app.core.weights import Sharding, StoredBytes
from app.errors import InputError
from app.resolve.gpu import ResolvedGpu
from app.resolve.model import ResolvedModel
from app.schemas.request import EngineRequest, ModelFields

_placing = attrgetter(*Placing._fields)
_NOT_DEALT = ExpertRanks(dealt_over=1, sharing=1)


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class Deployment:
    """A model on GPUs, as asked for.

    Attributes:
        placed: The model on the GPUs of one replica.
        gpu: The resolved GPU, or None where the request needs none.
        assumptions: What was taken for granted so far.
    """

    placed: Placement
    gpu: Gpu | None
    assumptions: tuple[str, ...]

    @property
    def model(self) -> ResolvedModel:
        """The resolved model."""
        return self.placed.model

    @property
    def shape(self) -> ModelShape:
        """The model's shape."""
        return self.placed.model.shape

    @property
    def layout(self) -> CacheLayout:
        """Cache precision and tensor parallelism."""
        return self.placed.layout

    @property
    def sharding(self) -> Sharding:
        """How weights are spread."""
        return self.placed.sharding

    @property
    def stored(self) -> StoredBytes:
        """Bytes of a weight as it is loaded."""
        return self.placed.stored

    @property
    def load(self) -> ReplicaLoad:
        """Weights and cache on each stage's GPU."""
        return self.placed.load


def deploy(request: ModelFields, model: ResolvedModel, gpu: ResolvedGpu | None) -> Deployment:
    """Place the model as the request says.

    Raises:
        InputError: on a precision or a parallel size that can't be.
    """
    placed = place(model, Placing._make(_placing(request)), _expert_ranks(request))
    said = [*unheard(request, None if gpu is None else gpu.gpu), *_of_one_rank(request)]
    if gpu is None:
        return Deployment(placed=placed, gpu=None, assumptions=(*placed.assumptions, *said))
    if gpu.gpu.mig_profile is not None:
        _check_slice(request)
    assumptions = (*placed.assumptions, *gpu.assumptions, *said)
    return Deployment(placed=placed, gpu=gpu.gpu, assumptions=assumptions)


def _check_slice(request: ModelFields) -> None:
    """A slice of a GPU has no link to another: one replica has to fit on it alone."""
    for field in ("tensor_parallel_size", "pipeline_parallel_size"):
        if getattr(request, field) > 1:
            raise InputError.of(field, "has to be 1 on a MIG slice, which has no peer link")


def _of_one_rank(request: ModelFields) -> list[str]:
    if request.data_parallel_size == 1:
        return []
    return [
        f"figures are of one of the {request.data_parallel_size} data-parallel ranks, each of "
        "which batches and caches for itself"
    ]


def _expert_ranks(request: ModelFields) -> ExpertRanks:
    """How experts are spread.

    vLLM's switch deals them out over all ranks of tensor and data parallelism; other engines say
    how many, and split each expert over the ranks that are left.

    Raises:
        InputError: on `expert_parallel_size` where the ranks do not divide so.
    """
    given = request.expert_parallel_size
    if given is None and not request.enable_expert_parallel:
        return _NOT_DEALT
    ranks = request.tensor_parallel_size * request.data_parallel_size
    if given is None:
        return ExpertRanks(ranks, sharing=1)
    if ranks % given:
        rule = f"has to divide tensor_parallel_size x data_parallel_size ({ranks})"
        raise InputError.of("expert_parallel_size", rule, type="not_divisible")
    if isinstance(request, EngineRequest) and request.engine == "vllm" and given not in (1, ranks):
        rule = f"is 1 or tensor_parallel_size x data_parallel_size ({ranks}) in vLLM"
        raise InputError.of("expert_parallel_size", rule)
    return ExpertRanks(given, sharing=ranks // given if given > 1 else 1)


def contexts_asked(
    shape: ModelShape, context: int | None, contexts: list[int], max_model_len: int | None = None
) -> tuple[int, tuple[str, ...]]:
    """The context to answer for, and what that and the others take for granted.

    The first of `context`, `contexts`, `max_model_len` and the model's own maximum.

    Raises:
        InputError: on `context` where none is given and the model states no maximum.
    """
    limit = shape.longest_context
    if context is None and not contexts:
        if max_model_len is not None:
            return max_model_len, (f"no context given: max_model_len of {max_model_len} is taken",)
        if limit is None:
            rule = "is needed: the model states no maximum of its own"
            raise InputError.of("context", rule, type="missing")
        return limit, (f"no context given: the model's own maximum of {limit} tokens is taken",)
    notes = []
    longest = max([*contexts, context or 0])
    if limit is not None and longest > limit:
        notes.append(f"context {longest} is beyond the model's own maximum of {limit} tokens")
    if max_model_len is not None and longest > max_model_len:
        notes.append(
            f"context {longest} is beyond max_model_len {max_model_len}: the engine would turn "
            "such a request away"
        )
    return context or contexts[0], tuple(notes)


def engine_length(request: EngineRequest) -> int | None:
    """`max_model_len`, where an engine heeds it."""
    return None if request.engine == "formula" else request.max_model_len
