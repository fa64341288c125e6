"""Bytes that nobody should send, and sequences of requests: never a 500, never a hang."""

import asyncio
import json
import random
from pathlib import Path

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.perf.fuzz import Asker, mutated, real_configs, with_service
from tests.running.process import service

PATHS = ["/kv", "/concurrency", "/crossover", "/plan", "/batch", "/verify", "/gpus", "/nowhere"]
_FEW = settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@_FEW
@given(
    path=st.sampled_from(PATHS),
    method=st.sampled_from(["POST", "GET", "HEAD", "PUT", "BREW"]),
    body=st.binary(max_size=200) | st.text(max_size=50).map(lambda text: text.encode()),
    kind=st.sampled_from(["application/json", "text/plain", "application/json; charset=x", ""]),
)
async def test_any_bytes_as_a_body(
    client: httpx.AsyncClient, path: str, method: str, body: bytes, kind: str
):
    answer = await client.request(method, path, content=body, headers={"content-type": kind})
    assert answer.status_code in {200, 404, 405, 413, 422}
    if answer.status_code >= 400:
        assert answer.headers["content-type"] == "application/problem+json"


@_FEW
@given(path=st.sampled_from(PATHS), query=st.binary(max_size=60))
async def test_any_bytes_as_a_query(app, client: httpx.AsyncClient, path: str, query: bytes):
    sent: list[dict] = []
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": query,
        "headers": [(b"accept", query), (b"if-none-match", query), (b"x-request-id", query)],
        "server": ("kvmath.test", 80),
        "client": ("127.0.0.1", 1),
    }

    async def receive() -> dict:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict) -> None:
        sent.append(message)

    await app(scope, receive, send)
    assert sent[0]["status"] in {200, 304, 404, 405, 422}


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le"])
@pytest.mark.parametrize("path", ["/kv", "/plan", "/batch"])
async def test_json_is_utf_8(client: httpx.AsyncClient, path: str, encoding: str):
    text = '{"items": []}' if path == "/batch" else '{"model": "llama-3-8b", "context": 9}'
    for words in ("application/json", "APPLICATION/JSON"):
        headers = {"content-type": words}
        answer = await client.post(path, content=text.encode(encoding), headers=headers)
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["msg"] == "not UTF-8"


async def test_a_body_of_nothing_but_brackets_is_not_unfolded(client: httpx.AsyncClient):
    many = "[]," * 300_000  # a megabyte that would take a hundred as objects
    config = f'{{"path": "/kv", "context": 1, "config": {{"x": [{many}1]}}}}'
    json_type = {"content-type": "application/json; charset=utf-8"}
    for words in (json_type["content-type"], "Application/JSON", "application/vnd.x+Json"):
        alone = await client.post("/kv", content=config, headers={"content-type": words})
        assert (alone.status_code, alone.json()["limit_values"]) == (413, 250_000)
    kv = '{"path": "/kv", "model": "llama-3-8b", "context": 1}'
    answer = await client.post(
        "/batch",
        content=f'{{"items": [{kv}, {config}, {kv}]}}',
        headers={"content-type": "application/json"},
    )
    assert [result["status"] for result in answer.json()["results"]] == [200, 413, 200]
    whole = f'{{"items": [{config}, {config}]}}'
    refused = await client.post("/batch", content=whole, headers=json_type)
    assert (refused.status_code, refused.json()["limit_values"]) == (413, 1_000_000)


def test_mutated_configs_get_an_answer_or_a_reason():
    """A few of what `make fuzz` does a hundred thousand times."""
    chance, configs = random.Random(20261129), real_configs()

    async def run(asker: Asker) -> None:
        for number in range(400):
            path = ("/kv", "/concurrency", "/crossover")[number % 3]
            await asker.ask(mutated(chance.choice(configs), chance), path)

    asker = asyncio.run(with_service(run))
    assert asker.statuses[200] > 50
    assert asker.statuses[422] > 50


@pytest.mark.parametrize(
    "raw",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /kv?a=\x00\xff HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /kv HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST /kv HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /kv HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /kv HTTP/1.1\r\nHost: x\r\n: empty\r\n\r\n",
        b"GET " + b"/" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
async def test_what_is_hardly_http(server_port: int, raw: bytes):
    """Refused, or cut off; and the next caller is served."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server_port)
    writer.write(raw)
    writer.write_eof()
    said = await asyncio.wait_for(reader.read(), 20)
    writer.close()
    assert not said.startswith(b"HTTP/1.1 5")
    reader, writer = await asyncio.open_connection("127.0.0.1", server_port)
    writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
    writer.close()


@pytest.fixture(scope="module")
async def server_port(tmp_path_factory: pytest.TempPathFactory):
    home: Path = tmp_path_factory.mktemp("home")
    environment = {
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(home),
        "KVMATH_LOG_LEVEL": "error",
        "KVMATH_LOG_REQUESTS": "0",
    }
    async with service(environment) as (_, port):
        yield port


async def test_answers_do_not_depend_on_what_was_asked_before(client: httpx.AsyncClient):
    """The same questions in another order, from memory and not: the same bytes for each."""
    questions = [
        (method, path, fields)
        for path in ("/kv", "/concurrency", "/crossover")
        for fields in (
            {"model": "llama-3-8b", "gpu": "h100", "context": 4096},
            {"model": "llama-3-8b", "gpu": "h100", "context": 0},
            {"model": "llama-3-70b", "gpu": "h200", "context": 4096, "kv_cache_dtype": "fp8"},
            {"model": "nobody"},
        )
        for method in ("GET", "POST")
    ]
    chance = random.Random(1)
    said: dict[str, tuple[int, object]] = {}
    for _ in range(6):
        chance.shuffle(questions)
        for method, path, fields in questions:
            if method == "GET":
                answer = await client.get(path, params=fields)
            else:
                answer = await client.post(path, json=fields)
            content = answer.json()
            content.pop("request_id", None)
            key = json.dumps([method, path, fields])
            assert said.setdefault(key, (answer.status_code, content)) == (
                answer.status_code,
                content,
            )
