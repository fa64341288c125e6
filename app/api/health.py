"""Is the process alive, and may it be sent requests: for orchestrators, never cached."""

from fastapi import Response

from app.api.routing import api_router
from app.deps import ServicesDep
from app.schemas.health import Health

router = api_router("health")


@router.get("/livez", summary="The process answers")
async def livez(response: Response) -> Health:
    """Answers as long as the event loop turns; touches nothing else."""
    response.headers["cache-control"] = "no-store"
    return Health(status="ok")


@router.get("/readyz", summary="The process may be sent requests")
async def readyz(response: Response, _services: ServicesDep) -> Health:
    """Answers once every resource of the application is open."""
    response.headers["cache-control"] = "no-store"
    return Health(status="ok")
