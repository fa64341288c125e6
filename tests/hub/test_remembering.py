"""Caches, single flight, and what is given when the hub is away."""

import asyncio
import gc
import tracemalloc

import pytest

from app.errors import GatedModel, HubBadAnswer, HubError, HubUnavailable, UnknownModel
from app.hub.client import HubClient
from app.hub.store import Blob, BlobKey, MemoryBlobStore
from tests.doubles import Clock
from tests.fake_hub import COMMIT, FakeHub, Fault
from tests.hub.conftest import LLAMA, MakeClient

OTHER = "f" * 40


async def test_a_known_model_costs_nothing(hub: FakeHub, client: HubClient) -> None:
    first = await client.fetch_model("org/model")
    asked = len(hub.requests)
    assert await client.fetch_model("org/model") == first
    assert len(hub.requests) == asked


async def test_a_branch_is_asked_again_after_its_time_a_commit_never(
    hub: FakeHub, client: HubClient, clock: Clock
) -> None:
    await client.fetch_model("org/model")
    await client.fetch_model("org/model", COMMIT)
    before = len(hub.requests)
    clock.now += 301
    await client.fetch_model("org/model", COMMIT)
    assert len(hub.requests) == before
    await client.fetch_model("org/model")
    # The redirect names the commit: the body, known by it, is not sent again.
    assert [seen.path for seen in hub.requests[before:]].count(
        "/org/model/resolve/main/config.json"
    ) == 1
    assert not [seen for seen in hub.requests[before:] if "resolve-cache" in seen.path]


async def test_a_branch_that_moved_gives_the_new_files(
    hub: FakeHub, client: HubClient, clock: Clock
) -> None:
    await client.fetch_model("org/model")
    hub.add("org/model", {"config.json": {"model_type": "new"}}, commit=OTHER)
    assert (await client.fetch_model("org/model")).commit == COMMIT
    clock.now += 301
    files = await client.fetch_model("org/model")
    assert (files.commit, files.config) == (OTHER, {"model_type": "new"})


async def test_an_old_answer_is_given_and_marked_while_the_hub_is_away(
    hub: FakeHub, client: HubClient, clock: Clock
) -> None:
    await client.fetch_model("org/model")
    clock.now += 301
    hub.fault("", Fault.UNAVAILABLE)
    stale = await client.fetch_model("org/model")
    assert (stale.config, stale.commit, stale.stale) == (LLAMA, COMMIT, True)
    assert "could not be asked" in stale.notes[0]
    # For a while nobody else pays for finding out.
    asked = len(hub.requests)
    assert (await client.fetch_model("org/model")).stale
    assert len(hub.requests) == asked
    hub.mend()
    clock.now += 11
    assert not (await client.fetch_model("org/model")).stale


async def test_a_failure_to_ask_is_never_remembered(hub: FakeHub, client: HubClient) -> None:
    hub.fault("", Fault.UNAVAILABLE)
    with pytest.raises(HubUnavailable):
        await client.fetch_model("org/model")
    hub.mend()
    assert (await client.fetch_model("org/model")).config == LLAMA


async def test_missing_and_gated_are_remembered_for_a_minute(
    hub: FakeHub, client: HubClient, clock: Clock
) -> None:
    hub.add("org/gated", {"config.json": LLAMA}, gated="auto")
    for name, error in (("org/none", UnknownModel), ("org/gated", GatedModel)):
        with pytest.raises(error) as first:
            await client.fetch_model(name)
        asked = len(hub.requests)
        with pytest.raises(error) as second:
            await client.fetch_model(name)
        assert len(hub.requests) == asked
        assert second.value is not first.value
        assert (second.value.detail, second.value.extra) == (
            first.value.detail,
            first.value.extra,
        )
    clock.now += 61
    hub.add("org/none", {"config.json": LLAMA})
    assert (await client.fetch_model("org/none")).config == LLAMA


async def test_a_missing_file_of_a_commit_is_remembered_for_good(
    hub: FakeHub, client: HubClient, clock: Clock
) -> None:
    hub.add("org/mistral", {"params.json": {"dim": 64, "n_layers": 2, "n_heads": 4}})
    await client.fetch_model("org/mistral", COMMIT)
    clock.now += 1_000_000
    client._facts.clear()
    asked = len(hub.requests)
    await client.fetch_model("org/mistral", COMMIT)
    assert len(hub.requests) == asked


