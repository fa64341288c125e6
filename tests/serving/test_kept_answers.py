"""Answers kept as bytes: which requests share one, how long it holds, and what is never kept."""

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from app.answers.calculations import KV, canonical
from app.answers.calculator import Calculator
from app.answers.kept import AnswerCache, Answered, key_of
from app.catalog.models import model_catalogue
from app.hub.client import HubClient
from app.hub.config import HubConfig
from app.main import Service, create_app
from app.resolve.model import ModelResolver
from app.schemas.request import KvBody, KvQuery
from app.settings import Settings
from tests.doubles import Clock
from tests.fake_hub import COMMIT, FakeHub, Fault
from tests.running.configs import bytes_per_token, config_of

LLAMA = config_of(1)
BYTES_PER_TOKEN = bytes_per_token(1)


@pytest.fixture
async def hub() -> AsyncIterator[FakeHub]:
    async with FakeHub() as fake:
        fake.add("org/model", {"config.json": LLAMA})
        yield fake


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def calculator(hub: FakeHub, clock: Clock) -> AsyncIterator[Calculator]:
    async with HubClient(HubConfig(endpoint=hub.url), clock=clock) as client:
        models = ModelResolver(model_catalogue(), client, clock)
        calculator = Calculator(models, AnswerCache(2**20, clock))
        yield calculator
        await calculator.aclose()


@pytest.fixture
def hub_app(hub: FakeHub, tmp_path: Path) -> FastAPI:
    return create_app(Settings(hf_endpoint=hub.url, hf_home=tmp_path, hf_token=None))


Connect = Callable[[FastAPI], httpx.AsyncClient]


async def _get(app: FastAPI, *targets: str, **headers: str) -> list[httpx.Response]:
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://kvmath.test") as client,
    ):
        return [await client.get(target, headers=headers) for target in targets]


async def test_a_repeated_question_is_answered_by_the_same_bytes(
    client: httpx.AsyncClient, app: Service
):
    target = "/kv?model=llama-3-8b&context=8192"
    first = await client.get(target)
    assert len(app.answers) == 1
    again, head = await client.get(target), await client.head(target)
    assert again.content == first.content
    assert len(app.answers) == 2  # in these words, too
    assert (await client.get(target)).headers["server-timing"] == "memory"
    assert len(app.answers) == 2
    assert (head.status_code, head.content) == (200, b"")
    for name in ("etag", "content-length", "content-type", "cache-control"):
        assert first.headers[name] == again.headers[name] == head.headers[name]
    assert re.fullmatch(r"[0-9a-f]{32}", again.headers["x-request-id"])
    assert again.headers["x-request-id"] != first.headers["x-request-id"]
    assert again.headers["server-timing"]


async def test_other_words_for_the_same_question_meet_at_one_answer(
    client: httpx.AsyncClient, app: Service
):
    """GET and POST, in any order: one computation."""
    computed: list[object] = []
    original = Calculator._compute

    def counting(*arguments: object) -> object:
        computed.append(arguments)
        return original(*arguments)  # type: ignore[arg-type] # passed on as they came

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Calculator, "_compute", counting)
        answers = [
            await client.get("/kv?model=llama-3-8b&context=8192"),
            await client.get("/kv?context=8192&model=llama%2D3-8b"),
            await client.post("/kv", json={"model": "llama-3-8b", "context": 8192}),
            await client.post("/kv", json={"context": 8192.0, "model": "llama-3-8b"}),
        ]
    assert len(computed) == 1
    assert {answer.headers["etag"] for answer in answers} == {answers[0].headers["etag"]}
    assert {answer.content for answer in answers} == {answers[0].content}


async def test_what_was_said_to_no_effect_is_answered_to_those_who_said_it(
    client: httpx.AsyncClient,
):
    """A default that is spelled out is the same question to the arithmetic, not to the reader."""
    plain = {"model": "llama-3-8b", "gpu": "h100", "context": 8192}
    said = plain | {"disable_hybrid_kv_cache_manager": False}
    for _ in range(2):
        without = (await client.post("/concurrency", json=plain)).json()
        with_it = (await client.post("/concurrency", json=said)).json()
        assert with_it["max_concurrency"] == without["max_concurrency"]
        assert "disable_hybrid" not in str(without["assumptions"])
        assert "disable_hybrid" in str(with_it["assumptions"])


