"""Where a model comes from: the inline config, the catalogue, the local cache, the hub."""

import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from app.catalog.models import model_catalogue
from app.main import create_app
from app.settings import Settings
from tests.fake_hub import COMMIT, FakeHub, Fault, gguf_bytes

LLAMA_3_8B = dict(model_catalogue().models[0].facts)
TWO_LAYERS = {**LLAMA_3_8B, "num_hidden_layers": 2}
PER_TOKEN = 131_072 // 32
"""Bytes a token of one layer: 2 x 8 x 128 x 2."""

Serve = Callable[..., AbstractAsyncContextManager[httpx.AsyncClient]]


@pytest.fixture
async def hub() -> AsyncIterator[FakeHub]:
    async with FakeHub() as fake:
        fake.add("org/two-layers", {"config.json": TWO_LAYERS})
        fake.add("org/gated", {"config.json": TWO_LAYERS}, gated="manual")
        fake.add("org/private", {"config.json": TWO_LAYERS}, private=True)
        yield fake


@pytest.fixture
def serve(hub: FakeHub, tmp_path: Path) -> Serve:
    @asynccontextmanager
    async def client(**changed: Any) -> AsyncIterator[httpx.AsyncClient]:
        values = {"hf_endpoint": hub.url, "hf_home": tmp_path, "hf_hub_offline": False, **changed}
        app = create_app(Settings(**values))
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://t") as made,
        ):
            yield made

    return client


async def test_from_the_hub_at_a_commit(serve: Serve, hub: FakeHub) -> None:
    async with serve() as client:
        answer = (await client.get("/kv", params={"model": "org/two-layers"})).json()
        assert answer["model"]["source"] == "hub"
        assert answer["model"]["id"] == "org/two-layers"
        assert answer["model"]["revision"] == COMMIT
        assert answer["kv_bytes_per_token"] == 2 * PER_TOKEN
        asked = len(hub.requests)
        await client.get("/kv", params={"model": "org/two-layers", "context": 7})
        assert len(hub.requests) == asked


async def test_the_catalogue_answers_first_unless_told_otherwise(
    serve: Serve, hub: FakeHub
) -> None:
    hub.add("meta-llama/Meta-Llama-3-8B", {"config.json": TWO_LAYERS})
    name = {"model": "meta-llama/Meta-Llama-3-8B"}
    async with serve() as client:
        shipped = (await client.get("/kv", params=name)).json()
        assert shipped["model"]["source"] == "catalogue"
        assert shipped["kv_bytes_per_token"] == 32 * PER_TOKEN
        assert not hub.requests
        for more in ({"source": "hub"}, {"revision": "main"}, {"revision": COMMIT}):
            now = (await client.get("/kv", params={**name, **more})).json()
            assert now["model"]["source"] == "hub"
            assert now["kv_bytes_per_token"] == 2 * PER_TOKEN
        # An alias stands for the hub id.
        alias = {"model": "llama-3-8b", "source": "hub"}
        assert (await client.get("/kv", params=alias)).json()["model"]["revision"] == COMMIT


async def test_the_local_cache_comes_before_the_hub(
    serve: Serve, hub: FakeHub, tmp_path: Path
) -> None:
    snapshot = tmp_path / "hub" / "models--org--cached" / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text(json.dumps(TWO_LAYERS), encoding="utf-8")
    refs = snapshot.parents[1] / "refs"
    refs.mkdir()
    (refs / "main").write_text(COMMIT, encoding="utf-8")
    for offline in (False, True):
        async with serve(hf_hub_offline=offline) as client:
            answer = (await client.get("/kv", params={"model": "org/cached"})).json()
            assert answer["model"]["source"] == "local_cache"
            assert answer["model"]["revision"] == COMMIT
            assert answer["kv_bytes_per_token"] == 2 * PER_TOKEN
    assert not hub.requests


async def test_an_inline_config_asks_nobody(serve: Serve, hub: FakeHub) -> None:
    async with serve() as client:
        answer = (await client.post("/kv", json={"config": TWO_LAYERS})).json()
        assert answer["model"]["source"] == "config"
        assert answer["model"]["id"] is None
        assert not hub.requests


@pytest.mark.parametrize(
    ("model", "more", "status"),
    [
        ("org/never-was", {}, 404),
        ("org/two-layers", {"revision": "no-such-branch"}, 404),
        ("org/gated", {}, 403),
        ("org/private", {}, 404),
    ],
)
async def test_what_the_hub_refuses(
    serve: Serve, model: str, more: dict[str, str], status: int
) -> None:
    async with serve() as client:
        response = await client.get("/kv", params={"model": model, **more})
        assert response.status_code == status, response.text
        assert response.headers["content-type"] == "application/problem+json"
        if model == "org/private":
            # Without a token the hub does not tell missing from private, and neither do we.
            assert "private" in response.json()["detail"]


async def test_offline_and_out_of_order(serve: Serve, hub: FakeHub) -> None:
    async with serve(hf_hub_offline=True) as client:
        response = await client.get("/kv", params={"model": "org/two-layers"})
        assert response.status_code == 503
        assert not hub.requests
    hub.fault("two-layers", Fault.UNAVAILABLE)
    async with serve() as client:
        response = await client.get("/kv", params={"model": "org/two-layers"})
        assert response.status_code == 503
        assert response.headers["content-type"] == "application/problem+json"


async def test_the_catalogue_is_held_against_the_hub(hub: FakeHub, tmp_path: Path) -> None:
    for entry in model_catalogue().models:
        if "/" in entry.id:
            hub.add(entry.id, {"config.json": dict(entry.facts)})
    command = [sys.executable, "-c", "from app.cli import main; main()", "catalogue", "--check"]
    environment = {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path), "PATH": ""}
    same = await anyio.run_process(command, env=environment, check=False)
    assert same.returncode == 0, same.stderr
    hub.add("meta-llama/Meta-Llama-3-8B", {"config.json": TWO_LAYERS})
    changed = await anyio.run_process(command, env=environment, check=False)
    assert changed.returncode == 1
    said = changed.stdout.decode()
    assert said == "meta-llama/Meta-Llama-3-8B: num_hidden_layers: 32 here, 2 on the hub\n"


async def test_a_gguf_file_is_a_model(serve: Serve, hub: FakeHub) -> None:
    metadata = [
        ("general.architecture", "str", "llama"),
        ("llama.block_count", "u32", 2),
        ("llama.embedding_length", "u32", 64),
        ("llama.feed_forward_length", "u32", 128),
        ("llama.attention.head_count", "u32", 4),
        ("llama.attention.head_count_kv", "u32", 2),
        ("llama.context_length", "u32", 512),
        ("llama.vocab_size", "u32", 100),
    ]
    # One tensor of 64 x 100 in f16 (type 1): 12,800 bytes.
    content = gguf_bytes(metadata, [("token_embd.weight", [64, 100], 1)])
    hub.add("org/quantised", {"model-q8.gguf": content})
    request = {"model": "org/quantised", "gguf_file": "model-q8.gguf", "context": 10}
    async with serve() as client:
        answer = (await client.get("/kv", params=request)).json()
        # 2 x 2 layers x 2 KV heads x 16 x 2 B
        assert answer["kv_bytes_per_token"] == 256
        assert answer["weight_bytes"] == 12_800


async def test_quantisation_described_beside_the_config(serve: Serve) -> None:
    description = {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}
    body = {"config": TWO_LAYERS, "hf_quant_config": description}
    async with serve() as client:
        answer = (await client.post("/kv", json=body)).json()
        # The cache in one byte an element: half of bfloat16.
        assert answer["kv_bytes_per_token"] == PER_TOKEN
