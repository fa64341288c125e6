"""Files shared between replicas: against a real server that goes away, comes back, and lies."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from redis.asyncio import Redis

from app.hub.client import HubClient
from app.hub.config import HubConfig
from app.hub.shared_store import LayeredBlobStore, SharedBlobStore
from app.hub.store import Blob, BlobKey, MemoryBlobStore
from app.main import create_app
from app.settings import Settings
from tests.doubles import Clock, Events
from tests.fake_hub import COMMIT, FakeHub
from tests.running.configs import bytes_per_token, config_of
from tests.valkey import Valkey

KEY = BlobKey("org/model", COMMIT, "config.json")
BLOB = Blob(b'{"model_type": "llama"}')


@pytest.fixture
async def store(
    server: Valkey, raw: Redis, clock: Clock, events: Events
) -> AsyncIterator[SharedBlobStore]:
    async with _store(server, clock, events) as store:
        yield store


def _store(server: Valkey, clock: Clock, events: Events, **more: str) -> SharedBlobStore:
    namespace = more.get("namespace", "hub\n")
    return SharedBlobStore(
        server.url, namespace=namespace, observer=events, clock=clock, timeout_s=2
    )


async def test_what_one_replica_puts_another_gets(
    store: SharedBlobStore, server: Valkey, clock: Clock, events: Events
):
    await store.put(KEY, BLOB)
    await store.put(KEY._replace(file="params.json"), Blob(None))
    async with _store(server, clock, events) as other:
        assert await other.get(KEY) == BLOB
        assert await other.get(KEY._replace(file="params.json")) == Blob(None)
        assert await other.get(KEY._replace(file="else")) is None
    assert events == {("shared_store", "hit"): 2}


async def test_another_token_or_hub_sees_none_of_it(
    store: SharedBlobStore, server: Valkey, clock: Clock, events: Events
):
    """What a token made visible must not be shown to a replica without it."""
    await store.put(KEY, BLOB)
    for namespace in ("hub\nhf_token", "mirror\n"):
        async with _store(server, clock, events, namespace=namespace) as other:
            assert await other.get(KEY) is None


async def test_no_name_or_token_is_readable_in_a_key(store: SharedBlobStore, raw: Redis):
    await store.put(KEY, BLOB)
    (name,) = await raw.keys("*")
    assert name.startswith(b"kvmath:1:")
    assert b"org" not in name
    assert 0 < await raw.ttl(name) <= 7 * 86_400


@pytest.mark.parametrize(
    "spoil",
    [
        lambda value: value[:-1],
        lambda value: value[:20],
        lambda value: b"",
        lambda value: b"{}",
        lambda value: value + b"x",
        lambda value: value.replace(b"llama", b"gemma"),
        lambda value: value.replace(b"-blob-1", b"-blob-2"),
    ],
)
async def test_a_spoiled_value_is_a_miss(store: SharedBlobStore, raw: Redis, events: Events, spoil):
    await store.put(KEY, BLOB)
    (name,) = await raw.keys("*")
    await raw.set(name, spoil(await raw.get(name)))
    assert await store.get(KEY) is None
    assert events["shared_store", "corrupt"] == 1


async def test_a_value_under_another_key_is_a_miss(store: SharedBlobStore, raw: Redis):
    await store.put(KEY, BLOB)
    (name,) = await raw.keys("*")
    other = KEY._replace(commit="f" * 40)
    await store.put(other, Blob(b"x"))
    (other_name,) = set(await raw.keys("*")) - {name}
    await raw.set(other_name, await raw.get(name))
    assert await store.get(other) is None
    await raw.lpush("list", "x")
    await raw.rename("list", name)  # another type: an error of the server, not a value
    assert await store.get(KEY) is None


async def test_a_large_file_is_not_shared(store: SharedBlobStore, raw: Redis):
    await store.put(KEY, Blob(bytes(8_000_001)))
    assert await raw.keys("*") == []


async def test_a_server_that_goes_and_comes_back(clock: Clock, events: Events):
    with Valkey() as server:
        async with _store(server, clock, events) as store:
            await store.put(KEY, BLOB)
            server.kill()
            assert await store.get(KEY) is None
            await store.put(KEY, BLOB)
            for _ in range(100):  # nobody waits for it again at once
                assert await store.get(KEY) is None
            assert events["shared_store", "error"] == 1
            server.start()
            assert await store.get(KEY) is None
            clock.now += 0.6
            assert await store.get(KEY) is None  # it lost what it had
            await store.put(KEY, BLOB)
            assert await store.get(KEY) == BLOB


async def test_pauses_grow_and_are_bounded(clock: Clock, events: Events):
    server = Valkey()  # never started
    async with _store(server, clock, events) as store:
        waited = []
        for _ in range(9):
            assert await store.get(KEY) is None
            waited.append(store._resumes_at - clock.now)
            clock.now = store._resumes_at
    assert waited == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]


async def test_a_server_that_hangs_costs_a_bounded_wait(clock: Clock, events: Events):
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    store = SharedBlobStore(
        f"redis://127.0.0.1:{port}", namespace="", observer=events, timeout_s=0.05, clock=clock
    )
    async with server, store:
        assert await asyncio.wait_for(store.get(KEY), 5) is None
        assert await store.get(KEY) is None
    assert events == {("shared_store", "error"): 1}


async def test_the_near_store_learns_from_the_far_one():
    near, far = MemoryBlobStore(10_000), MemoryBlobStore(10_000)
    layered = LayeredBlobStore(near, far)
    await far.put(KEY, BLOB)
    assert await layered.get(KEY) == BLOB
    assert await near.get(KEY) == BLOB
    other = KEY._replace(file="params.json")
    await layered.put(other, Blob(None))
    assert await near.get(other) == await far.get(other) == Blob(None)


async def test_the_second_replica_does_not_fetch_the_file_again(
    server: Valkey, raw: Redis, clock: Clock, events: Events
):
    async with FakeHub() as hub:
        hub.add("org/model", {"config.json": config_of(1)})
        for _ in range(2):
            async with (
                _store(server, clock, events) as shared,
                HubClient(HubConfig(endpoint=hub.url), store=shared) as replica,
            ):
                assert (await replica.fetch_model("org/model")).config == config_of(1)
        assert len(hub.asked(r"/resolve/main/config\.json")) == 2
        assert len(hub.asked(r"resolve-cache.*config\.json")) == 1


async def test_the_service_answers_with_and_without_it(tmp_path: Path):
    """Through HTTP: cold with the server, cold while it is gone, cold after it came back."""
    async with FakeHub() as hub:
        for number in range(3):
            hub.add(f"org/model-{number}", {"config.json": config_of(number)})
        with Valkey() as server:
            app = create_app(
                Settings(hf_endpoint=hub.url, hf_home=tmp_path, hf_token=None, redis_url=server.url)
            )
            async with (
                app.router.lifespan_context(app),
                httpx.AsyncClient(
                    transport=httpx.ASGITransport(app), base_url="http://t"
                ) as client,
            ):
                for number, prepare in enumerate((None, server.kill, server.start)):
                    if prepare is not None:
                        prepare()
                    answer = await client.get(f"/kv?model=org/model-{number}&context=1")
                    assert answer.status_code == 200
                    assert answer.json()["kv_bytes_per_sequence"] == bytes_per_token(number)
