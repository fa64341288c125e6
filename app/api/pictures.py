"""Pictures over HTTP: which format a request asks for, and drawing it off the event loop."""

from functools import partial
from typing import Any

import anyio
from fastapi import Request
from starlette.responses import Response

from app.render.crossover_chart import PictureFormat, crossover_chart
from app.render.crossover_curve import crossover_curve
from app.resolve.gpu import ResolvedGpu
from app.resolve.model import ResolvedModel
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


def picture_format(request: Request, query: CrossoverQuery) -> PictureFormat | None:
    """The picture asked for by `format`, or by an Accept header that prefers one; else None."""
    if query.format != "json":
        return query.format
    accept = request.headers.get("accept", "")
    for kind, media_type in MEDIA_TYPES.items():
        if accept.startswith(media_type):
            return kind
    return None


async def picture_response(
    asked: list[CrossoverQuery],
    models: list[ResolvedModel],
    gpu: ResolvedGpu | None,
    kind: PictureFormat,
) -> Response:
    """The curves of all models in one picture.

    Raises:
        InputError: on what can't be deployed.
    """
    curves = tuple(
        crossover_curve(query, model, gpu) for query, model in zip(asked, models, strict=True)
    )
    draw = partial(crossover_chart, curves, kind)
    content = await anyio.to_thread.run_sync(draw, limiter=_ONE_AT_A_TIME)
    return Response(content, media_type=MEDIA_TYPES[kind], headers={"vary": "accept"})
