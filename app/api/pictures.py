"""Pictures over HTTP: which format a request asks for, and drawing it off the event loop."""

from functools import partial
from typing import Any

import anyio
from fastapi import Request

from app.answers.calculations import CROSSOVER, canonical
from app.answers.kept import Answered, Key, key_of
from app.deps import Services
from app.render.crossover_chart import PictureFormat, crossover_chart
from app.render.crossover_curve import crossover_curve, crossover_frame
from app.resolve.gpu import requested_gpu
from app.schemas.request import CrossoverQuery

MEDIA_TYPES: dict[PictureFormat, str] = {"svg": "image/svg+xml", "png": "image/png"}
_ONE_AT_A_TIME = anyio.CapacityLimiter(1)
"""Drawing holds the interpreter's lock for long: one picture at a time in a process."""

PICTURES: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {
            "image/svg+xml": {"schema": {"type": "string"}},
            "image/png": {"schema": {"type": "string", "format": "binary"}},
        }
    }
}


def picture_format(request: Request, asked: CrossoverQuery) -> PictureFormat | None:
    """The picture asked for by `format`, or by an Accept header that prefers one; else None."""
    if asked.format != "json":
        return asked.format
    accept = request.headers.get("accept", "").lower()
    for kind, media_type in MEDIA_TYPES.items():
        if accept.startswith(media_type):
            return kind
    return None


async def picture(
    asked: CrossoverQuery, kind: PictureFormat, services: Services, words: Key | None
) -> Answered:
    """The curves of all models of a request, which was asked in these words, in one picture.

    Raises:
        InputError: on what can't be deployed.
        KvmathError: as `ModelResolver.resolve`.
    """
    drawn = asked.model_copy(update={"format": kind})

    async def make() -> Answered:
        return await _draw(drawn, kind, services)

    text = canonical(drawn)
    if text is None:
        return await make()
    return await services.calculator.once(key_of("meaning", CROSSOVER.path, text), make, words)


async def _draw(asked: CrossoverQuery, kind: PictureFormat, services: Services) -> Answered:
    each = [asked]
    if asked.models:
        each = [asked.model_copy(update={"model": name, "models": []}) for name in asked.models]
    config, spec = getattr(asked, "config", None), getattr(asked, "gpu_spec", None)
    models = [await services.models.resolve(one, config) for one in each]
    gpu = requested_gpu(asked, spec, memory_needed=False)
    curves = tuple(
        crossover_curve(one, model, gpu) for one, model in zip(each, models, strict=True)
    )
    draw = partial(crossover_chart, crossover_frame(asked), curves, kind)
    content = await anyio.to_thread.run_sync(draw, limiter=_ONE_AT_A_TIME)
    return Answered(
        content,
        media_type=MEDIA_TYPES[kind].encode(),
        varies=True,
        fresh_until=min(
            (model.fresh_until for model in models if model.fresh_until is not None), default=None
        ),
        stale=any(model.stale for model in models),
    )
