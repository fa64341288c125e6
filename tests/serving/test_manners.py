"""Keys, rates, deadlines, room, the journal and the numbers: how the service behaves."""

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any, ClassVar

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response

from app.edge.keys import Gate
from app.edge.logs import JsonLines, log_config
from app.main import Service, create_app
from app.settings import Settings

KEYS = "ci:first-key-0001,second-key-0002"
KV = "/kv?model=llama-3-8b&context=8192"


@asynccontextmanager
async def serving(
    settings: Settings, **changed: Any
) -> AsyncIterator[tuple[Service, httpx.AsyncClient]]:
    values = settings.model_dump(exclude_unset=True) | changed
    app = create_app(Settings(**values))
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://kvmath.test") as client,
    ):
        yield app, client


async def test_without_keys_everybody_may_ask(client: httpx.AsyncClient):
    assert (await client.get(KV)).status_code == 200
    assert (await client.get(KV, headers={"authorization": "Bearer x"})).status_code == 200


async def test_a_key_is_needed_and_either_header_carries_it(settings: Settings):
    async with serving(settings, api_keys=KEYS) as (_, client):
        for headers in (
            {},
            {"authorization": "Bearer "},
            {"authorization": "Bearer first-key-0002"},
            {"authorization": "Basic first-key-0001"},
            {"x-api-key": ""},
            {"x-api-key": "ci"},
            {"x-api-key": "ci:first-key-0001"},
        ):
            for target in (KV, "/gpus", "/nowhere", "/openapi.json"):
                refused = await client.get(target, headers=headers)
                assert refused.status_code == 401
                assert refused.headers["www-authenticate"] == "Bearer"
                assert refused.headers["cache-control"] == "no-store"
                assert refused.json()["type"] == "/problems/not-authenticated"
        for headers in (
            {"authorization": "Bearer first-key-0001"},
            {"authorization": "bearer second-key-0002"},
            {"x-api-key": "second-key-0002"},
        ):
            allowed = await client.get(KV, headers=headers)
            assert allowed.status_code == 200
            # What needs a key must not be given out by a cache between.
            assert allowed.headers["cache-control"] == "private, max-age=300"
        for target in ("/livez", "/readyz", "/metrics"):
            assert (await client.get(target)).status_code == 200


async def test_an_answer_in_memory_needs_the_key_too(settings: Settings):
    async with serving(settings, api_keys=KEYS) as (app, client):
        for _ in range(2):
            await client.get(KV, headers={"x-api-key": "first-key-0001"})
        assert len(app.answers) == 2
        assert (await client.get(KV)).status_code == 401


async def test_a_rate_for_each_key(settings: Settings):
    async with serving(settings, api_keys=KEYS, rate_limit=3, rate_limit_window_s=60) as (
        _,
        client,
    ):
        first, second = {"x-api-key": "first-key-0001"}, {"x-api-key": "second-key-0002"}
        for remaining in (2, 1, 0):
            answer = await client.get(KV, headers=first)
            assert answer.status_code == 200
            assert answer.headers["ratelimit-policy"] == '"caller";q=3;w=60'
            assert re.fullmatch(rf'"caller";r={remaining};t=\d+', answer.headers["ratelimit"])
        over = await client.get(KV, headers=first)
        assert over.status_code == 429
        assert over.json()["type"] == "/problems/too-many-requests"
        assert 1 <= int(over.headers["retry-after"]) <= 60
        assert over.headers["ratelimit"].startswith('"caller";r=0;t=')
        assert (await client.get(KV, headers=second)).status_code == 200


async def test_a_window_ends():
    now = [100.0]
    gate = Gate({sha256(b"key").digest(): "a"}, limit=1, window_s=10, clock=lambda: now[0])

    class Asked:
        more_headers = ()
        scope: ClassVar = {"path": "/kv"}
        credentials = b"key"

    assert await gate.admit(Asked()) is None  # type: ignore[arg-type] # all it needs
    refused = await gate.admit(Asked())  # type: ignore[arg-type] # all it needs
    assert refused is not None
    assert refused.retry_after == 10
    now[0] += 10
    assert await gate.admit(Asked()) is None  # type: ignore[arg-type] # all it needs


def test_every_key_is_compared(monkeypatch: pytest.MonkeyPatch):
    """Whichever key is sent, and whether it is one: the same number of comparisons."""
    compared: list[int] = []

    def compare(a: bytes, b: bytes) -> bool:
        compared.append(1)
        return a == b

    monkeypatch.setattr("hmac.compare_digest", compare)
    gate = Gate.of(Settings(api_keys=KEYS))
    assert gate is not None
    for credentials in (b"Bearer first-key-0001", b"second-key-0002", b"wrong"):
        compared.clear()
        gate._caller(credentials)
        assert len(compared) == 2


