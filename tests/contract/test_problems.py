"""Every failure is an RFC 9457 problem document, whatever failed."""

import json
from typing import Annotated

import httpx
import pytest
from fastapi import FastAPI, Query

from app import errors
from app.api.routing import api_router, mount
from app.problems import KINDS, kind_of
from app.schemas.problem import Problem
from app.schemas.types import BodyModel, Count, Flag, Positive, QueryModel


class Spec(BodyModel):
    memory_bytes: Count


class PairQuery(QueryModel):
    context: Count = 1
    contexts: list[Count] | None = None
    rate: Positive = 1.0
    explain: Flag = False


class PairBody(PairQuery, BodyModel):
    gpu_spec: Spec | None = None


@pytest.fixture
def app(app: FastAPI) -> FastAPI:
    """The application with a pair of routes like a calculation's, and one for each kind of error."""
    router = api_router("test")

    @router.get("/pair")
    async def pair_get(query: Annotated[PairQuery, Query()]) -> dict[str, object]:
        return query.model_dump()

    @router.post("/pair")
    async def pair_post(body: PairBody) -> dict[str, object]:
        return body.model_dump()

    @router.get("/raise/{name}")
    async def raise_named(name: str) -> None:
        raise _ERRORS[name]

    mount(app, router)
    return app


_ERRORS: dict[str, Exception] = {
    "input": errors.InputError.of("gpu_spec.memory_bytes", "too small"),
    "architecture": errors.UnknownArchitecture("novel", ["layers_of_cache"]),
    "gpu": errors.UnknownGpu("h1000", ["h100", "h200", "a100"]),
    "model": errors.UnknownModel("org/none"),
    "revision": errors.UnknownRevision("org/name", "v9"),
    "gated": errors.GatedModel("org/name"),
    "private": errors.PrivateModel("org/name"),
    "large": errors.TooLarge("too many items"),
    "overloaded": errors.Overloaded(retry_after=0.2),
    "unavailable": errors.HubUnavailable("The hub is down.", retry_after=7.5),
    "timeout": errors.HubTimeout("The hub did not answer in time."),
    "bad": errors.HubBadAnswer("The hub did not answer JSON."),
    "limited": errors.HubRateLimited("The hub asks to wait.", retry_after=56),
    "offline": errors.HubOffline("The network is switched off."),
    "bug": ZeroDivisionError("secret detail"),
}

_STATUS = {
    "input": 422,
    "architecture": 422,
    "gpu": 404,
    "model": 404,
    "revision": 404,
    "gated": 403,
    "private": 403,
    "large": 413,
    "overloaded": 503,
    "unavailable": 503,
    "timeout": 504,
    "bad": 502,
    "limited": 503,
    "offline": 503,
    "bug": 500,
}


def assert_problem(response: httpx.Response, status: int) -> Problem:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert response.headers["cache-control"] == "no-store"
    assert "etag" not in response.headers
    problem = Problem.model_validate(response.json(), strict=True)
    assert problem.status == status
    assert problem.request_id == response.headers["x-request-id"]
    return problem


@pytest.mark.parametrize("name", _ERRORS)
async def test_an_error_raised_by_a_route(client: httpx.AsyncClient, name: str):
    response = await client.get(f"/raise/{name}")
    problem = assert_problem(response, _STATUS[name])
    assert problem.instance == f"/raise/{name}"
    if isinstance(_ERRORS[name], errors.KvmathError):
        page = await client.get(problem.type)
        assert page.json()["title"] == problem.title


async def test_an_unexpected_error_is_logged_and_says_nothing_of_itself(
    client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
):
    response = await client.get("/raise/bug")
    assert "secret" not in response.text
    assert "ZeroDivisionError: secret detail" in caplog.text
    assert response.headers["x-request-id"] in caplog.text


async def test_retry_after_is_whole_seconds_rounded_up(client: httpx.AsyncClient):
    assert (await client.get("/raise/overloaded")).headers["retry-after"] == "1"
    assert (await client.get("/raise/unavailable")).headers["retry-after"] == "8"
    assert "retry-after" not in (await client.get("/raise/timeout")).headers


async def test_an_error_brings_its_facts(client: httpx.AsyncClient):
    assert (await client.get("/raise/gpu")).json()["nearest"] == ["h100", "h200", "a100"]
    refused = (await client.get("/raise/architecture")).json()
    assert refused["fields"] == ["layers_of_cache"]
    assert refused["errors"][0]["loc"] == ["query", "config", "layers_of_cache"]


def test_every_class_of_the_tree_has_a_row():
    def leaves(cls: type) -> list[type]:
        return [cls, *(leaf for sub in cls.__subclasses__() for leaf in leaves(sub))]

    unnamed = set(leaves(errors.KvmathError)) - KINDS.keys() - {errors.KvmathError}
    for cls in unnamed:  # a leaf without its own row takes its parent's, never the 500
        assert kind_of(cls.__new__(cls)).status != 500, cls


async def test_no_such_path(client: httpx.AsyncClient):
    assert assert_problem(await client.get("/nowhere"), 404).detail
    assert_problem(await client.get("/livez/"), 404)
    assert_problem(await client.get("/docs/assets/nothing.js"), 404)
    assert_problem(await client.get("/problems/nothing"), 404)