async def test_numbers_that_only_python_takes_for_equal_are_told_apart(client: httpx.AsyncClient):
    """1 and true are one key of a dict; as inputs they are not the same."""
    good = {"model": "llama-3-8b", "context": 1}
    assert (await client.post("/kv", json=good)).status_code == 200
    assert (await client.post("/kv", json=good | {"context": True})).status_code == 422
    assert (await client.post("/kv", json=good | {"explain": 1})).status_code == 422


def test_infinity_in_a_config_is_not_null():
    """Published configs hold Infinity; JSON's usual way out would make two configs one key."""
    infinite = KvBody(config={"time_step_limit": [0.0, float("inf")]})
    null = KvBody(config={"time_step_limit": [0.0, None]})
    assert canonical(infinite) != canonical(null)


def test_the_key_of_a_query_is_the_key_of_the_same_body():
    query = KvQuery(model="llama-3-8b", context=8192)
    body = KvBody(context=8192, model="llama-3-8b")
    assert canonical(query) == canonical(body) == b'{"model":"llama-3-8b","context":8192}'


async def test_an_unchanged_answer_is_304_from_memory_too(client: httpx.AsyncClient):
    target = "/concurrency?model=llama-3-8b&gpu=h100&context=8192"
    etag = (await client.get(target)).headers["etag"]
    for method in ("GET", "HEAD"):
        for names in (etag, f"W/{etag}", "*", f'"a", {etag}'):
            answer = await client.request(method, target, headers={"if-none-match": names})
            assert (answer.status_code, answer.content) == (304, b"")
            assert answer.headers["etag"] == etag
            assert "content-length" not in answer.headers
    assert (await client.get(target, headers={"if-none-match": '"a"'})).status_code == 200


async def test_a_picture_and_the_numbers_do_not_answer_for_each_other(client: httpx.AsyncClient):
    target = "/crossover?model=llama-3-8b&batch=32&context=4096"
    svg, numbers = {"accept": "image/svg+xml"}, {"accept": "application/json"}
    types = [
        (await client.get(address, headers=headers)).headers["content-type"]
        for address, headers in (
            (target, numbers),
            (target, svg),
            (target, numbers),
            (target, svg),
            (f"{target}&format=svg", numbers),
            (f"{target}&format=png", svg),
        )
    ]
    json, picture = "application/json", "image/svg+xml"
    assert types == [json, picture, json, picture, picture, "image/png"]
    for headers in (numbers, svg):
        assert (await client.get(target, headers=headers)).headers["vary"] == "accept"


async def test_a_query_that_looks_like_a_body_is_no_body(client: httpx.AsyncClient):
    body = '{"model":"llama-3-8b","context":8192}'
    assert (
        await client.post("/kv", content=body, headers={"content-type": "application/json"})
    ).status_code == 200
    assert (await client.get(f"/kv?{body}")).status_code == 422
    assert (await client.post("/kv", content=body)).status_code == 422  # no type: not JSON
    again = await client.post(
        "/kv?batch=2", content=body, headers={"content-type": "application/json"}
    )
    assert again.status_code == 422  # a POST takes no query


async def test_the_words_of_a_query_are_no_body(client: httpx.AsyncClient):
    query = "model=llama-3-8b&context=8192"
    for _ in range(2):
        assert (await client.get(f"/kv?{query}")).status_code == 200
    json_type = {"content-type": "application/json"}
    for words in (query, f"?{query}", f"\n?{query}"):
        assert (await client.post("/kv", content=words, headers=json_type)).status_code == 422


async def test_the_digest_of_a_body_is_no_body(client: httpx.AsyncClient):
    body = json.dumps({"model": "llama-3-8b", "contexts": list(range(1, 200))}).encode()
    json_type = {"content-type": "application/json"}
    for _ in range(2):
        assert (await client.post("/kv", content=body, headers=json_type)).status_code == 200
    digest = hashlib.sha256(body)
    for words in (digest.digest(), digest.hexdigest().encode()):
        assert (await client.post("/kv", content=words, headers=json_type)).status_code == 422


async def test_errors_are_not_kept(client: httpx.AsyncClient, app: Service):
    for target in ("/kv?model=llama-3-8b&context=0", "/kv?model=nobody", "/concurrency?gpu=x"):
        answer = await client.get(target)
        assert answer.status_code in {404, 422}
    assert len(app.answers) == 0


