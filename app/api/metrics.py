"""Numbers for Prometheus; not part of the documented interface."""

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from app.deps import Services
from app.edge.journal import Journal
from app.edge.metrics import MEDIA_TYPE, Metrics


def mount_metrics(app: FastAPI, metrics: Metrics, journal: Journal) -> None:
    """Answer /metrics with what has been counted up to this request."""

    async def answer(request: Request) -> Response:
        services: Services = request.app.state.services
        journal.flush()
        metrics.hub_budget(services.hub.budget_left())
        return Response(
            metrics.text(), media_type=MEDIA_TYPE, headers={"cache-control": "no-store"}
        )

    app.add_route("/metrics", answer)
