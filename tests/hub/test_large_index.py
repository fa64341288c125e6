"""An index larger than is read of a JSON file: its beginning says what the weights take, or not."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import HubBadAnswer, InputError
from app.hub.client import HubClient
from app.hub.facts import WeightFacts
from app.hub.folder import read_folder
from app.hub.strict_json import JsonRefused, parse_beginning, parse_object
from tests.fake_hub import COMMIT, FakeHub, Fault
from tests.hub.conftest import LLAMA, MakeClient
from tests.hub.test_formats import JSON_VALUES, QUICK
from tests.hub.test_local import cache, put

INDEX = "model.safetensors.index.json"
PYTORCH_INDEX = "pytorch_model.bin.index.json"
COUNTS = {"safetensors": {"parameters": {"BF16": 10}}}  # 20 bytes, as model info says it
BEGINNING = "bytes=0-63999"
TOTAL = 55_562_855_904
STATED = {"total_size": TOTAL}
WEIGHT_MAP = {
    f"model.layers.{n // 1536}.mlp.experts.{n % 256}.gate_up_proj.weight_scale_inv.{n}": (
        "model-00001-of-000163.safetensors"
    )
    for n in range(92_000)
}


def index(metadata: Any, *, last: bool = False) -> bytes:
    """An index of 9 MB, written as checkpoints' own are."""
    first: dict[str, Any] = {"metadata": metadata, "weight_map": WEIGHT_MAP}
    text = json.dumps(dict(reversed(first.items())) if last else first, indent=2).encode()
    assert 9_000_000 < len(text) < 12_000_000
    return text


def many_values() -> bytes:
    """An index of less than 5 MB that holds more than 250,000 values."""
    names = {f"{n}": "a" for n in range(260_000)}
    text = json.dumps({"metadata": STATED, "weight_map": names}).encode()
    assert len(text) < 5_000_000
    return text


async def weights_of(client: HubClient) -> WeightFacts:
    return await client.fetch_weights(await client.fetch_model("org/model"))


@pytest.mark.parametrize("large", [frozenset({INDEX}), frozenset()], ids=["storage", "hub"])
@pytest.mark.parametrize(
    "content",
    [
        index(STATED),
        index({"total_parameters": 3, "total_size": 55562855904.0}),
        b'{"format": ["pt"], ' + index(STATED)[1:],
        many_values(),
        b" " * 20_000 + index(STATED),
    ],
    ids=["first", "float", "second", "values", "after spaces"],
)
async def test_the_beginning_of_a_large_index_settles_it(
    hub: FakeHub, client: HubClient, content: bytes, large: frozenset[str]
) -> None:
    hub.add("org/model", {"config.json": LLAMA, INDEX: content}, large=large)
    files = await client.fetch_model("org/model")
    for weights in await asyncio.gather(*(client.fetch_weights(files) for _ in range(3))):
        assert weights == WeightFacts(total_bytes=TOTAL, source="index")
    bodies = hub.cdn.requests if large else hub.asked(f"resolve-cache.*{INDEX}")
    assert [seen.headers.get("range") for seen in bodies] == [None, BEGINNING]
    assert await client.fetch_weights(files) == weights
    assert len(bodies) == 2


@pytest.mark.parametrize(
    "content",
    [
        index(STATED, last=True),
        index({"total_size": "many"}),
        index({"total_size": True}),
        index({"total_size": 0.5}),
        index({}),
        index(7),
        index({"total_size": TOTAL, "padding": "a" * 64_000}),
        b'{"metadata": {"total_size": 5}, "metadata": 7, ' + index(7, last=True)[1:],
        b" " * 64_000 + index(STATED),
    ],
    ids=["last", "word", "truth", "half", "absent", "number", "cut", "twice", "spaces"],
)
async def test_a_beginning_that_does_not_say_it_is_as_no_index(
    hub: FakeHub, client: HubClient, content: bytes
) -> None:
    hub.add("org/counted", {"config.json": LLAMA, INDEX: content}, info=COUNTS)
    counted = await client.fetch_weights(await client.fetch_model("org/counted"))
    assert (counted.total_bytes, counted.source) == (20, "model_info")
    hub.add("org/model", {"config.json": LLAMA, INDEX: content})
    unknown = await weights_of(client)
    assert (unknown.total_bytes, unknown.source) == (None, "unknown")
    assert unknown.notes[1:] == (
        f"{INDEX} is larger than 5000000 bytes: only its beginning is read",
    )


async def test_the_index_of_pytorch_files(hub: FakeHub, client: HubClient) -> None:
    hub.add("org/model", {"config.json": LLAMA, PYTORCH_INDEX: index(STATED)})
    assert await weights_of(client) == WeightFacts(total_bytes=TOTAL, source="pytorch_index")
    hub.add("org/last", {"config.json": LLAMA, PYTORCH_INDEX: index(STATED, last=True)})
    unknown = await client.fetch_weights(await client.fetch_model("org/last"))
    assert PYTORCH_INDEX in unknown.notes[1]


