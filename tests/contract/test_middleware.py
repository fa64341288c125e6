"""The layer around every request: ids, limits, HEAD, ETag, and the headers of every answer."""

import asyncio
import re
from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from app.main import create_app
from app.settings import Settings


@pytest.fixture
def app(settings: Settings) -> FastAPI:
    """A small service with low limits, an echo, a stream and an answer that says no-store."""
    app = create_app(
        settings.model_copy(
            update={
                "max_body_bytes": 1024,
                "max_log_bytes": 4096,
                "max_target_bytes": 256,
                "max_header_bytes": 1024,
                "max_requests": 2,
            }
        )
    )

    async def echo(request: Request) -> Response:
        return Response(await request.body())

    async def stream(request: Request) -> Response:
        async def pieces() -> AsyncIterator[bytes]:
            yield b"one"
            yield b"two"
            if "fail" in request.query_params:
                raise ZeroDivisionError

        return StreamingResponse(pieces())

    async def fresh(request: Request) -> Response:
        return Response(b"now", headers={"cache-control": "no-store"})

    app.add_route("/echo", echo, methods=["GET", "POST"])
    app.add_route("/stream", stream)
    app.add_route("/fresh", fresh)
    return app


async def test_a_request_id_comes_back(client: httpx.AsyncClient):
    given = await client.get("/livez", headers={"x-request-id": "build-7.1_a"})
    assert given.headers["x-request-id"] == "build-7.1_a"
    for bad in ("", "a b", "x" * 129, "a\tb", "<script>"):
        made = (await client.get("/livez", headers={"x-request-id": bad})).headers["x-request-id"]
        assert re.fullmatch(r"[0-9a-f]{32}", made)


async def test_a_trace_goes_on_with_a_span_of_our_own(client: httpx.AsyncClient):
    # The example of https://www.w3.org/TR/trace-context/#examples-of-http-traceparent-headers
    trace, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
    answer = await client.get("/livez", headers={"traceparent": f"00-{trace}-{span}-01"})
    version, same, own, flags = answer.headers["traceparent"].split("-")
    assert (version, same, flags) == ("00", trace, "01")
    assert own != span
    assert answer.headers["x-request-id"] == trace


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
    ],
)
async def test_a_malformed_trace_is_begun_anew(client: httpx.AsyncClient, bad: str):
    parent = (await client.get("/livez", headers={"traceparent": bad})).headers["traceparent"]
    assert re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-00", parent)
    assert "4bf92f3577b34da6a3ce929d0e0e4736" not in parent


async def test_the_time_it_took(client: httpx.AsyncClient):
    timing = (await client.get("/livez")).headers["server-timing"]
    assert re.fullmatch(r"app;dur=\d+\.\d{3}", timing)


@pytest.mark.parametrize(
    ("path", "limit", "status"), [("/echo", 1024, 200), ("/verify", 4096, 422)]
)
async def test_a_body_is_bounded_by_declared_length_and_while_reading(
    client: httpx.AsyncClient, path: str, limit: int, status: int
):
    async def pieces(total: int) -> AsyncIterator[bytes]:
        for start in range(0, total, 100):
            yield b"x" * min(100, total - start)

    for content in (b"x" * limit, pieces(limit)):
        fits = await client.post(path, content=content)
        assert fits.status_code == status
    for content in (b"x" * (limit + 1), pieces(limit + 1), pieces(100 * limit)):
        over = await client.post(path, content=content)
        assert (over.status_code, over.json()["limit_bytes"]) == (413, limit)
        assert over.headers["content-type"] == "application/problem+json"


async def test_reading_stops_at_the_limit(app: FastAPI):
    """The sender is not drained: after the piece that goes over the limit no other is asked for."""
    asked, sent = [], []
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/echo",
        "raw_path": b"/echo",
        "query_string": b"",
        "headers": [(b"transfer-encoding", b"chunked")],
    }

    async def receive():
        asked.append(1)
        return {"type": "http.request", "body": b"x" * 1000, "more_body": True}

    async def send(message):
        sent.append(message)

    await app(scope, receive, send)
    assert sent[0]["status"] == 413
    assert len(asked) == 2  # 1000 bytes are within 1024, 2000 are not


async def test_a_long_target_and_large_headers(client: httpx.AsyncClient):
    assert (await client.get("/livez?" + "x" * 300)).status_code == 414
    assert (await client.get("/" + "x" * 300)).status_code == 414
    assert (await client.get("/livez", headers={"x-much": "x" * 1100})).status_code == 431


async def test_head_is_get_without_a_body(client: httpx.AsyncClient):
    for path in ("/livez", "/openapi.json", "/docs", "/stream", "/problems", "/nowhere"):
        get, head = await client.get(path), await client.head(path)
        assert head.content == b""
        assert head.status_code == get.status_code
        for name in ("content-type", "etag", "content-length"):
            if name == "content-length" and path == "/nowhere":
                continue  # its body holds the request's own id
            assert head.headers.get(name) == get.headers.get(name), (path, name)


async def test_an_unchanged_answer_is_304(client: httpx.AsyncClient):
    for method in ("GET", "HEAD", "POST"):
        first = await client.request(method, "/echo", content=b"same")
        etag = first.headers["etag"]
        assert re.fullmatch(r'"[0-9a-f]{32}"', etag)
        assert first.headers["cache-control"] == "public, max-age=300"
        for names in (etag, f"W/{etag}", f'"other", {etag}', "*"):
            again = await client.request(
                method, "/echo", content=b"same", headers={"if-none-match": names}
            )
            assert (again.status_code, again.content) == (304, b"")
            assert again.headers["etag"] == etag
            assert again.headers["cache-control"] == first.headers["cache-control"]
            assert "content-type" not in again.headers
        other = await client.request(
            method, "/echo", content=b"other", headers={"if-none-match": etag}
        )
        assert other.status_code == 200


async def test_what_may_not_be_kept_has_no_etag(client: httpx.AsyncClient):
    for path in ("/fresh", "/livez", "/readyz", "/nowhere"):
        answer = await client.get(path, headers={"if-none-match": "*"})
        assert answer.headers["cache-control"] == "no-store"
        assert "etag" not in answer.headers
        assert answer.status_code != 304


async def test_a_stream_passes_through(client: httpx.AsyncClient):
    answer = await client.get("/stream")
    assert answer.content == b"onetwo"
    assert "etag" not in answer.headers


async def test_a_stream_that_breaks_is_broken_off(client: httpx.AsyncClient):
    with pytest.raises(ZeroDivisionError):
        await client.get("/stream?fail=1")


async def test_more_requests_than_there_is_room_for(app: FastAPI, client: httpx.AsyncClient):
    """With two under way, a third is told to come back; probes are answered all the same."""
    release, full = asyncio.Event(), asyncio.Barrier(3)

    async def slow(request: Request) -> Response:
        await full.wait()
        await release.wait()
        return Response(b"done")

    app.add_route("/slow", slow)
    under_way = [asyncio.create_task(client.get("/slow")) for _ in range(2)]
    await full.wait()
    refused = await client.get("/echo")
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    assert refused.json()["type"] == "/problems/overloaded"
    assert (await client.get("/livez")).status_code == 200
    release.set()
    assert [answer.status_code for answer in await asyncio.gather(*under_way)] == [200, 200]
    assert (await client.get("/echo")).status_code == 200
