"""The application: settings in, an ASGI app out."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from fastapi.middleware.asyncexitstack import AsyncExitStackMiddleware
from fastapi.telemetry import TelemetryConfig
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from app import __version__, problems
from app.answers.kept import AnswerCache
from app.api import batch, calculations, gpus, health, models, verify
from app.api import problems as problem_pages
from app.api.docs import mount_docs
from app.api.document import openapi_document
from app.api.metrics import mount_metrics
from app.api.routing import DirectRouter, UsualAnswers, mount
from app.catalog.gpus import gpu_catalogue
from app.catalog.models import model_catalogue
from app.deps import open_services
from app.edge.edge import Edge, Limits
from app.edge.front import Front
from app.edge.journal import AccessLog, Journal
from app.edge.keys import Gate
from app.edge.metrics import Metrics
from app.json_size import MAX_BATCH_VALUES, MAX_VALUES
from app.memory import steady_memory
from app.settings import Settings

_ROUTERS = (
    problem_pages.router,
    health.router,
    gpus.router,
    calculations.router,
    batch.router,
    models.router,
    verify.router,
)


_TELEMETRY_OFF: TelemetryConfig = {"tracing": False, "metrics": False, "logs": False}
# Exporters as the standard OTEL_ variables say; the SDK is looked for only then.
_TELEMETRY_ON: TelemetryConfig = {"auto_configure": True}


class Service(FastAPI):
    """FastAPI in our one layer, and with no others but those that its routes need.

    What is left out (error pages, telemetry, a second body limit) would cost a tenth of a request.
    """

    def __init__(self, *, settings: Settings, **options: Any) -> None:
        self.settings = settings
        in_front = settings.answer_cache_bytes // 4
        self.answers = AnswerCache(settings.answer_cache_bytes - in_front)
        front = Front(in_front, self.answers.clock)
        self.metrics = Metrics(
            lambda: self.answers.bytes + front.size,
            {
                "version": __version__,
                "gpu_catalogue": gpu_catalogue().version,
                "model_catalogue": model_catalogue().version,
            },
        )
        self.journal = Journal([AccessLog(), self.metrics])
        super().__init__(**options)
        self.edge = Edge(
            UsualAnswers(self, super().__call__),
            limits=Limits(
                body_bytes=settings.max_body_bytes,
                body_bytes_at={
                    "/verify": settings.max_log_bytes,
                    "/batch": settings.max_batch_bytes,
                },
                values=MAX_VALUES,
                values_at={"/batch": MAX_BATCH_VALUES},
                target_bytes=settings.max_target_bytes,
                header_bytes=settings.max_header_bytes,
                requests=settings.max_requests,
                bodies_bytes=settings.max_bodies_bytes,
                seconds=settings.request_timeout_s,
            ),
            max_age_s=settings.cache_max_age_s,
            answers=self.answers,
            front=front,
            journal=self.journal,
            gate=Gate.of(settings),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Through the edge; what it does not answer itself comes back to FastAPI."""
        await self.edge(scope, receive, send)

    def build_middleware_stack(self) -> ASGIApp:
        """The handlers for exceptions, then the stack that closes files, then the routes."""
        routes = AsyncExitStackMiddleware(DirectRouter(self.router))
        return ExceptionMiddleware(routes, handlers=self.exception_handlers)


def create_app(settings: Settings | None = None) -> FastAPI:
    """The service with these settings, or with those that the environment asks for."""
    settings = settings or Settings.from_environment()

    @asynccontextmanager
    async def lifespan(app: Service) -> AsyncIterator[None]:
        async with open_services(settings, app.answers, app.metrics.hub_event) as services:
            app.state.services = services
            if app.edge.gate is not None and services.counts is not None:
                app.edge.gate.share = services.counts.count
            with steady_memory():
                yield
        app.journal.flush()
        app.metrics.close()

    app = Service(
        settings=settings,
        title="kvmath",
        version=__version__,
        summary="KV cache arithmetic for LLM inference: bytes, concurrency, crossover, plans.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        telemetry=_TELEMETRY_ON if settings.telemetry else _TELEMETRY_OFF,
    )
    problems.install(app)
    for router in _ROUTERS:
        mount(app, router)
    mount_docs(app)
    mount_metrics(app, app.metrics, app.journal)
    app.openapi = lambda: openapi_document(app)  # type: ignore[method-assign] # FastAPI's documented way
    return app