async def test_a_server_that_ignores_ranges(hub: FakeHub, client: HubClient) -> None:
    hub.add("org/model", {"config.json": LLAMA, INDEX: index(STATED)})
    hub.fault(INDEX, Fault.IGNORED_RANGE)
    assert (await weights_of(client)).total_bytes == TOTAL


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (index({"total_size": float("nan")}), "holds NaN"),
        (b"<html>" + index(STATED), "is not JSON"),
        (b"[" + index(STATED), "is not JSON"),
        (b'{"a": "\xff", ' + index(STATED)[1:], "is not UTF-8"),
        (b'{"metadata": {"total_size": 5}', "is not JSON"),
        (b'{"metadata": {"total_size": NaN}}', "holds NaN"),
    ],
    ids=["NaN", "HTML", "list", "UTF-8", "short and cut", "short with NaN"],
)
async def test_a_malformed_index_is_an_error_of_any_size(
    hub: FakeHub, client: HubClient, tmp_path: Path, content: bytes, why: str
) -> None:
    files = {"config.json": LLAMA, INDEX: content}
    hub.add("org/model", files, info=COUNTS)
    with pytest.raises(HubBadAnswer, match=f"{INDEX} {why}"):
        await weights_of(client)
    put(tmp_path, files)
    with pytest.raises(InputError, match=f"{INDEX} {why}"):
        await client.fetch_weights(await read_folder(tmp_path))


async def test_the_local_cache(hub: FakeHub, make_client: MakeClient, tmp_path: Path) -> None:
    cache(tmp_path, "org/model", {"config.json": LLAMA, INDEX: index(STATED)})
    client = make_client(cache_dir=tmp_path)
    assert await weights_of(client) == WeightFacts(total_bytes=TOTAL, source="index")
    assert hub.requests == []


async def test_a_local_cache_that_does_not_say_it(
    hub: FakeHub, make_client: MakeClient, tmp_path: Path
) -> None:
    files = {"config.json": LLAMA, INDEX: index(STATED, last=True)}
    cache(tmp_path, "org/model", files)
    hub.add("org/model", files, info=COUNTS)
    assert (await weights_of(make_client(cache_dir=tmp_path))).source == "model_info"
    assert f"/resolve/{COMMIT}/" in hub.requests[0].path
    away = await weights_of(make_client(cache_dir=tmp_path, offline=True))
    assert (away.total_bytes, away.source) == (None, "unknown")
    assert INDEX in away.notes[1]


async def test_a_local_folder(client: HubClient, tmp_path: Path) -> None:
    put(tmp_path, {"config.json": LLAMA, INDEX: index(STATED)})
    weights = await client.fetch_weights(await read_folder(tmp_path))
    assert weights == WeightFacts(total_bytes=TOTAL, source="index")
    put(tmp_path, {INDEX: index(STATED, last=True)})
    unknown = await client.fetch_weights(await read_folder(tmp_path))
    assert unknown.total_bytes is None
    assert INDEX in unknown.notes[1]


async def test_no_other_file_may_be_that_large(
    hub: FakeHub, client: HubClient, tmp_path: Path
) -> None:
    files = {"config.json": index(STATED)}
    hub.add("org/model", files)
    with pytest.raises(HubBadAnswer, match=r"config\.json is larger than 5000000 bytes"):
        await client.fetch_model("org/model")
    put(tmp_path, files)
    with pytest.raises(InputError, match=r"config\.json is larger than 5000000 bytes"):
        await read_folder(tmp_path)


@QUICK
@given(st.dictionaries(st.text(), JSON_VALUES), st.floats(0, 1))
def test_a_beginning_holds_members_of_the_whole_and_no_others(
    value: dict[str, Any], part: float
) -> None:
    data = json.dumps(value, ensure_ascii=False).encode()
    try:
        whole = parse_object(data)
    except JsonRefused:
        return
    beginning = parse_beginning(data[: round(part * len(data))])
    assert all(whole[name] == said for name, said in beginning.items())
    assert list(beginning) == list(whole)[: len(beginning)]


def test_a_beginning_ends_with_its_last_whole_member() -> None:
    text = b'{"a": {"b": "}\\"{"}, "c": 12, "d": [{}], "e": "f'
    ends = {0: 0, 1: 0, 18: 0, 19: 1, 28: 1, 29: 2, 38: 2, 39: 3, len(text): 3}
    for end, members in ends.items():
        assert list(parse_beginning(text[:end])) == ["a", "c", "d"][:members], text[:end]
