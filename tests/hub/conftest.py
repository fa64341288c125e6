from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from app.hub.client import HubClient
from app.hub.config import HubConfig
from tests.doubles import Clock
from tests.fake_hub import FakeHub

LLAMA = {"model_type": "llama", "num_hidden_layers": 2}


MakeClient = Callable[..., HubClient]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def hub() -> AsyncIterator[FakeHub]:
    async with FakeHub() as fake:
        fake.add("org/model", {"config.json": LLAMA})
        yield fake


@pytest.fixture
async def make_client(hub: FakeHub, clock: Clock) -> AsyncIterator[MakeClient]:
    """Clients of the fake hub; keyword arguments are `HubConfig`'s."""
    made: list[HubClient] = []

    def make(observer: Callable[[str, str], None] = lambda *_: None, **config: Any) -> HubClient:
        client = HubClient(
            HubConfig(**{"endpoint": hub.url, "timeout_s": 30.0} | config),
            observer=observer,
            clock=clock,
            sleep=clock.sleep,
            jitter=lambda: 1.0,
        )
        made.append(client)
        return client

    yield make
    for client in made:
        await client.aclose()


@pytest.fixture
def client(make_client: MakeClient) -> HubClient:
    return make_client()
