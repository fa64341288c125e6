from collections.abc import AsyncIterator, Iterator

import pytest
from redis.asyncio import Redis

from tests.doubles import Clock, Events
from tests.valkey import Valkey


@pytest.fixture(scope="module")
def server() -> Iterator[Valkey]:
    with Valkey() as valkey:
        yield valkey


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def events() -> Events:
    return Events()


@pytest.fixture
async def raw(server: Valkey) -> AsyncIterator[Redis]:
    """A client of the server, which holds nothing."""
    async with Redis.from_url(server.url) as client:
        await client.flushall()
        yield client
