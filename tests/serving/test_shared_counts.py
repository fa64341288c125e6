"""A caller's rate over all processes: against a real server that goes away and comes back."""

import asyncio
from contextlib import AsyncExitStack
from hashlib import sha256
from typing import Any, ClassVar

import httpx
import pytest
from redis.asyncio import Redis

from app.deps import open_services
from app.edge.keys import Gate
from app.errors import TooManyRequests
from app.hub.shared_counts import Count, SharedCounts
from app.main import create_app
from app.settings import Settings
from tests.doubles import Clock, Events
from tests.valkey import Valkey


class Asked:
    """What a gate needs of an exchange."""

    scope: ClassVar = {"path": "/kv"}

    def __init__(self, key: bytes = b"first-key-0001") -> None:
        self.credentials = key
        self.caller = ""
        self.more_headers: tuple[tuple[bytes, bytes], ...] = ()


def _counts(url: str, clock: Clock, events: Events, **changed: Any) -> SharedCounts:
    values = {"window_s": 60, "observer": events, "clock": clock, "timeout_s": 2} | changed
    return SharedCounts(url, **values)


def _gate(counts: SharedCounts | None, clock: Clock, limit: int = 3) -> Gate:
    keys = {sha256(key).digest(): name for key, name in KEYS.items()}
    gate = Gate(keys, limit=limit, window_s=60, clock=clock)
    gate.share = counts.count if counts is not None else None
    return gate


KEYS = {b"first-key-0001": "ci", b"second-key-0002": "other"}


async def _let_through(gate: Gate, times: int, key: bytes = b"first-key-0001") -> int:
    answers = [await gate.admit(Asked(key)) for _ in range(times)]  # type: ignore[arg-type]
    assert all(isinstance(each, TooManyRequests) for each in answers if each is not None)
    return answers.count(None)


async def test_processes_count_together(server: Valkey, raw: Redis, clock: Clock, events: Events):
    """Three requests in a window are three, whoever of two answers them; of each caller."""
    async with _counts(server.url, clock, events) as one, _counts(server.url, clock, events) as two:
        gates = _gate(one, clock), _gate(two, clock)
        assert await _let_through(gates[0], 2) == 2
        assert await _let_through(gates[1], 5) == 1
        assert await _let_through(gates[0], 5) == 0
        assert await _let_through(gates[0], 5, b"second-key-0002") == 3
    assert not events


async def test_without_shared_counts_each_has_the_whole_rate(clock: Clock):
    assert [await _let_through(_gate(None, clock), 5) for _ in range(2)] == [3, 3]


async def test_headers_tell_what_is_left_for_all(
    server: Valkey, raw: Redis, clock: Clock, events: Events
):
    async with _counts(server.url, clock, events) as one, _counts(server.url, clock, events) as two:
        await _let_through(_gate(one, clock), 1)
        asked = Asked()
        assert await _gate(two, clock).admit(asked) is None  # type: ignore[arg-type]
    told = dict(asked.more_headers)
    assert asked.caller == "ci"
    assert told[b"ratelimit-policy"] == b'"caller";q=3;w=60'
    # Two of three are used; the window began a moment ago, and whole seconds are told rounded up.
    assert told[b"ratelimit"] in {b'"caller";r=1;t=60', b'"caller";r=1;t=61', b'"caller";r=1;t=59'}


async def test_a_window_begins_with_its_first_and_ends(
    server: Valkey, raw: Redis, clock: Clock, events: Events
):
    async with _counts(server.url, clock, events, window_s=1) as counts:
        number, left_s = await counts.count("ci") or Count(0, 0)
        assert number == 1
        assert 0.5 < left_s <= 1
        await asyncio.sleep(0.1)
        second = await counts.count("ci") or Count(0, 0)
        assert second.number == 2
        assert second.left_s < left_s  # a further one does not prolong it
        await asyncio.sleep(1)
        assert (await counts.count("ci") or Count(0, 0)).number == 1


async def test_a_counter_without_an_end_is_given_one(
    server: Valkey, raw: Redis, clock: Clock, events: Events
):
    """Else its caller would be refused for ever."""
    async with _counts(server.url, clock, events) as counts:
        await counts.count("ci")
        (name,) = await raw.keys("*")
        assert await raw.persist(name)
        await counts.count("ci")
    assert 0 < await raw.pttl(name) <= 60_000


async def test_no_name_is_readable_in_the_store(
    server: Valkey, raw: Redis, clock: Clock, events: Events
):
    async with _counts(server.url, clock, events) as counts:
        await counts.count("someone")
    (name,) = await raw.keys("*")
    assert name.startswith(b"kvmath:1:rate:")
    assert b"someone" not in name


