"""What routes need, opened once with the application and handed on by one alias."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from app.answers.calculator import Calculator
from app.answers.kept import AnswerCache
from app.catalog.models import model_catalogue
from app.hub.ask import Observer
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
    answers: AnswerCache
    calculator: Calculator


def _ignore(*_event: str) -> None:
    """The observer of those who observe nothing."""


@asynccontextmanager
async def open_services(
    settings: Settings, answers: AnswerCache | None = None, observer: Observer = _ignore
) -> AsyncIterator[Services]:
    """Open what the application needs, and close it in reverse order."""
    if answers is None:
        answers = AnswerCache(settings.answer_cache_bytes)
    async with AsyncExitStack() as stack:
        hub = HubClient(HubConfig.from_settings(settings), observer=observer)
        await stack.enter_async_context(hub)
        models = ModelResolver(model_catalogue(), hub)
        calculator = Calculator(models, answers)
        stack.push_async_callback(calculator.aclose)
        yield Services(
            settings=settings, hub=hub, models=models, answers=answers, calculator=calculator
        )


async def _services(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


ServicesDep = Annotated[Services, Depends(_services)]
