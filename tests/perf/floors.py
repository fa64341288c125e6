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

from app.main import create_app
from app.schemas.concurrency import ConcurrencyAnswer
from app.schemas.request import ConcurrencyBody, ConcurrencyQuery
from app.settings import Settings
from tests.perf.workload import PATH, Workload


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
    answers: list[ConcurrencyAnswer] = []

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        answers.append(ConcurrencyAnswer.model_validate(json.loads(await _sample(service))))
        yield

    app = FastAPI(lifespan=lifespan, telemetry={"tracing": False, "metrics": False, "logs": False})

    @app.get(PATH)
    async def get(query: Annotated[ConcurrencyQuery, Query()]) -> ConcurrencyAnswer:
        return answers[0]

    @app.post(PATH)
    async def post(body: ConcurrencyBody) -> ConcurrencyAnswer:
        return answers[0]

    return app
