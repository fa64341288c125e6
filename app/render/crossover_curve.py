"""The crossover curves of a request's models, for the picture."""

from app.answers.crossover import reading, regimes
from app.core.crossover import crossover_context
from app.render.crossover_chart import Curve, batches
from app.resolve.gpu import ResolvedGpu
from app.resolve.model import ResolvedModel
from app.schemas.request import CrossoverQuery

_USUAL = (32, 4096)


def crossover_curve(
    request: CrossoverQuery, model: ResolvedModel, gpu: ResolvedGpu | None
) -> Curve:
    """One model's curve, sampled at the chart's batches.

    Raises:
        InputError: on what can't be deployed.
    """
    read = reading(request, model, gpu)
    batch = request.batch or (request.batches[0] if request.batches else _USUAL[0])
    context = request.context or (request.contexts[0] if request.contexts else _USUAL[1])
    return Curve(
        label=model.id or model.shape.architecture or model.shape.model_type,
        contexts=tuple(crossover_context(read.weights, read.profile, at) for at in batches()),
        regimes=tuple(
            (regime.name, regime.batch, regime.context) for regime in regimes(read, batch, context)
        ),
    )
