"""Requests that come in the same bytes as before: which are answered before they are parsed."""

import asyncio
import contextlib
import json
import logging
import socket
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from app.edge.front import MAX_REQUEST_BYTES, Front, Known
from app.main import Service, create_app
from app.settings import Settings
from tests.doubles import Clock
from tests.fake_hub import COMMIT, FakeHub
from tests.running.configs import config_of
from tests.running.process import free_port

KV = "/kv?model=llama-3-8b&context=8192"
LEARNED_AFTER = 3
"""Computed, kept under its own words, answered from memory; then the front knows it."""


class Seen(Service):
    """The service, with the targets that came through to it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.targets: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            self.targets.append(f"{scope['method']} {scope['path']}")
        await super().__call__(scope, receive, send)


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes


@dataclass
class Caller:
    """One connection on which bytes are sent as they are."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    port: int
    app: Seen = field(repr=False)
    connections: Collection[object] = field(repr=False)

    async def send(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()
            await asyncio.sleep(0.02)  # a segment of its own

    async def answer(self) -> Answer:
        head = (await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), 20)).decode()
        first, *lines = head.split("\r\n")[:-2]
        headers = dict(line.split(": ", 1) for line in lines)
        assert len(headers) == len(lines)
        size = 0 if first.split()[1] == "304" else int(headers["content-length"])
        return Answer(int(first.split()[1]), headers, await self.reader.readexactly(size))

    async def ask(self, raw: bytes) -> Answer:
        self.writer.write(raw)
        return await self.answer()

    async def came_through(self, raw: bytes) -> bool:
        """Whether a request, asked often enough to be known, is still parsed and routed."""
        for _ in range(LEARNED_AFTER):
            await self.ask(raw)
        before = len(self.app.targets)
        await self.ask(raw)
        return len(self.app.targets) > before


@asynccontextmanager
async def served(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Caller]:
    monkeypatch.setattr("app.main.Service", Seen)
    app = create_app(settings)
    assert isinstance(app, Seen)
    port = free_port()
    config = uvicorn.Config(
        app,
        port=port,
        http="app.edge.protocol:EdgeProtocol",
        ws="none",
        proxy_headers=False,
        access_log=False,
        log_config=None,
    )
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.005)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    yield Caller(reader, writer, port, app, server.server_state.connections)
    server.should_exit = True
    await asyncio.wait_for(running, 10)  # an idle connection that the front answered is closed
    assert await reader.read() == b""
    writer.close()


@pytest.fixture
async def caller(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Caller]:
    async with served(settings, monkeypatch) as found:
        yield found


def get(target: str, *lines: str) -> bytes:
    return "\r\n".join([f"GET {target} HTTP/1.1", "Host: kvmath", *lines, "", ""]).encode()


async def test_the_same_bytes_are_answered_alike_and_not_parsed_again(
    caller: Caller, caplog: pytest.LogCaptureFixture
):
    with caplog.at_level(logging.INFO, "kvmath.access"):
        answers = [await caller.ask(get(KV)) for _ in range(LEARNED_AFTER + 3)]
        caller.app.journal.flush()
    assert caller.app.targets == ["GET /kv"] * LEARNED_AFTER
    assert {(each.status, each.body) for each in answers} == {(200, answers[0].body)}
    assert json.loads(answers[0].body)["context"] == 8192
    by_routing, by_front = answers[LEARNED_AFTER - 1].headers, answers[-1].headers
    assert by_front.keys() == by_routing.keys()
    own = {"date", "x-request-id"}
    assert {k: v for k, v in by_front.items() if k not in own} == {
        k: v for k, v in by_routing.items() if k not in own
    }
    ids = [each.headers["x-request-id"] for each in answers]
    assert len(set(ids)) == len(ids)
    entries = [json.loads(line) for r in caplog.records for line in r.getMessage().splitlines()]
    assert [entry["request_id"] for entry in entries] == ids
    assert {(e["path"], e["status"], e["sent_bytes"]) for e in entries} == {
        ("/kv", 200, len(answers[0].body))
    }
    assert [entry["cached"] for entry in entries] == [False, False, *[True] * 4]
    metrics = (await caller.ask(get("/metrics"))).body.decode()
    assert 'kvmath_requests_total{method="GET",route="/kv",status="200"} 6.0' in metrics
    assert "kvmath_answers_from_memory_total 4.0" in metrics


