"""The crossover curves of a request's models, for the picture."""

from bisect import bisect_left
from collections.abc import Callable

from app.answers.crossover import regimes
from app.answers.deployment import deploy
from app.answers.placement import Placement
from app.core.crossover import crossover_context
from app.render.crossover_chart import Curve, Frame
from app.resolve.gpu import ResolvedGpu
from app.resolve.model import ResolvedModel
from app.schemas.request import CrossoverQuery

_USUAL = (32, 4096)


def crossover_frame(request: CrossoverQuery) -> Frame:
    """Axes with room for the point that the request asks about."""
    return Frame.around(*_asked(request))


def crossover_curve(
    request: CrossoverQuery, model: ResolvedModel, gpu: ResolvedGpu | None
) -> Curve:
    """One model's curve, sampled over the width of the frame.

    Raises:
        InputError: on what can't be deployed.
    """
    placed = deploy(request, model, gpu).placed
    batches = crossover_frame(request).batches
    first = _first(placed, batches, lambda context: context is not None)
    flat = _first(placed, batches, lambda context: context == 0)
    at = sorted({*batches, *(edge for edge in (first, flat) if edge is not None)})
    return Curve(
        label=_label(placed),
        points=tuple(
            (batch, crossover_context(placed.step_weights, placed.replica_profile, batch))
            for batch in at
        ),
        crosses_from=first,
        cache_alone_from=flat,
        regimes=tuple(
            (regime.name, regime.batch, regime.context)
            for regime in regimes(placed, *_asked(request))
        ),
    )


def _first(
    placed: Placement, batches: tuple[int, ...], holds: Callable[[int | None], bool]
) -> int | None:
    """The smallest batch in the frame at which it holds, and so for all larger ones: the more
    sequences, the smaller each one's share of the weights.
    """
    at = range(1, batches[-1] + 1)
    key = lambda batch: holds(crossover_context(placed.step_weights, placed.replica_profile, batch))  # noqa: E731
    found = bisect_left(at, True, key=key)
    return None if found == len(at) else at[found]


def _asked(request: CrossoverQuery) -> tuple[int, int]:
    batch = request.batch or (request.batches[0] if request.batches else _USUAL[0])
    context = request.context or (request.contexts[0] if request.contexts else _USUAL[1])
    return batch, context


def _label(placed: Placement) -> str:
    model, layout = placed.model, placed.layout
    name = model.id or model.shape.architecture or model.shape.model_type
    ranks, size = layout.tensor_parallel_size, placed.step_weights.all_bytes
    weights = f"{size / 1e9:,.2f} GB" if size >= 1e7 else f"{size:,} B"
    return f"{name}, weights {weights}, {layout.attention_dtype.name} cache" + (
        f", TP {ranks}" if ranks > 1 else ""
    )