async def test_a_thousand_callers_cost_one_fetch(hub: FakeHub, client: HubClient) -> None:
    found = await asyncio.gather(*(client.fetch_model("org/model") for _ in range(1000)))
    assert all(files.config == LLAMA for files in found)
    assert len(hub.asked(r"resolve/main/config\.json")) == 1
    assert len(hub.requests) == 3


async def test_a_thousand_callers_share_one_failure(hub: FakeHub, client: HubClient) -> None:
    hub.fault("", Fault.HTML)
    found = await asyncio.gather(
        *(client.fetch_model("org/model") for _ in range(1000)), return_exceptions=True
    )
    assert {type(error).__name__ for error in found} == {"HubBadAnswer"}
    assert len(hub.asked(r"/config\.json")) == 1


async def test_a_caller_that_gives_up_cancels_nobody_else(hub: FakeHub, client: HubClient) -> None:
    first, *others = [asyncio.create_task(client.fetch_model("org/model")) for _ in range(5)]
    await asyncio.sleep(0)
    first.cancel()
    for other in others:
        assert (await other).config == LLAMA
    assert first.cancelled()
    assert len(hub.asked(r"resolve/main/config\.json")) == 1


async def test_if_all_callers_give_up_the_answer_is_still_kept(
    hub: FakeHub, client: HubClient
) -> None:
    lonely = asyncio.create_task(client.fetch_model("org/model"))
    await asyncio.sleep(0)
    lonely.cancel()
    await asyncio.gather(lonely, return_exceptions=True)
    assert (await client.fetch_model("org/model")).config == LLAMA
    assert len(hub.asked(r"resolve/main/config\.json")) == 1


async def test_closing_ends_what_is_under_way(hub: FakeHub, make_client: MakeClient) -> None:
    hub.fault("", Fault.SILENT)
    client = make_client()
    waiting = asyncio.create_task(client.fetch_model("org/model"))
    await asyncio.sleep(0.05)
    await client.aclose()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_events_are_told(hub: FakeHub, make_client: MakeClient, clock: Clock) -> None:
    events: list[tuple[str, str]] = []
    client = make_client(observer=lambda kind, outcome: events.append((kind, outcome)))
    await client.fetch_model("org/model")
    await client.fetch_model("org/model")
    assert events[0] == ("cache", "miss")
    assert sorted(events[1:3]) == [("request", "file_missing"), ("request", "ok")]
    assert events[3:] == [("cache", "hit")]
    assert client.budget_left() == {"resolvers": 2999}


async def test_the_store_is_bounded_by_bytes() -> None:
    store = MemoryBlobStore(10_000)
    for number in range(100):
        await store.put(BlobKey("o/n", COMMIT, str(number)), Blob(bytes(1000)))
        assert store.bytes <= 10_000
    assert await store.get(BlobKey("o/n", COMMIT, "0")) is None
    assert await store.get(BlobKey("o/n", COMMIT, "99")) == Blob(bytes(1000))
    await store.put(BlobKey("o/n", COMMIT, "huge"), Blob(bytes(20_000)))
    assert await store.get(BlobKey("o/n", COMMIT, "huge")) is None


async def test_a_failure_holds_no_bodies(hub: FakeHub, client: HubClient, clock: Clock) -> None:
    """100 answers of 600 kB each that are not JSON, and no collector to find circles."""
    hub.fault("", Fault.DEEP)
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        for _ in range(50):
            with pytest.raises(HubBadAnswer):
                await client.fetch_model("org/model")
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        gc.enable()
    assert held < 10_000_000


@pytest.mark.parametrize(
    "fault", [Fault.NAN, Fault.NOT_UTF8, Fault.DEEP, Fault.HTML, Fault.SHORT_BODY]
)
async def test_a_spoiled_body_does_not_stand_for_the_file_afterwards(
    hub: FakeHub, client: HubClient, fault: Fault
) -> None:
    hub.fault("", fault)
    with pytest.raises(HubError):
        await client.fetch_model("org/model", COMMIT)
    hub.mend()
    assert (await client.fetch_model("org/model", COMMIT)).config == LLAMA
