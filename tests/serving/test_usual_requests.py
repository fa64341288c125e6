"""Requests read the quick way are read as FastAPI reads them: same status, same bytes.

A body declared as `application/json; charset=utf-8`, and a query that the quick reader is made to
decline, go FastAPI's own way.
"""

import json
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from fastapi import FastAPI
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.api import routing
from app.main import create_app
from app.settings import Settings
from tests.running.configs import config_of

_ODD: list[Any] = [
    None, True, False, 0, 1, -1, 3.0, 3.5, 1e400, 2**53, 2**63, 10**40, "", "7", "7.0", " 7", "\u0667",
    "true", "True", "1", "nan", "Infinity", "llama-3-8b", "h100", "fp8", [], [1], [1, 2], ["1"], {},
    {"a": 1}, "\ud800", "\x00", "%", "a" * 300,
]  # fmt: skip
_NAMES = [
    "model", "gpu", "context", "contexts", "batch", "explain", "kv_cache_dtype", "weight_bytes",
    "tensor_parallel_size", "overhead_bytes", "gpu_memory_utilization", "config", "gpu_spec",
    "efficiency", "batches", "models", "concurrent_users", "itl_slo_ms", "format", "contxt",
]  # fmt: skip
_PATHS = st.sampled_from(["/kv", "/concurrency", "/crossover", "/plan"])
_BASE = st.sampled_from([{}, {"model": "llama-3-8b"}, {"model": "llama-3-8b", "gpu": "h100"}])
_FIELDS = st.dictionaries(st.sampled_from(_NAMES), st.sampled_from(_ODD), max_size=4)
_QUICK = settings(
    max_examples=300,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture
def app(settings: Settings) -> FastAPI:
    """Without memory, so that no answer is that of the other reader."""
    return create_app(settings.model_copy(update={"answer_cache_bytes": 0}))


def _said(answer: httpx.Response) -> tuple[int, Any]:
    if answer.status_code == 200:
        return 200, answer.content
    problem = answer.json()
    problem.pop("request_id")
    return answer.status_code, problem


async def _both_bodies(client: httpx.AsyncClient, path: str, content: bytes) -> None:
    quick, slow = [
        await client.post(path, content=content, headers={"content-type": kind})
        for kind in ("application/json", "application/json; charset=utf-8")
    ]
    assert _said(quick) == _said(slow)
    assert quick.status_code in {200, 404, 422}


@_QUICK
@given(path=_PATHS, base=_BASE, fields=_FIELDS)
async def test_bodies(client: httpx.AsyncClient, path: str, base: dict, fields: dict):
    await _both_bodies(client, path, json.dumps(base | fields).encode())


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"model": "llama-3-8b", "model": "mha-8b"}',
        b'\xef\xbb\xbf{"model": "llama-3-8b"}',
        '{"model": "llama-3-8b"}'.encode("utf-16"),
        b'{"model": "llama-3-8b"} x',
        b'{"model": "\xff"}',
        b'{"model": "llama-3-8b", "context": 8192e0}',
        b'{"model": "llama-3-8b", "context": 1e3, "explain": true}',
        b'{"config": {"model_type": "llama", "rope": NaN, "hidden_size": -Infinity}}',
        b'{"config": {"model_type": "llama", "name": "\\ud800"}}',
        json.dumps({"config": config_of(1) | {"architectures": ["\ud800"]}}).encode(),
        b'{"config": ' + b'{"a":' * 500 + b"1" + b"}" * 501,
        b'{"model": "llama-3-8b", "context": ' + b"9" * 5000 + b"}",
    ],
)
async def test_bodies_that_are_hardly_json(client: httpx.AsyncClient, content: bytes):
    await _both_bodies(client, "/kv", content)


@_QUICK
@given(
    path=_PATHS,
    base=_BASE,
    fields=st.lists(st.tuples(st.sampled_from(_NAMES), st.sampled_from(_ODD)), max_size=4),
)
async def test_queries(client: httpx.AsyncClient, path: str, base: dict, fields: list):
    pairs = [*base.items(), *((name, str(value)) for name, value in fields)]
    query = urlencode(pairs, errors="surrogatepass")
    quick = await client.get(f"{path}?{query}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(routing, "_usual_query", lambda *_: None)
        slow = await client.get(f"{path}?{query}")
    assert _said(quick) == _said(slow)
    assert quick.status_code in {200, 404, 422}
