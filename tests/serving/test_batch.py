"""`POST /batch`: order, a status an item, like items once, bounded, and fair to other requests."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.answers.calculator import Calculator
from app.answers.split import NotUsual, split_items
from app.api import batch as batch_module
from app.main import Service, create_app
from app.resolve.architectures import shape_from_config
from app.settings import Settings
from tests.fake_hub import FakeHub, Fault
from tests.running.configs import bytes_per_token, config_of

KV = {"path": "/kv", "model": "llama-3-8b", "context": 8192}
LLAMA = config_of(1)


async def _results(client: httpx.AsyncClient, items: list[Any], **headers: str) -> list[dict]:
    answer = await client.post("/batch", json={"items": items}, headers=headers)
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    return answer.json()["results"]


async def test_each_item_is_answered_as_a_post_of_its_own(client: httpx.AsyncClient):
    items = [
        KV,
        {"path": "/concurrency", "model": "llama-3-8b", "gpu": "h100", "context": 8192},
        {"path": "/crossover", "model": "llama-3-8b", "batch": 32, "context": 4096},
        {"path": "/kv", "model": "llama-3-8b", "context": 0},
        {"path": "/kv", "config": {"model_type": "unheard-of"}},
        {"path": "/concurrency", "model": "llama-3-8b", "gpu": "h1000"},
        {"path": "/kv", "model": "llama-3-8b", "contxt": 1},
        {"path": "/kv", "model": "org/elsewhere"},
        {"path": "/kv", "config": LLAMA, "context": 1, "explain": True},
    ]
    results = await _results(client, items)
    assert [result["index"] for result in results] == list(range(len(items)))
    assert [result["status"] for result in results] == [200, 200, 200, 422, 422, 404, 422, 503, 200]
    for item, result in zip(items, results, strict=True):
        fields = dict(item)
        alone = await client.post(fields.pop("path"), json=fields)
        expected = alone.json()
        expected.pop("request_id", None)
        assert (result["status"], result["body"]) == (alone.status_code, expected)
        if "retry-after" in alone.headers:
            assert result["retry_after_s"] == int(alone.headers["retry-after"])


async def test_lines_hold_the_same_as_the_document(client: httpx.AsyncClient):
    items = [KV, {"path": "/kv"}, KV]
    document = await _results(client, items)
    answer = await client.post(
        "/batch", json={"items": items}, headers={"accept": "application/x-ndjson"}
    )
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert answer.content.endswith(b"\n")
    assert [json.loads(line) for line in answer.content.splitlines()] == document


async def test_like_items_are_computed_once(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    computed: list[object] = []
    original = Calculator._compute

    def counting(*arguments: object) -> object:
        computed.append(arguments)
        return original(*arguments)  # type: ignore[arg-type] # passed on as they came

    monkeypatch.setattr(Calculator, "_compute", counting)
    reordered = dict(reversed(KV.items()))
    results = await _results(client, [KV, reordered, dict(KV)] * 1000)
    assert len(results) == 3000
    assert len(computed) == 1
    assert len({json.dumps(result["body"]) for result in results}) == 1


async def test_a_batch_larger_than_the_memory_leaves_what_is_kept(
    client: httpx.AsyncClient, app: Service
):
    few = [KV | {"context": context} for context in range(1, 101)]
    await _results(client, few)
    assert len(app.answers) == 100
    many = [KV | {"context": context} for context in range(1000, 11_000)]
    results = await _results(client, many)
    assert [result["body"]["context"] for result in results] == list(range(1000, 11_000))
    assert len(app.answers) == 100


async def test_like_failures_are_looked_at_once(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    looked: list[object] = []
    original = batch_module._Batch._make

    def counting(self: object, item: str) -> object:
        looked.append(item)
        return original(self, item)  # type: ignore[arg-type] # passed on as they came

    monkeypatch.setattr(batch_module._Batch, "_make", counting)
    results = await _results(client, [{"path": "/kv", "model": "llama-3-8b", "context": 0}] * 500)
    assert {result["status"] for result in results} == {422}
    assert len(looked) == 1


async def test_an_empty_batch_and_one_too_many(client: httpx.AsyncClient):
    assert await _results(client, []) == []
    many = await client.post("/batch", json={"items": [KV] * 10_001})
    assert many.status_code == 422
    assert many.json()["errors"][0]["loc"] == ["body", "items"]
    assert len(await _results(client, [KV] * 10_000)) == 10_000


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b'{"items": 1}',
        b'{"items": [1,]}',
        b'{"items": [1 2]}',
        b'{"items": [{"path": "/kv"},]}',
        b'{"items": [{"path": "/kv"}]',
        b'{"items": [{"path": "/kv"}]} x',
        b'{"items": [], "more": 1}',
        b'{"items": [{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}]}",
        b'{"items": [{"path": "\xff"}]}',
    ],
)
async def test_what_is_no_batch_is_refused_whole(client: httpx.AsyncClient, body: bytes):
    answer = await client.post("/batch", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("path", [None, "/nowhere", 7, ["/kv"], "/batch"])
async def test_an_item_without_a_calculation(client: httpx.AsyncClient, path: Any):
    item = {"model": "llama-3-8b"} | ({} if path is None else {"path": path})
    (result,) = await _results(client, [item])
    assert result["status"] == 422
    assert result["body"]["errors"][0]["loc"] == ["body", "path"]


@pytest.mark.parametrize("item", [1, None, "path", [KV], True])
async def test_an_item_that_is_no_object_fails_alone(client: httpx.AsyncClient, item: Any):
    before, result, after = await _results(client, [KV, item, KV])
    assert (before["status"], result["status"], after["status"]) == (200, 422, 200)
    assert result["body"]["errors"][0]["loc"] == ["body"]
    slowly = json.dumps({"items": [item]}).encode()  # as FastAPI reads it
    headers = {"content-type": "application/json; charset=utf-8"}
    answer = await client.post("/batch", content=slowly, headers=headers)
    assert answer.json()["results"][0]["body"] == result["body"]


async def test_an_item_with_an_endless_number_fails_alone(client: httpx.AsyncClient):
    endless = f'{{"path": "/kv", "context": {"9" * 5000}}}'
    text = f'{{"items": [{json.dumps(KV)}, {endless}]}}'
    answer = await client.post("/batch", content=text, headers={"content-type": "application/json"})
    assert [result["status"] for result in answer.json()["results"]] == [200, 422]


async def test_a_picture_is_no_item(client: httpx.AsyncClient):
    item = {"path": "/crossover", "model": "llama-3-8b", "format": "svg"}
    (result,) = await _results(client, [item])
    assert result["status"] == 422
    assert result["body"]["errors"][0]["loc"] == ["body", "format"]


async def test_other_spellings_of_the_envelope_are_read_too(client: httpx.AsyncClient):
    plain = await _results(client, [KV])
    for body in (
        '{"\\u0069tems": [%s]}',
        ' {\n"items"\t:\r\n[ %s ] } ',
    ):
        answer = await client.post(
            "/batch",
            content=body % json.dumps(KV),
            headers={"content-type": "application/json; charset=utf-8"},
        )
        assert answer.json()["results"] == plain


def test_items_are_cut_where_json_says():
    text = '{"items" : [ {"a": "]},{"} , {"b": {"c": [1, NaN]}},{}]}'
    assert list(split_items(text)) == ['{"a": "]},{"}', '{"b": {"c": [1, NaN]}}', "{}"]
    assert list(split_items('{"items":[1, null,[{}] ]}')) == ["1", "null", "[{}]"]
    for wrong in ('{"items": [{} {}]}', '{"items": [{}], }', '{"items": [x]}'):
        with pytest.raises(NotUsual):
            list(split_items(wrong))


@pytest.fixture
async def hub() -> AsyncIterator[FakeHub]:
    async with FakeHub() as fake:
        for number in range(20):
            fake.add(f"org/model-{number}", {"config.json": LLAMA})
        yield fake


@pytest.fixture
def hub_app(hub: FakeHub, tmp_path: Path) -> Service:
    return create_app(Settings(hf_endpoint=hub.url, hf_home=tmp_path, hf_token=None))


async def test_cold_models_are_fetched_together_and_once(hub_app: Service, hub: FakeHub):
    items = [
        {"path": "/kv", "model": f"org/model-{number % 20}", "context": number % 3 + 1}
        for number in range(600)
    ]
    items[300] = {"path": "/kv", "model": "org/missing"}
    transport = httpx.ASGITransport(hub_app)
    async with (
        hub_app.router.lifespan_context(hub_app),
        httpx.AsyncClient(transport=transport, base_url="http://kvmath.test") as client,
    ):
        results = await _results(client, items)
    assert [result["index"] for result in results] == list(range(600))
    assert results.pop(300)["status"] == 404
    items.pop(300)
    for item, result in zip(items, results, strict=True):
        # 2 x 2 layers x 2 heads x 16 x 2 bytes a token
        assert result["body"]["kv_bytes_per_sequence"] == bytes_per_token(1) * item["context"]
        assert result["body"]["model"]["id"] == item["model"]
    assert len(hub.asked(r"resolve/main/config\.json")) == 21


async def test_a_hub_in_trouble_fails_its_items_alone(hub_app: Service, hub: FakeHub):
    hub.fault("model-1/", Fault.HTML)
    transport = httpx.ASGITransport(hub_app)
    async with (
        hub_app.router.lifespan_context(hub_app),
        httpx.AsyncClient(transport=transport, base_url="http://kvmath.test") as client,
    ):
        names = ("org/model-0", "org/model-1", "llama-3-8b")
        results = await _results(client, [{"path": "/kv", "model": name} for name in names])
    assert [result["status"] for result in results] == [200, 502, 200]


async def test_an_item_that_breaks_takes_no_other_with_it(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    original = Calculator.at_hand

    def breaking(self: Calculator, calculation: Any, asked: Any) -> Any:
        if asked.context == 7:
            raise ZeroDivisionError
        return original(self, calculation, asked)

    monkeypatch.setattr(Calculator, "at_hand", breaking)
    results = await _results(client, [KV, KV | {"context": 7}, KV])
    assert [result["status"] for result in results] == [200, 500, 200]
    assert "ZeroDivision" not in json.dumps(results)


async def test_what_there_is_no_time_for_is_504_and_the_whole_is_whole(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    app = create_app(settings.model_copy(update={"request_timeout_s": 0.5}))
    shape_from_config(LLAMA)  # loads the families, for which there is no time below
    compute = Calculator._compute

    def slowly(*arguments: object) -> object:
        time.sleep(0.05)
        return compute(*arguments)  # type: ignore[arg-type] # passed on as they came

    monkeypatch.setattr(Calculator, "_compute", slowly)
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://kvmath.test") as client,
    ):
        results = await _results(client, [KV | {"context": 1 + number} for number in range(100)])
    statuses = [result["status"] for result in results]
    assert len(statuses) == 100
    assert 1 <= statuses.count(200) <= 10
    assert statuses == [200] * statuses.count(200) + [504] * statuses.count(504)
    assert results[-1]["body"]["type"] == "/problems/deadline-passed"


async def test_others_are_served_while_a_batch_is_computed(client: httpx.AsyncClient):
    """The batch gives way to probes again and again: it is not over before they are answered."""
    items = [KV | {"context": number + 1} for number in range(5000)]
    under_way = asyncio.create_task(_results(client, items))
    answered = 0
    while not under_way.done():
        assert (await client.get("/livez")).status_code == 200
        answered += 1
        await asyncio.sleep(0)
    assert len(await under_way) == 5000
    assert answered > 5
