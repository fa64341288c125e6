"""When the hub cannot be asked, the problem names the model, and for an alias misspelt the nearest."""

from pathlib import Path

import httpx
import pytest

from app.main import create_app
from app.settings import Settings
from tests.fake_hub import FakeHub
from tests.fake_hub.faults import Fault

GONE = "http://127.0.0.1:9/"
"""The discard port, where nothing listens."""


async def ask(endpoint: str, home: Path, target: str) -> httpx.Response:
    settings = Settings(
        hf_endpoint=endpoint, hf_home=home, hf_hub_cache=None, hf_token=None, hf_token_path=None
    )
    app = create_app(settings)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://kvmath.test"
        ) as client,
    ):
        return await client.get(target)


async def test_a_misspelt_alias_gets_the_nearest(tmp_path: Path) -> None:
    answer = await ask(GONE, tmp_path, "/kv?model=lama-3-8b&context=8192")
    assert answer.status_code == 503
    problem = answer.json()
    assert problem["type"] == "/problems/hub-unavailable"
    assert problem["model"] == "lama-3-8b"
    assert "could not be reached" in problem["detail"]
    assert "'lama-3-8b'" in problem["detail"]
    assert "llama-3-8b" in problem["nearest"]
    assert len(problem["nearest"]) == 3
    assert all(name in problem["detail"] for name in problem["nearest"])


@pytest.mark.parametrize("target", ["/kv?model=no/where&context=1", "/models/no/where"])
async def test_an_id_is_named(tmp_path: Path, target: str) -> None:
    problem = (await ask(GONE, tmp_path, target)).json()
    assert (problem["status"], problem["model"]) == (503, "no/where")
    assert "'no/where'" in problem["detail"]
    assert "nearest" not in problem


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        (Fault.UNAVAILABLE, 503),
        (Fault.RATE_LIMITED, 503),
        (Fault.HTML, 502),
        (Fault.BAD_TOKEN, 502),
    ],
)
async def test_whatever_the_trouble_is(tmp_path: Path, fault: Fault, status: int) -> None:
    async with FakeHub() as hub:
        hub.fault("", fault)
        answer = await ask(hub.url, tmp_path, "/kv?model=org/model&context=1")
    assert answer.status_code == status
    assert answer.json()["model"] == "org/model"
    assert "'org/model'" in answer.json()["detail"]