def test_keys_are_told_apart_and_not_shown(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("KVMATH_API_KEYS", " ci:first-key-0001 , second-key-0002 ,")
    settings = Settings()
    assert [*settings.api_keys] == ["ci", "key-2"]
    assert "first-key" not in repr(settings)
    monkeypatch.setenv("KVMATH_API_KEYS", "ci:short")
    with pytest.raises(ValueError, match="at least 8") as refused:
        Settings()
    assert "short" not in str(refused.value).replace("too_short", "")
    monkeypatch.delenv("KVMATH_API_KEYS")
    assert Settings().api_keys == {}


async def test_a_deadline(settings: Settings):
    async with serving(settings, request_timeout_s=0.05) as (app, client):

        async def slow(request: Request) -> Response:
            await asyncio.sleep(60)
            return Response()

        app.add_route("/slow", slow)
        answer = await client.get("/slow")
        assert answer.status_code == 504
        assert answer.json()["type"] == "/problems/deadline-passed"
        assert answer.headers["retry-after"] == "1"
        assert (await client.get(KV)).status_code == 200


async def test_a_body_that_does_not_come(settings: Settings):
    async def drip() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.sleep(60)

    async with serving(settings, request_timeout_s=0.05) as (_, client):
        answer = await client.post("/kv", content=drip())
        assert (answer.status_code, answer.json()["title"]) == (408, "Request timeout")


async def test_bodies_together_are_bounded(settings: Settings):
    """While one large body is being worked on, another has to wait; small ones need not."""
    release, begun = asyncio.Event(), asyncio.Event()

    async with serving(settings, max_bodies_bytes=1500, max_body_bytes=1024) as (app, client):

        async def hold(request: Request) -> Response:
            begun.set()
            await release.wait()
            return Response()

        app.add_route("/hold", hold, methods=["POST"])
        first = asyncio.create_task(client.post("/hold", content=b"x" * 1000))
        await begun.wait()

        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(10):
                yield b"x" * 100

        for content in (b"x" * 1000, pieces()):
            refused = await client.post("/kv", content=content)
            assert refused.status_code == 503
            assert refused.headers["retry-after"] == "1"
        assert (await client.post("/kv", json={"model": "llama-3-8b"})).status_code == 200
        release.set()
        assert (await first).status_code == 200
        assert (await client.post("/kv", content=b"x" * 1000)).status_code == 422


async def test_one_line_a_request(settings: Settings, caplog: pytest.LogCaptureFixture):
    async with serving(settings, api_keys=KEYS) as (app, client):
        with caplog.at_level(logging.INFO, "kvmath.access"):
            headers = {"x-api-key": "first-key-0001", "x-request-id": "mine"}
            for _ in range(3):
                await client.get(f"{KV}&explain=true", headers=headers)
            await client.post("/kv", json={"config": {"secret": "s3cret"}}, headers=headers)
            await client.get("/no%22%0Awhere", headers={"authorization": "Bearer no-such-key"})
            app.journal.flush()
    lines = "\n".join(record.getMessage() for record in caplog.records).splitlines()
    entries = [json.loads(line) for line in lines]
    assert [(e["method"], e["path"], e["status"], e["cached"]) for e in entries] == [
        ("GET", "/kv", 200, False),
        ("GET", "/kv", 200, False),
        ("GET", "/kv", 200, True),
        ("POST", "/kv", 422, False),
        ("GET", '/no"\nwhere', 401, False),
    ]
    assert [entry.get("caller") for entry in entries] == ["ci", "ci", "ci", "ci", None]
    assert entries[0]["request_id"] == "mine"
    assert entries[3]["received_bytes"] == len('{"config":{"secret":"s3cret"}}')
    assert all(entry["duration_us"] > 0 and entry["sent_bytes"] > 0 for entry in entries)
    for secret in ("s3cret", "first-key", "no-such-key", "explain", "llama"):
        assert secret not in "".join(lines)


async def test_the_journal_is_told_without_being_asked(
    client: httpx.AsyncClient, app: Service, caplog: pytest.LogCaptureFixture
):
    with caplog.at_level(logging.INFO, "kvmath.access"):
        await client.get("/livez")
        while not caplog.records:
            await asyncio.sleep(0.005)
    assert json.loads(caplog.records[0].getMessage())["path"] == "/livez"


def test_other_logs_are_lines_of_json_too():
    line = JsonLines().format
    record = logging.LogRecord("kvmath", logging.ERROR, "f", 1, 'a "%s"\nb', ("x",), None)
    assert json.loads(line(record))["message"] == 'a "x"\nb'
    assert "\n" not in line(record)
    try:
        int("told nobody")
    except ValueError as error:
        info = (ValueError, error, error.__traceback__)
    told = line(logging.LogRecord("kvmath", logging.ERROR, "f", 1, "failed", (), info))
    assert json.loads(told)["exception"] == "ValueError"
    assert "base 10" not in told  # an exception's text may repeat what was sent
    for requests, level in ((True, "INFO"), (False, "WARNING")):
        assert log_config("INFO", requests=requests)["loggers"]["kvmath.access"]["level"] == level


async def test_metrics(settings: Settings):
    async with serving(settings) as (_, client):
        for target in (KV, KV, KV, "/kv?model=llama-3-8b&context=0", "/nowhere", "/gpus/h100"):
            await client.get(target)
        await client.request("BREW", "/kv")
        answer = await client.get("/metrics")
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        assert answer.headers["cache-control"] == "no-store"
    told = answer.text.splitlines()
    for line in (
        'kvmath_requests_total{method="GET",route="/kv",status="200"} 3.0',
        'kvmath_requests_total{method="GET",route="/kv",status="422"} 1.0',
        'kvmath_requests_total{method="GET",route="other",status="404"} 1.0',
        'kvmath_requests_total{method="GET",route="/gpus/{id}",status="200"} 1.0',
        'kvmath_requests_total{method="other",route="/kv",status="405"} 1.0',
        'kvmath_request_duration_seconds_count{route="/kv"} 5.0',
        "kvmath_answers_from_memory_total 1.0",
    ):
        assert line in told
    assert any(line.startswith("kvmath_build_info{") and line.endswith(" 1.0") for line in told)
    assert any(line.startswith("process_resident_memory_bytes") for line in told)


async def test_telemetry_is_off(app: Service):
    assert not app._native_telemetry.enabled()
