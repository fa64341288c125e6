"""The hub's rate limits, obeyed by all callers together."""

import asyncio

import pytest

from app.errors import HubRateLimited
from app.hub.budget import MAX_WAIT_S, Budget, retry_after_s
from tests.doubles import Clock
from tests.fake_hub import FakeHub, Fault
from tests.hub.conftest import LLAMA, MakeClient

URL = "https://huggingface.co/o/n/resolve/main/config.json"
API = "https://huggingface.co/api/models/o/n/revision/main"


def limit(bucket: str, remaining: int, reset_s: int) -> dict[str, str]:
    return {"ratelimit": f'"{bucket}";r={remaining};t={reset_s}'}


def test_an_empty_bucket_is_left_alone_until_a_second_after_its_window(clock: Clock) -> None:
    budget = Budget(clock)
    assert budget.wait_s(URL) == 0
    budget.observe(URL, 200, limit("resolvers", 0, 55))
    assert budget.wait_s(URL) == 56
    assert budget.wait_s(API) == 0
    clock.now += 56
    assert budget.wait_s(URL) == 0
    assert budget.left() == {}


def test_requests_under_way_count_against_what_is_left(clock: Clock) -> None:
    budget = Budget(clock)
    budget.observe(URL, 200, limit("resolvers", 2, 10))
    with budget.under_way(URL):
        assert budget.wait_s(URL) == 0
        with budget.under_way(URL):
            assert budget.wait_s(URL) == 11
    assert budget.wait_s(URL) == 0


def test_the_header_says_which_bucket_a_path_draws_on(clock: Clock) -> None:
    budget = Budget(clock)
    budget.observe(API, 200, limit("resolvers", 5, 10))
    budget.observe(URL, 200, limit("resolvers", 0, 10))
    assert budget.wait_s(API) == 11
    assert budget.left() == {"resolvers": 0}


def test_retry_after_holds_for_everybody_and_is_bounded(clock: Clock) -> None:
    budget = Budget(clock)
    budget.observe(URL, 503, {"retry-after": "7"})
    assert budget.wait_s(URL) == 7
    budget.observe(URL, 429, {"retry-after": "999999999"})
    assert budget.wait_s(URL) == MAX_WAIT_S
    assert retry_after_s({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}) is None
    assert retry_after_s({"retry-after": "-1"}) is None


@pytest.mark.parametrize(
    "text", ["", "nonsense", '"api"', '"api";r=x;t=1', '"' + "a" * 99 + '";r=0;t=1']
)
def test_a_malformed_limit_is_no_limit(clock: Clock, text: str) -> None:
    budget = Budget(clock)
    budget.observe(URL, 200, {"ratelimit": text})
    assert budget.wait_s(URL) == 0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5", 5.0),
        # Longer than a window of the hub's is believed up to 15 minutes; what is no whole number,
        # or has more digits than any, is not.
        ("999999999", 900.0),
        ("9" * 400, None),
        ("-5", None),
        ("1.5", None),
        ("1e9", None),
        ("Wed, 21 Oct 2026 07:28:00 GMT", None),
    ],
)
def test_an_absurd_wait_is_bounded_or_none(text: str, seconds: float | None) -> None:
    assert retry_after_s({"retry-after": text}) == seconds


def test_buckets_are_bounded_in_number(clock: Clock) -> None:
    budget = Budget(clock)
    for number in range(1000):
        budget.observe(URL, 200, limit(f"bucket{number}", 1, 10))
    assert len(budget.left()) == 16


async def test_one_429_holds_back_every_caller_of_the_process(
    hub: FakeHub, make_client: MakeClient, clock: Clock
) -> None:
    client = make_client()
    hub.add("org/second", {"config.json": LLAMA})
    hub.fault("org/model", Fault.RATE_LIMITED)
    with pytest.raises(HubRateLimited) as first:
        await client.fetch_model("org/model")
    asked = len(hub.requests)
    found = await asyncio.gather(
        *(client.fetch_model(f"org/second{n % 7 or ''}") for n in range(100)),
        return_exceptions=True,
    )
    assert {type(error) for error in found} == {HubRateLimited}
    assert len(hub.requests) == asked
    # The window of 55 s that the header names, and one second more.
    assert first.value.retry_after == pytest.approx(56, abs=1)
    clock.now += 57
    hub.mend()
    assert (await client.fetch_model("org/second")).config == LLAMA


async def test_a_short_wait_is_waited_for(
    hub: FakeHub, make_client: MakeClient, clock: Clock
) -> None:
    client = make_client()
    await client.fetch_model("org/model")
    client._budget.observe(f"{hub.url}/o/n/resolve/main/x", 200, limit("resolvers", 0, 1))
    hub.limits.clear()
    hub.add("org/second", {"config.json": LLAMA})
    assert (await client.fetch_model("org/second")).config == LLAMA
    # t = 1 s, and a second more.
    assert max(clock.slept) == 2


async def test_the_last_request_of_a_window_is_not_spent_twice(
    hub: FakeHub, make_client: MakeClient
) -> None:
    client = make_client()
    await client.fetch_model("org/model")
    client._budget.observe(f"{hub.url}/o/n/resolve/main/x", 200, limit("resolvers", 1, 100))
    hub.limits["resolvers"] = (0, 100)
    before = len(hub.requests)
    names = [f"org/new{number}" for number in range(20)]
    for name in names:
        hub.add(name, {"config.json": LLAMA})
    found = await asyncio.gather(
        *(client.fetch_model(name) for name in names), return_exceptions=True
    )
    assert {type(error) for error in found} == {HubRateLimited}
    assert len(hub.requests) - before == 1
