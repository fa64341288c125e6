"""Models on this machine: the Hugging Face cache, as its own library lays it out, and folders."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from app.errors import HubOffline, InputError, NoModelFiles
from app.hub.folder import read_folder, read_local_weights
from tests.fake_hub import COMMIT, FakeHub, Fault, gguf_bytes, safetensors_bytes
from tests.hub.conftest import LLAMA, MakeClient


def put(folder: Path, files: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        raw = content if isinstance(content, bytes) else json.dumps(content).encode()
        (folder / name).write_bytes(raw)


def cache(root: Path, repo_id: str, files: dict[str, Any], ref: str = "main") -> Path:
    """The layout of huggingface_hub: snapshots link to blobs; a ref has no newline."""
    repository = root / f"models--{repo_id.replace('/', '--')}"
    blobs, snapshot = repository / "blobs", repository / "snapshots" / COMMIT
    put(blobs, {f"etag-{name}": content for name, content in files.items()})
    snapshot.mkdir(parents=True)
    for name in files:
        (snapshot / name).symlink_to(Path("../../blobs") / f"etag-{name}")
    (repository / "refs" / ref).parent.mkdir(parents=True)
    (repository / "refs" / ref).write_text(COMMIT)
    return repository


def everything(root: Path) -> list[Path]:
    return sorted(root.rglob("*"))


async def test_the_cache_answers_without_the_hub(
    hub: FakeHub, make_client: MakeClient, tmp_path: Path
) -> None:
    repository = cache(
        tmp_path,
        "org/cached",
        {"config.json": LLAMA, "model.safetensors": safetensors_bytes({"a": ("BF16", [5], 10)})},
    )
    for offline in (False, True):
        client = make_client(cache_dir=tmp_path, offline=offline)
        for revision in ("main", COMMIT):
            files = await client.fetch_model("org/cached", revision)
            assert (files.source, files.commit, files.config) == ("local_cache", COMMIT, LLAMA)
            assert len(files.notes) == 1
            weights = await client.fetch_weights(files)
            assert (weights.total_bytes, weights.source) == (10, "safetensors")
    put(repository / ".no_exist" / COMMIT, {"hf_quant_config.json": b""})
    assert (await client.fetch_model("org/cached")).notes == ()
    assert hub.requests == []


async def test_the_hub_is_asked_where_the_caller_wants_it(
    hub: FakeHub, make_client: MakeClient, tmp_path: Path
) -> None:
    cache(tmp_path, "org/model", {"config.json": {"model_type": "cached"}})
    client = make_client(cache_dir=tmp_path)
    assert (await client.fetch_model("org/model")).config == {"model_type": "cached"}
    fresh = await client.fetch_model("org/model", use_local_cache=False)
    assert (fresh.source, fresh.config) == ("hub", LLAMA)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff"])
async def test_a_broken_cache_is_no_cache(
    hub: FakeHub, make_client: MakeClient, tmp_path: Path, content: bytes
) -> None:
    cache(tmp_path, "org/model", {"config.json": content})
    assert (await make_client(cache_dir=tmp_path).fetch_model("org/model")).source == "hub"


async def test_what_the_cache_lacks(hub: FakeHub, make_client: MakeClient, tmp_path: Path) -> None:
    repository = cache(tmp_path, "org/model", {"tokenizer.json": b"{}"})
    client = make_client(cache_dir=tmp_path)
    assert (await client.fetch_model("org/model")).source == "hub"
    (repository / "refs" / "main").write_text("not a commit")
    assert (await client.fetch_model("org/model")).source == "hub"
    with pytest.raises(HubOffline):
        await make_client(cache_dir=tmp_path, offline=True).fetch_model("org/model")
    with pytest.raises(HubOffline):
        await make_client(cache_dir=tmp_path / "none", offline=True).fetch_model("org/model")


async def test_weights_that_the_cache_lacks_come_from_the_hub_at_its_commit(
    hub: FakeHub, make_client: MakeClient, tmp_path: Path
) -> None:
    cache(tmp_path, "org/model", {"config.json": LLAMA})
    index = {"metadata": {"total_size": 99}}
    hub.add("org/model", {"config.json": LLAMA, "model.safetensors.index.json": index})
    client = make_client(cache_dir=tmp_path)
    weights = await client.fetch_weights(await client.fetch_model("org/model"))
    assert (weights.total_bytes, weights.source) == (99, "index")
    assert f"/resolve/{COMMIT}/" in hub.requests[0].path
    away = make_client(cache_dir=tmp_path, offline=True)
    unknown = await away.fetch_weights(await away.fetch_model("org/model"))
    assert unknown.total_bytes is None


async def test_the_cache_is_never_written(
    hub: FakeHub, make_client: MakeClient, tmp_path: Path
) -> None:
    cache(tmp_path, "org/cached", {"config.json": LLAMA})
    before = everything(tmp_path)
    client = make_client(cache_dir=tmp_path)
    await client.fetch_model("org/cached")
    await client.fetch_model("org/model")
    assert everything(tmp_path) == before


async def test_the_cache_works_while_the_hub_does_not(
    hub: FakeHub, make_client: MakeClient, tmp_path: Path
) -> None:
    hub.fault("", Fault.SILENT)
    cache(tmp_path, "org/cached", {"config.json": LLAMA})
    files = await make_client(cache_dir=tmp_path).fetch_model("org/cached")
    assert files.config == LLAMA


async def test_a_folder(tmp_path: Path) -> None:
    beside = {"quantization": {"quant_algo": "FP8"}}
    index = {"metadata": {"total_size": 12}}
    put(
        tmp_path,
        {
            "config.json": LLAMA,
            "hf_quant_config.json": beside,
            "model.safetensors.index.json": index,
        },
    )
    files = await read_folder(tmp_path)
    assert (files.source, files.commit, files.config) == ("local_folder", None, LLAMA)
    assert files.quantization == beside
    weights = await read_local_weights(files, asyncio.Semaphore(1))
    assert weights is not None
    assert weights.total_bytes == 12


async def test_a_folder_with_a_gguf_file(tmp_path: Path) -> None:
    metadata = [("general.architecture", "str", "qwen3"), ("qwen3.block_count", "u32", 3)]
    put(tmp_path, {"m.gguf": gguf_bytes(metadata, [("output.weight", [32, 2], 8)])})
    files = await read_folder(tmp_path)
    assert files.gguf is not None
    assert files.config["model_type"] == "qwen3"
    assert files.config["num_hidden_layers"] == 3
    # Q8_0: 64 elements are two blocks of 34 bytes.
    assert files.gguf.tensor_bytes == 68


async def test_a_folder_that_holds_no_model(tmp_path: Path) -> None:
    with pytest.raises(NoModelFiles):
        await read_folder(tmp_path)
    with pytest.raises(NoModelFiles):
        await read_folder(tmp_path / "none")
    put(tmp_path, {"config.json": b"nonsense"})
    with pytest.raises(InputError, match=r"config\.json is not JSON"):
        await read_folder(tmp_path)
