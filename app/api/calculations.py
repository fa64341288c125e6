"""The four calculations, each by GET (query string) and POST (JSON body)."""

from typing import Annotated

from fastapi import Body, Query, Request
from starlette.responses import Response

from app.answers.concurrency import concurrency_answer
from app.answers.crossover import crossover_answer
from app.answers.kv import kv_answer
from app.answers.plan import plan_answer
from app.api.pictures import PICTURES, picture_format, picture_response
from app.api.routing import api_router
from app.deps import ServicesDep
from app.render.crossover_chart import PictureFormat
from app.resolve.gpu import requested_gpu
from app.schemas import examples
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

router = api_router("calculations")


@router.get("/kv", summary="Bytes of a model's cache")
async def kv(query: Annotated[KvQuery, Query()], services: ServicesDep) -> KvAnswer:
    """Per token, per sequence and in total, whole and per GPU (formulas 1 to 3)."""
    model = await services.models.resolve(query)
    return kv_answer(query, model, requested_gpu(query))


@router.post("/kv", summary="Bytes of a model's cache")
async def kv_post(
    body: Annotated[KvBody, Body(openapi_examples=examples.KV)], services: ServicesDep
) -> KvAnswer:
    """As GET, with an inline `config` or `gpu_spec` besides."""
    model = await services.models.resolve(body, body.config)
    return kv_answer(body, model, requested_gpu(body, body.gpu_spec))


@router.get("/concurrency", summary="How many sequences fit")
async def concurrency(
    query: Annotated[ConcurrencyQuery, Query()], services: ServicesDep
) -> ConcurrencyAnswer:
    """Budget over bytes per sequence (formulas 4 and 5), and advice where too few fit."""
    model = await services.models.resolve(query)
    return concurrency_answer(query, model, requested_gpu(query))


@router.post("/concurrency", summary="How many sequences fit")
async def concurrency_post(
    body: Annotated[ConcurrencyBody, Body(openapi_examples=examples.CONCURRENCY)],
    services: ServicesDep,
) -> ConcurrencyAnswer:
    """As GET, with an inline `config` or `gpu_spec` besides."""
    model = await services.models.resolve(body, body.config)
    return concurrency_answer(body, model, requested_gpu(body, body.gpu_spec))


@router.get("/crossover", summary="Where KV reads cost as much as weight reads", responses=PICTURES)
async def crossover(
    request: Request, query: Annotated[CrossoverQuery, Query()], services: ServicesDep
) -> CrossoverAnswer:
    """The curve of formula (7), decode steps by formula (6), and what to quantise where.

    With `format=svg` or `png`, or an `Accept` header that asks for one, the curve as a picture;
    `models` repeated draws several.
    """
    if (kind := picture_format(request, query)) is not None:
        return await _picture(query, None, services, kind)  # type: ignore[return-value] # FastAPI passes a Response on
    model = await services.models.resolve(query)
    return crossover_answer(query, model, requested_gpu(query, memory_needed=False))


@router.post(
    "/crossover", summary="Where KV reads cost as much as weight reads", responses=PICTURES
)
async def crossover_post(
    request: Request,
    body: Annotated[CrossoverBody, Body(openapi_examples=examples.CROSSOVER)],
    services: ServicesDep,
) -> CrossoverAnswer:
    """As GET, with an inline `config` or `gpu_spec` besides."""
    if (kind := picture_format(request, body)) is not None:
        return await _picture(body, body, services, kind)  # type: ignore[return-value] # FastAPI passes a Response on
    model = await services.models.resolve(body, body.config)
    return crossover_answer(body, model, requested_gpu(body, body.gpu_spec, memory_needed=False))


@router.get("/plan", summary="From a workload to machines")
async def plan(query: Annotated[PlanQuery, Query()], services: ServicesDep) -> PlanAnswer:
    """The six steps: KV per sequence, in total, nodes for it, latency, throughput, headroom."""
    model = await services.models.resolve(query)
    return plan_answer(query, model, requested_gpu(query))


@router.post("/plan", summary="From a workload to machines")
async def plan_post(
    body: Annotated[PlanBody, Body(openapi_examples=examples.PLAN)], services: ServicesDep
) -> PlanAnswer:
    """As GET, with an inline `config` or `gpu_spec` besides."""
    model = await services.models.resolve(body, body.config)
    return plan_answer(body, model, requested_gpu(body, body.gpu_spec))


async def _picture(
    query: CrossoverQuery, body: CrossoverBody | None, services: ServicesDep, kind: PictureFormat
) -> Response:
    config = None if body is None else body.config
    asked = [query]
    if query.models:
        asked = [query.model_copy(update={"model": name, "models": []}) for name in query.models]
    models = [await services.models.resolve(one, config) for one in asked]
    spec = None if body is None else body.gpu_spec
    gpu = requested_gpu(query, spec, memory_needed=False)
    return await picture_response(asked, models, gpu, kind)