async def test_many_at_once_are_numbered_without_gap_in_few_questions(
    server: Valkey, raw: Redis, clock: Clock, events: Events
):
    async with _counts(server.url, clock, events) as counts:
        await counts.count("ci")
        before = (await raw.info("commandstats"))["cmdstat_eval"]["calls"]
        names = ["ci", "other", "ci"] * 200
        numbered = await asyncio.gather(*[counts.count(name) for name in names])
        after = (await raw.info("commandstats"))["cmdstat_eval"]["calls"]
    of_each = {
        name: [count.number for who, count in zip(names, numbered, strict=True) if who == name]
        for name in ("ci", "other")
    }
    assert of_each == {"ci": [*range(2, 402)], "other": [*range(1, 201)]}
    assert after - before <= 2
    assert not events


async def test_one_who_goes_away_takes_nobody_along(
    server: Valkey, raw: Redis, clock: Clock, events: Events
):
    async with _counts(server.url, clock, events) as counts:
        gone, stays = (asyncio.create_task(counts.count("ci")) for _ in range(2))
        await asyncio.sleep(0)
        gone.cancel()
        assert (await stays or Count(0, 0)).number == 2
        assert gone.cancelled()


async def test_the_server_goes_and_comes_back(clock: Clock, events: Events):
    """While it is away each counts for itself, from where they stood; then together again."""
    with Valkey() as server:
        async with (
            _counts(server.url, clock, events) as one,
            _counts(server.url, clock, events) as two,
        ):
            gates = _gate(one, clock), _gate(two, clock)
            assert await _let_through(gates[0], 2) == 2
            server.kill()
            assert [await _let_through(gate, 5) for gate in gates] == [1, 3]
            assert events == {("shared_counts", "error"): 2}  # asked once, then left alone
            server.start()
            clock.now += 61
            assert await _let_through(gates[0], 2) == 2
            assert await _let_through(gates[1], 5) == 1


async def test_a_caller_who_is_over_is_refused_without_asking(
    server: Valkey, raw: Redis, clock: Clock, events: Events
):
    async with _counts(server.url, clock, events) as counts:
        gate = _gate(counts, clock)
        assert await _let_through(gate, 100) == 3
    (name,) = await raw.keys("*")
    assert await raw.get(name) == b"3"


@pytest.mark.parametrize("reply", [b"", b":1\r\n", b"+OK\r\n", b"*1\r\n:1\r\n", b"nonsense\r\n"])
async def test_a_server_that_hangs_or_answers_otherwise_costs_a_bounded_wait(
    clock: Clock, events: Events, reply: bytes
):
    async def odd(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(4096):
            writer.write(reply)
        writer.close()

    server = await asyncio.start_server(odd, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    counts = _counts(f"redis://127.0.0.1:{port}", clock, events, timeout_s=0.05)
    async with server, counts:
        assert await asyncio.wait_for(_let_through(_gate(counts, clock), 5), 5) == 3
    assert events["shared_counts", "error"] >= 1


async def test_services_open_them_where_there_is_something_to_count(
    settings: Settings, server: Valkey, raw: Redis
):
    given = settings.model_dump(exclude_unset=True) | {"redis_url": server.url}
    async with open_services(Settings(**given)) as services:
        assert services.counts is None
    given |= {"api_keys": "ci:first-key-0001", "rate_limit": 3}
    async with open_services(Settings(**given)) as services:
        assert services.counts is not None
        assert (await services.counts.count("ci") or Count(0, 0)).number == 1


async def test_two_replicas_answer_a_caller_three_times_in_all(
    settings: Settings, server: Valkey, raw: Redis
):
    """Through HTTP, whether the answer is in memory or not."""
    given = settings.model_dump(exclude_unset=True) | {
        "redis_url": server.url,
        "api_keys": "ci:first-key-0001",
        "rate_limit": 3,
    }
    async with AsyncExitStack() as stack:
        clients = []
        for _ in range(2):
            app = create_app(Settings(**given))
            await stack.enter_async_context(app.router.lifespan_context(app))
            transport = httpx.ASGITransport(app)
            client = httpx.AsyncClient(transport=transport, base_url="http://kvmath.test")
            clients.append(await stack.enter_async_context(client))
        key = {"x-api-key": "first-key-0001"}
        statuses = [
            (await client.get("/kv?model=llama-3-8b&context=8192", headers=key)).status_code
            for client in clients * 4
        ]
    assert statuses == [200, 200, 200, 429, 429, 429, 429, 429]
