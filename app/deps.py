"""What routes need, opened once with the application and handed on by one alias."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Request

from app.answers.calculator import Calculator
from app.answers.kept import AnswerCache
from app.catalog.models import model_catalogue
from app.hub.ask import Observer
from app.hub.client import HubClient
from app.hub.config import HubConfig
from app.hub.store import BlobStore, MemoryBlobStore
from app.resolve.model import ModelResolver
from app.settings import Settings

if TYPE_CHECKING:
    from app.hub.shared_counts import SharedCounts


@dataclass(frozen=True, kw_only=True, slots=True)
class Services:
    """Everything with a life of its own. A new resource is a field here, opened below."""

    settings: Settings
    hub: HubClient
    models: ModelResolver
    answers: AnswerCache
    calculator: Calculator
    counts: "SharedCounts | None"
    """The requests of each caller, counted by all replicas together."""


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
        config = HubConfig.from_settings(settings)
        store = await _shared_store(settings, config, observer, stack)
        hub = HubClient(config, store=store, observer=observer)
        await stack.enter_async_context(hub)
        models = ModelResolver(model_catalogue(), hub)
        calculator = Calculator(models, answers)
        stack.push_async_callback(calculator.aclose)
        yield Services(
            settings=settings,
            hub=hub,
            models=models,
            answers=answers,
            calculator=calculator,
            counts=await _shared_counts(settings, observer, stack),
        )


async def _shared_store(
    settings: Settings, config: HubConfig, observer: Observer, stack: AsyncExitStack
) -> BlobStore | None:
    """Memory in front of Redis, where one is configured; its client is imported only then."""
    if settings.redis_url is None:
        return None
    from app.hub.shared_store import LayeredBlobStore, SharedBlobStore  # noqa: PLC0415

    token = settings.hub_token()
    shared = SharedBlobStore(
        settings.redis_url.get_secret_value(),
        namespace=f"{config.endpoint}\n{token.get_secret_value() if token else ''}",
        timeout_s=settings.redis_timeout_s,
        observer=observer,
    )
    await stack.enter_async_context(shared)
    return LayeredBlobStore(MemoryBlobStore(config.blob_cache_bytes), shared)


async def _shared_counts(
    settings: Settings, observer: Observer, stack: AsyncExitStack
) -> "SharedCounts | None":
    """The counters in Redis, where one is configured and there is something to count."""
    if settings.redis_url is None or settings.rate_limit is None:
        return None
    from app.hub.shared_counts import SharedCounts  # noqa: PLC0415

    counts = SharedCounts(
        settings.redis_url.get_secret_value(),
        window_s=settings.rate_limit_window_s,
        timeout_s=settings.redis_timeout_s,
        observer=observer,
    )
    return await stack.enter_async_context(counts)


async def _services(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


ServicesDep = Annotated[Services, Depends(_services)]
