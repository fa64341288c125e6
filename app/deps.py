"""What routes need, opened once with the application and handed on by one alias."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from app.catalog.models import model_catalogue
from app.hub.client import HubClient
from app.hub.config import HubConfig
from app.resolve.model import ModelResolver
from app.settings import Settings


@dataclass(frozen=True, kw_only=True, slots=True)
class Services:
    """Everything with a life of its own. A new resource is a field here, opened below."""

    settings: Settings
    hub: HubClient
    models: ModelResolver


@asynccontextmanager
async def open_services(settings: Settings) -> AsyncIterator[Services]:
    """Open what the application needs, and close it in reverse order."""
    async with HubClient(HubConfig.from_settings(settings)) as hub:
        models = ModelResolver(model_catalogue(), hub)
        yield Services(settings=settings, hub=hub, models=models)


async def _services(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


ServicesDep = Annotated[Services, Depends(_services)]
