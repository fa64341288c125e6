"""The four calculations, each by GET (query string) and POST (JSON body)."""

from typing import Annotated

from fastapi import Body, Query, Request
from starlette.responses import Response

from app.answers.calculations import CONCURRENCY, CROSSOVER, KV, PLAN, Asked, Calculation
from app.api.pictures import PICTURES, picture, picture_format
from app.api.routing import AnswerRoute, api_router
from app.deps import Services
from app.edge.exchange import AnsweredResponse, Exchange
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

router = api_router("calculations", AnswerRoute)


@router.get("/kv", response_model=KvAnswer, summary="Bytes of a model's cache")
async def kv(asked: Annotated[KvQuery, Query()], request: Request) -> Response:
    """Per token, per sequence and in total, whole and per GPU (formulas 1 to 3)."""
    return await _answer(KV, asked, request)


@router.post("/kv", response_model=KvAnswer, summary="Bytes of a model's cache")
async def kv_post(
    asked: Annotated[KvBody, Body(openapi_examples=examples.KV)], request: Request
) -> Response:
    """As GET, with an inline `config` or `gpu_spec` besides."""
    return await _answer(KV, asked, request)


@router.get("/concurrency", response_model=ConcurrencyAnswer, summary="How many sequences fit")
async def concurrency(asked: Annotated[ConcurrencyQuery, Query()], request: Request) -> Response:
    """Budget over bytes per sequence (formulas 4 and 5), and advice where too few fit."""
    return await _answer(CONCURRENCY, asked, request)


@router.post("/concurrency", response_model=ConcurrencyAnswer, summary="How many sequences fit")
async def concurrency_post(
    asked: Annotated[ConcurrencyBody, Body(openapi_examples=examples.CONCURRENCY)],
    request: Request,
) -> Response:
    """As GET, with an inline `config` or `gpu_spec` besides."""
    return await _answer(CONCURRENCY, asked, request)


@router.get(
    "/crossover",
    response_model=CrossoverAnswer,
    summary="Where KV reads cost as much as weight reads",
    responses=PICTURES,
)
async def crossover(asked: Annotated[CrossoverQuery, Query()], request: Request) -> Response:
    """The curve of formula (7), decode steps by formula (6), and what to quantise where.

    With `format=svg` or `png`, or an `Accept` header that asks for one, the curve as a picture;
    `models` repeated draws several.
    """
    return await _answer(CROSSOVER, asked, request)


@router.post(
    "/crossover",
    response_model=CrossoverAnswer,
    summary="Where KV reads cost as much as weight reads",
    responses=PICTURES,
)
async def crossover_post(
    asked: Annotated[CrossoverBody, Body(openapi_examples=examples.CROSSOVER)], request: Request
) -> Response:
    """As GET, with an inline `config` or `gpu_spec` besides."""
    return await _answer(CROSSOVER, asked, request)


@router.get("/plan", response_model=PlanAnswer, summary="From a workload to machines")
async def plan(asked: Annotated[PlanQuery, Query()], request: Request) -> Response:
    """The six steps: KV per sequence, in total, nodes for it, latency, throughput, headroom."""
    return await _answer(PLAN, asked, request)


@router.post("/plan", response_model=PlanAnswer, summary="From a workload to machines")
async def plan_post(
    asked: Annotated[PlanBody, Body(openapi_examples=examples.PLAN)], request: Request
) -> Response:
    """As GET, with an inline `config` or `gpu_spec` besides."""
    return await _answer(PLAN, asked, request)


async def _answer(calculation: Calculation, asked: Asked, request: Request) -> Response:
    services: Services = request.app.state.services
    exchange: Exchange = request.scope["exchange"]
    if isinstance(asked, CrossoverQuery) and (kind := picture_format(request, asked)):
        return AnsweredResponse(await picture(asked, kind, services, exchange.key))
    return AnsweredResponse(await services.calculator.answer(calculation, asked, exchange.key))
