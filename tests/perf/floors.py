"""What ``/concurrency`` is measured against: the same bytes with as little between as possible.

``bare`` answers them as plain ASGI. ``empty`` is a FastAPI route with the same request and answer
models, whose handler returns a finished answer: what the framework itself costs.
"""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import httpx
from fastapi import FastAPI, Query
from fastapi.routing import APIRoute

from app.main import create_app
from app.settings import Settings
from tests.perf.workload import PATH, Workload


def service_routes(app: FastAPI) -> dict[str, APIRoute]:
    """The routes at the measured path by method; empty before there are any."""
    return {
        method: route
        for route in app.routes
        if isinstance(route, APIRoute) and route.path == PATH
        for method in route.methods
    }


async def _sample(app: FastAPI) -> bytes:
    """One answer of the service itself."""
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://floor") as client,
    ):
        answer = await client.get(Workload("GET").target(0))
        answer.raise_for_status()
        return answer.content


def bare() -> Any:
    """A plain ASGI application that reads the body and answers the sample."""
    head: dict[str, Any] = {"type": "http.response.start", "status": 200}
    body: dict[str, Any] = {"type": "http.response.body"}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await receive()
            body["body"] = await _sample(create_app(Settings.from_environment()))
            size = str(len(body["body"])).encode()
            head["headers"] = [(b"content-type", b"application/json"), (b"content-length", size)]
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        if scope["method"] == "POST":
            while (await receive()).get("more_body", False):
                pass
        await send(head)
        await send(body)

    return app


def empty() -> FastAPI:
    """FastAPI with the service's own models and nothing behind them."""
    service = create_app(Settings.from_environment())
    routes = service_routes(service)
    query_model = routes["GET"].dependant.query_params[0].field_info.annotation
    body_model = routes["POST"].body_field.field_info.annotation
    answer_model = routes["POST"].response_model or routes["POST"].responses[200]["model"]
    answers: list[Any] = []

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        answers.append(answer_model.model_validate(json.loads(await _sample(service))))
        yield

    app = FastAPI(lifespan=lifespan, telemetry={"tracing": False, "metrics": False, "logs": False})

    @app.get(PATH)
    async def get(query: Annotated[query_model, Query()]) -> answer_model:
        return answers[0]

    @app.post(PATH)
    async def post(body: body_model) -> answer_model:
        return answers[0]

    return app