async def test_no_such_method_names_those_of_all_routes_at_the_path(client: httpx.AsyncClient):
    response = await client.delete("/pair")
    assert_problem(response, 405)
    assert response.headers["allow"] == "GET, HEAD, POST"
    assert (await client.post("/livez")).headers["allow"] == "GET, HEAD"


_QUERIES = {
    "context=0": "context",
    "context=-1": "context",
    "context=1e30": "context",
    "context=9007199254740992": "context",
    "context=nan": "context",
    "context=true": "context",
    "context=": "context",
    "context=1_000": "context",
    "context=1&context=2": "context",
    "rate=inf": "rate",
    "rate=nan": "rate",
    "rate=0": "rate",
    "explain=maybe": "explain",
    "contexts=1&contexts=x": "contexts",
    "contxt=7": "contxt",
}


@pytest.mark.parametrize("query", _QUERIES)
async def test_a_bad_query_names_the_field(client: httpx.AsyncClient, query: str):
    problem = assert_problem(await client.get(f"/pair?{query}"), 422)
    assert problem.errors
    assert problem.errors[0].loc[:2] == ["query", _QUERIES[query]]


_BODIES = {
    '{"context": 0}': "context",
    '{"context": true}': "context",
    '{"context": "7"}': "context",
    '{"context": 7.5}': "context",
    '{"context": 1e30}': "context",
    '{"context": 1e400}': "context",
    '{"context": NaN}': "context",
    '{"context": null}': "context",
    '{"rate": "1"}': "rate",
    '{"rate": -Infinity}': "rate",
    '{"rate": true}': "rate",
    '{"explain": 1}': "explain",
    '{"explain": "true"}': "explain",
    '{"contexts": 1}': "contexts",
    '{"contexts": {"0": 1}}': "contexts",
    '{"gpu_spec": {"memory_bytes": 80.5}}': "gpu_spec",
    '{"gpu_spec": []}': "gpu_spec",
    '{"contxt": 7}': "contxt",
    '{"context": "\\ud800"}': "context",
    '{"\\ud800": 1}': None,  # no name that a document could repeat
}


@pytest.mark.parametrize("body", _BODIES)
async def test_a_bad_body_names_the_field(client: httpx.AsyncClient, body: str):
    headers = {"content-type": "application/json"}
    problem = assert_problem(await client.post("/pair", content=body, headers=headers), 422)
    name = _BODIES[body]
    assert problem.errors
    assert problem.errors[0].loc[:2] == (["body"] if name is None else ["body", name])


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"7",
        b'"x"',
        b"null",
        b"\xff\xfe",
        b'{"context": ' + b"9" * 5000 + b"}",
        b'{"context": ' + b"[" * 100_000 + b"}",
        b"[" * 100_000 + b"]" * 100_000,
    ],
)
async def test_a_body_that_is_no_json_object(client: httpx.AsyncClient, body: bytes):
    headers = {"content-type": "application/json"}
    problem = assert_problem(await client.post("/pair", content=body, headers=headers), 422)
    assert problem.errors
    assert problem.errors[0].loc[0] == "body"


async def test_json_without_its_content_type_says_so(client: httpx.AsyncClient):
    problem = assert_problem(await client.post("/pair", content=b'{"context": 7}'), 422)
    assert problem.errors
    assert "Content-Type: application/json" in problem.errors[0].msg


async def test_an_unknown_field_names_the_nearest(client: httpx.AsyncClient):
    for response in (
        await client.get("/pair", params={"contextss": "7"}),
        await client.post("/pair", json={"contextss": 7}),
    ):
        assert response.json()["errors"][0]["msg"].endswith("did you mean contexts?")
    nested = await client.post("/pair", json={"gpu_spec": {"memory_bytes": 1, "memory_byte": 1}})
    assert nested.json()["errors"][0]["msg"].endswith("did you mean memory_bytes?")


async def test_a_post_takes_no_query(client: httpx.AsyncClient):
    problem = assert_problem(await client.post("/pair?context=7", json={}), 422)
    assert problem.errors
    assert problem.errors[0].loc == ["query", "context"]


async def test_good_input_passes(client: httpx.AsyncClient):
    query = await client.get("/pair?context=4096&contexts=1&contexts=2&rate=1e3&explain=true")
    body = await client.post(
        "/pair", json={"context": 4096.0, "contexts": [1, 2.0], "rate": 1000, "explain": True}
    )
    wanted = {"context": 4096, "contexts": [1, 2], "rate": 1000.0, "explain": True}
    assert query.json() == wanted
    assert body.json() == wanted | {"gpu_spec": None}


async def test_input_is_never_echoed_at_length(client: httpx.AsyncClient):
    long = "x" * 5000
    for response in (
        await client.get("/pair", params={"context": long}),
        await client.get("/pair", params={long: "1"}),
        await client.post("/pair", json={"context": long, long: long}),
        await client.post("/pair", json={"contexts": [long] * 10_000}),
        await client.get(f"/{long}"),
    ):
        assert 400 <= response.status_code < 500
        assert len(response.content) < 10_000
        assert long not in response.text


async def test_the_problem_schema_is_what_is_sent(client: httpx.AsyncClient):
    document = (await client.get("/openapi.json")).json()
    operation = document["paths"]["/livez"]["get"]
    for status in ("422", "4XX", "5XX"):
        content = operation["responses"][status]["content"]
        assert list(content) == ["application/problem+json"]
    assert json.dumps(document).count("HTTPValidationError") == 0