def test_the_cache_is_bounded_by_bytes():
    cache = AnswerCache(100_000)
    for number in range(1000):
        cache.put(key_of("body", "/kv", b"%d" % number), Answered(bytes(1000)))
        assert cache.bytes <= 100_000
    assert cache.get(key_of("body", "/kv", b"0")) is None
    assert cache.get(key_of("body", "/kv", b"999")) is not None
    cache.put(key_of("body", "/kv", b"huge"), Answered(bytes(50_000)))
    assert cache.get(key_of("body", "/kv", b"huge")) is None
    assert cache.get(key_of("body", "/kv", b"999")) is not None


def test_a_cache_without_room_keeps_nothing():
    cache = AnswerCache(0)
    cache.put(key_of("body", "/kv", b""), Answered(b"x"))
    assert len(cache) == 0


def test_long_questions_are_known_by_a_digest():
    long = key_of("body", "/kv", b"x" * 100_000)
    assert len(long[-1]) == 64
    assert long != key_of("body", "/kv", b"x" * 100_001)
    assert long != key_of("body", "/kv", hashlib.sha256(b"x" * 100_000).hexdigest().encode())
    assert long != key_of("body", "/kv", hashlib.sha256(b"x" * 100_000).digest())


async def test_an_answer_ages_with_the_branch_it_rests_on(
    calculator: Calculator, hub: FakeHub, clock: Clock
):
    branch, commit = KvQuery(model="org/model"), KvQuery(model="org/model", revision=COMMIT)
    of_branch = await calculator.answer(KV, branch)
    of_commit = await calculator.answer(KV, commit)
    assert of_branch.fresh_until == pytest.approx(1000 + 300)  # what the hub client believes
    assert of_commit.fresh_until is None
    assert calculator.at_hand(KV, branch) is of_branch

    moved = {"config.json": LLAMA | {"num_hidden_layers": 4}}
    hub.add("org/model", moved, commit="f" * 40, history={COMMIT: {}})
    clock.now += 299
    assert calculator.at_hand(KV, branch) is of_branch
    clock.now += 2
    assert calculator.at_hand(KV, branch) is None
    assert calculator.at_hand(KV, commit) is of_commit
    now = await calculator.answer(KV, branch)
    assert f'"kv_bytes_per_token":{2 * BYTES_PER_TOKEN},'.encode() in now.body
    assert b"f" * 40 in now.body


async def test_a_stale_answer_is_given_marked_and_not_kept(
    calculator: Calculator, hub: FakeHub, clock: Clock
):
    branch = KvQuery(model="org/model")
    await calculator.answer(KV, branch)
    clock.now += 301
    hub.fault("", Fault.UNAVAILABLE)
    stale = await calculator.answer(KV, branch)
    assert stale.stale
    assert b'"stale":true' in stale.body
    assert len(calculator._answers) == 0
    hub.mend()
    clock.now += 11
    fresh = await calculator.answer(KV, branch)
    assert b'"stale":false' in fresh.body
    assert b"could not be asked" not in fresh.body


async def test_how_long_a_branchs_answer_may_be_kept_by_others(hub_app: Service):
    """The caller may keep it for what is left of the 300 s, not for 300 s from any moment."""
    target = "/kv?model=org/model"
    clock = hub_app.answers.clock
    first, again = await _get(hub_app, target, target)
    for answer in (first, again):
        assert re.fullmatch(r"public, max-age=(299|300)", answer.headers["cache-control"])
    hub_app.answers.clock = lambda: clock() + 100
    (later,) = await _get(hub_app, target)
    assert re.fullmatch(r"public, max-age=(199|200)", later.headers["cache-control"])


async def test_a_thousand_callers_of_a_cold_model_cost_one_fetch_and_one_computation(
    hub_app: Service, hub: FakeHub, monkeypatch: pytest.MonkeyPatch
):
    computed: list[object] = []
    original = Calculator._compute

    def counting(*arguments: object) -> object:
        computed.append(arguments)
        return original(*arguments)  # type: ignore[arg-type] # passed on as they came

    monkeypatch.setattr(Calculator, "_compute", counting)
    transport = httpx.ASGITransport(hub_app)
    async with (
        hub_app.router.lifespan_context(hub_app),
        httpx.AsyncClient(transport=transport, base_url="http://kvmath.test") as client,
    ):
        targets = ["/kv?model=org/model", "/kv?model=org%2Fmodel"] * 500
        answers = await asyncio.gather(*(client.get(target) for target in targets))
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.content for answer in answers}) == 1
    assert answers[0].json()["kv_bytes_per_token"] == BYTES_PER_TOKEN
    assert len(computed) == 1
    assert len(hub.asked(r"resolve/main/config\.json")) == 1