async def test_an_unchanged_answer_is_304(caller: Caller):
    etag = (await caller.ask(get(KV))).headers["etag"]
    raw = get(KV, f"If-None-Match: {etag}")
    answers = [await caller.ask(raw) for _ in range(LEARNED_AFTER + 2)]
    assert len(caller.app.targets) == 1 + 2  # the first had the query kept under its words
    assert {(each.status, each.headers["etag"], each.body) for each in answers} == {
        (304, etag, b"")
    }
    assert "content-length" not in answers[-1].headers
    other = get(KV, 'If-None-Match: "other"')
    assert not await caller.came_through(other)
    assert (await caller.ask(other)).status == 200


@pytest.mark.parametrize(
    "lines",
    [
        ("User-Agent: a", "Accept: */*", "Accept-Encoding: gzip"),
        ("Connection: keep-alive", "Accept: application/json"),
    ],
)
async def test_what_clients_usually_send_is_known(caller: Caller, lines: tuple[str, ...]):
    assert not await caller.came_through(get(KV, *lines))


@pytest.mark.parametrize(
    "raw",
    [
        get(KV, "X-Request-Id: mine"),
        get(KV, "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        get(KV, "Authorization: Bearer x"),
        get(KV, "Upgrade: h2c", "Connection: Upgrade"),
        get(KV, "X-Anything: else"),
        get(KV, "User-Agent: " + "a" * MAX_REQUEST_BYTES),
        get("/livez"),
        get("/nowhere"),
        get("/kv?model=nobody&context=1"),
    ],
)
async def test_what_may_mean_something_else_next_time_is_not_known(caller: Caller, raw: bytes):
    assert await caller.came_through(raw)


async def test_a_head_is_asked_for_each_time(caller: Caller):
    assert not await caller.came_through(get(KV))
    for _ in range(LEARNED_AFTER + 2):
        await caller.send(get(KV).replace(b"GET", b"HEAD"))
        head = await asyncio.wait_for(caller.reader.readuntil(b"\r\n\r\n"), 20)
        assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert caller.app.targets[-LEARNED_AFTER - 2 :] == ["HEAD /kv"] * (LEARNED_AFTER + 2)


async def test_the_callers_own_id_comes_back_beside_a_known_request(caller: Caller):
    assert not await caller.came_through(get(KV))
    answer = await caller.ask(get(KV, "X-Request-Id: mine"))
    assert answer.headers["x-request-id"] == "mine"


async def test_a_connection_that_is_to_be_closed_is_closed(caller: Caller):
    assert not await caller.came_through(get(KV))
    await caller.ask(get(KV, "Connection: close"))
    assert await caller.reader.read() == b""


async def test_a_caller_that_speaks_the_older_protocol_is_hung_up_on(caller: Caller):
    old = get(KV).replace(b"HTTP/1.1", b"HTTP/1.0")
    for _ in range(LEARNED_AFTER + 2):
        reader, writer = await asyncio.open_connection("127.0.0.1", caller.port)
        writer.write(old)
        said = await asyncio.wait_for(reader.read(), 10)
        assert said.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"\r\nconnection: close\r\n" in said
        writer.close()
    assert len(caller.app.targets) == LEARNED_AFTER + 2


async def test_a_known_request_within_another_is_a_part_of_it(caller: Caller):
    known = get(KV)
    assert not await caller.came_through(known)
    head = (
        "POST /kv HTTP/1.1\r\nHost: kvmath\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(known)}\r\n\r\n"
    )
    await caller.send(head.encode(), known)
    assert (await caller.answer()).status == 422  # a request line is no JSON
    chunked = head.replace(f"Content-Length: {len(known)}", "Transfer-Encoding: chunked")
    await caller.send(chunked.encode() + b"%x\r\n" % len(known), known, b"\r\n0\r\n\r\n")
    assert (await caller.answer()).status == 422
    with_body = get(KV, f"Content-Length: {len(known)}")
    await caller.send(with_body, known)
    assert (await caller.answer()).status == 200
    await caller.send(b"GET /livez HTTP/1.1\r\nHost: kvmath\r\nX: ", known)
    assert (await caller.answer()).body == b'{"status":"ok"}'
    assert (await caller.ask(get("/livez"))).body == b'{"status":"ok"}'


async def test_a_request_in_pieces_and_several_in_one(caller: Caller):
    known = get(KV)
    assert not await caller.came_through(known)
    await caller.send(known[:20], known[20:])
    assert (await caller.answer()).status == 200
    await caller.send(get("/livez")[:-4], b"\r\nX: y\r\n\r\n" + known)
    assert (await caller.answer()).body == b'{"status":"ok"}'
    assert json.loads((await caller.answer()).body)["context"] == 8192
    await caller.send(known + known + get("/livez"))
    bodies = [(await caller.answer()).body for _ in range(3)]
    assert bodies[0] == bodies[1]
    assert bodies[2] == b'{"status":"ok"}'


async def test_answers_keep_the_order_of_their_requests(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
):
    known = get(KV)
    assert not await caller.came_through(known)
    through = Service.__call__

    async def slowly(app: Service, scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.sleep(0.2)
        await through(app, scope, receive, send)

    monkeypatch.setattr(Service, "__call__", slowly)
    await caller.send(get("/livez"), known)
    assert (await caller.answer()).body == b'{"status":"ok"}'
    assert json.loads((await caller.answer()).body)["context"] == 8192


async def test_with_keys_every_request_is_looked_at(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    keyed = settings.model_copy(update=Settings(api_keys="a:secret-key-1").model_dump())
    async with served(keyed, monkeypatch) as caller:
        assert await caller.came_through(get(KV, "X-API-Key: secret-key-1"))
        assert (await caller.ask(get(KV))).status == 401


async def test_an_answer_that_rests_on_a_branch_is_known_for_a_second(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    async with FakeHub() as hub:
        hub.add("org/model", {"config.json": config_of(1)})
        online = Settings(hf_endpoint=hub.url, hf_home=settings.hf_home, hf_token=None)
        async with served(online, monkeypatch) as caller:
            of_branch = get("/kv?model=org/model&context=9")
            answers = [await caller.ask(of_branch) for _ in range(LEARNED_AFTER + 1)]
            assert len(caller.app.targets) == LEARNED_AFTER
            ages = [int(each.headers["cache-control"].partition("=")[2]) for each in answers]
            assert 297 <= ages[-1] < ages[0] <= 300  # never more than what is left
            await asyncio.sleep(1.05)
            assert (await caller.ask(of_branch)).body == answers[0].body
            assert len(caller.app.targets) == LEARNED_AFTER + 1
            at_commit = f"/kv?model=org/model&context=9&revision={COMMIT}"
            assert not await caller.came_through(get(at_commit))


def test_what_ages_is_known_no_longer_than_it_is_fresh():
    clock = Clock()
    front = Front(100_000, clock)
    front.learn(b"ages", [], Known("/kv", clock.now + 0.5, 200, [], b"x"))
    front.learn(b"lasts", [], Known("/kv", None, 200, [], b"x"))
    assert front.answer(b"ages", []) is not None
    clock.now += 0.5
    assert front.answer(b"ages", []) is None
    assert front.answer(b"lasts", []) is not None


def test_the_front_is_bounded_by_bytes():
    front = Front(100_000)
    for number in range(300):
        front.learn(b"%d" % number, [], Known("/kv", None, 200, [], b"x" * 1000))
    assert 0 < front.size <= 100_000
    front.learn(b"large", [], Known("/kv", None, 200, [], b"x" * 50_000))
    assert front.answer(b"large", []) is None


@pytest.mark.parametrize(
    "endless",
    [
        b"GET /livez HTTP/1.1\r\nX: " + b"a" * 400_000,
        b"GET /" + b"a" * 400_000,
        b"GET /livez HTTP/1.1\r\n" + b"X: a\r\n" * 70_000,
    ],
)
async def test_a_head_without_end_is_cut_off(caller: Caller, endless: bytes):
    caller.writer.write(endless)
    answer = await caller.answer()
    assert (answer.status, answer.headers["content-type"]) == (431, "application/problem+json")
    problem = json.loads(answer.body)
    assert problem["request_id"] == answer.headers["x-request-id"]
    assert await asyncio.wait_for(caller.reader.read(), 5) == b""
    assert caller.app.targets == []


async def test_trailer_fields_without_end_are_cut_off(caller: Caller):
    reader, writer = await asyncio.open_connection("127.0.0.1", caller.port)
    head = "POST /kv HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Transfer-Encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n".encode())
    with contextlib.suppress(ConnectionError):  # bytes of ours may still be on their way
        for _ in range(200):
            writer.write(b"X: a\r\n" * 1000)
            await asyncio.wait_for(writer.drain(), 5)
            await asyncio.sleep(0)
        assert await asyncio.wait_for(reader.read(), 5) == b""
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


async def test_a_large_body_in_small_chunks_is_no_head(caller: Caller):
    text = json.dumps({"model": "llama-3-8b", "contexts": list(range(1, 250))}).ljust(100_000)
    pieces = [text[at : at + 10] for at in range(0, len(text), 10)]
    chunks = "".join(f"{len(piece):x}\r\n{piece}\r\n" for piece in pieces)
    head = "POST /kv HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    caller.writer.write(f"{head}Transfer-Encoding: chunked\r\n\r\n{chunks}0\r\n\r\n".encode())
    assert (await caller.answer()).status == 200


async def test_a_head_that_does_not_come_is_not_waited_for(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    hasty = settings.model_copy(update={"request_timeout_s": 0.5})
    async with served(hasty, monkeypatch) as caller:
        while (await caller.ask(get(KV))).status != 200:  # the first has to load the families
            pass
        assert not await caller.came_through(get(KV))  # a connection that was of use is no other
        began = asyncio.get_running_loop().time()
        caller.writer.write(get(KV)[:-2])
        for _ in range(3):  # a byte now and then prolongs nothing
            await asyncio.sleep(0.1)
            caller.writer.write(b"X")
        late = await caller.answer()
        assert 0.4 < asyncio.get_running_loop().time() - began < 3
        assert (late.status, late.headers["connection"]) == (408, "close")
        assert json.loads(late.body)["title"] == "Request timeout"
        for silence in (b"", b"\r\n"):
            reader, writer = await asyncio.open_connection("127.0.0.1", caller.port)
            writer.write(silence)
            assert await asyncio.wait_for(reader.read(), 5) == b""
            writer.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", caller.port)
        for _ in range(10):  # longer in all than one request may take
            writer.write(get(KV))
            await reader.readuntil(b"\r\n\r\n")
            await asyncio.sleep(0.1)
        assert not reader.at_eof()
        writer.close()


async def test_a_caller_that_reads_nothing_is_not_waited_for(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    hasty = settings.model_copy(update={"request_timeout_s": 0.5})
    async with served(hasty, monkeypatch) as caller:
        picture = get("/crossover?model=llama-3-8b&format=svg")
        while (await caller.ask(picture)).status != 200:  # the first has to load what draws
            pass
        assert not await caller.came_through(picture)  # no answer to these has a deadline
        size, loop = len((await caller.ask(picture)).body), asyncio.get_running_loop()
        others = set(caller.connections)
        with socket.create_connection(("127.0.0.1", caller.port)) as silent:
            silent.setblocking(False)
            asked = picture * (50_000_000 // size)  # for more than the system holds on the way
            asking = asyncio.create_task(loop.sock_sendall(silent, asked))
            async with asyncio.timeout(20):
                while not set(caller.connections) - others:
                    await asyncio.sleep(0.01)
                while set(caller.connections) - others:
                    await asyncio.sleep(0.05)
                with contextlib.suppress(ConnectionError):
                    await asking


async def test_an_upgrade_is_left_alone(caller: Caller):
    upgrade = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13")
    key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
    answer = await caller.ask(get("/livez", *upgrade, key))
    assert (answer.status, answer.body) == (200, b'{"status":"ok"}')
    assert "x-request-id" in answer.headers
