"""Each fault of a hub, with what a caller sees; none lasts longer than the deadline allows."""

import pytest

from app.errors import (
    HubBadAnswer,
    HubError,
    HubRateLimited,
    HubTimeout,
    HubTokenRefused,
    HubUnavailable,
)
from app.hub.client import HubClient
from app.hub.token import Token
from tests.doubles import Clock
from tests.fake_hub import FakeHub, Fault
from tests.fake_hub.hub import GOOD_TOKEN
from tests.hub.conftest import LLAMA, MakeClient

CONFIG = r"config\.json"


@pytest.mark.parametrize(
    ("fault", "error", "words"),
    [
        (Fault.UNAVAILABLE, HubUnavailable, "503"),
        (Fault.BAD_GATEWAY, HubUnavailable, "502"),
        (Fault.RESET, HubUnavailable, "broke off"),
        (Fault.SHORT_BODY, HubUnavailable, "broke off"),
        (Fault.RATE_LIMITED, HubRateLimited, "leaves no request"),
        (Fault.RATE_LIMITED_BY_ANOTHER, HubRateLimited, "asks to wait"),
        (Fault.HTML, HubBadAnswer, "not a hub's"),
        (Fault.REDIRECT_LOOP, HubBadAnswer, "in a circle"),
        (Fault.FOREIGN_REDIRECT, HubBadAnswer, "no hub's"),
        (Fault.REDIRECT_WITH_USER, HubBadAnswer, "no hub's"),
        (Fault.REDIRECT_TO_SCRIPT, HubBadAnswer, "no hub's"),
        (Fault.REDIRECT_NOWHERE, HubBadAnswer, "to what is no address"),
        (Fault.REDIRECT_TO_NO_NAME, HubBadAnswer, "cannot be read"),
        (Fault.CAPITAL_COMMIT, HubBadAnswer, "names no commit"),
        (Fault.OTHER_COMMIT, HubBadAnswer, "one commit and then another"),
        (Fault.ABSURD_WAIT, HubUnavailable, "503"),
        (Fault.LONG_HEAD, HubUnavailable, "broke off"),
        (Fault.TRAILERS, HubUnavailable, "broke off"),
        (Fault.UNASKED_PART, HubBadAnswer, "part of a file"),
        (Fault.GZIP_EMPTY_MEMBERS, HubBadAnswer, "4096 members"),
        (Fault.BAD_TOKEN, HubTokenRefused, "token"),
        (Fault.GZIP_BOMB, HubBadAnswer, "larger than"),
        (Fault.BROTLI, HubBadAnswer, "encoded as 'br'"),
        (Fault.NOT_UTF8, HubBadAnswer, "config.json is not UTF-8"),
        (Fault.NAN, HubBadAnswer, "config.json holds NaN"),
        (Fault.HUGE, HubBadAnswer, "larger than"),
        (Fault.HUGE_UNDECLARED, HubBadAnswer, "larger than"),
        (Fault.DEEP, HubBadAnswer, "nested deeper"),
    ],
    ids=lambda value: value.name if isinstance(value, Fault) else "",
)
async def test_a_lasting_fault_is_an_error_that_names_it(
    hub: FakeHub, client: HubClient, fault: Fault, error: type[HubError], words: str
) -> None:
    hub.fault(CONFIG, fault)
    with pytest.raises(error, match=words) as caught:
        await client.fetch_model("org/model")
    assert type(caught.value) is error
    assert len(caught.value.detail) < 300


@pytest.mark.parametrize(
    "fault",
    [Fault.SLOW_BODY, Fault.SILENT, Fault.SLOW_HEAD, Fault.INTERIM],
    ids=lambda fault: fault.name,
)
async def test_what_takes_too_long_ends_at_the_deadline(
    hub: FakeHub, make_client: MakeClient, fault: Fault
) -> None:
    hub.fault(CONFIG, fault)
    with pytest.raises(HubTimeout):
        await make_client(timeout_s=0.2).fetch_model("org/model")


@pytest.mark.parametrize(
    "fault",
    [
        Fault.UNAVAILABLE,
        Fault.BAD_GATEWAY,
        Fault.RESET,
        Fault.SHORT_BODY,
        Fault.RATE_LIMITED_BY_ANOTHER,
    ],
    ids=lambda fault: fault.name,
)
async def test_a_passing_fault_is_not_seen(
    hub: FakeHub, client: HubClient, clock: Clock, fault: Fault
) -> None:
    hub.fault(r"/config\.json", fault, times=1)
    assert (await client.fetch_model("org/model")).config == LLAMA
    # Jitter is at its most: the whole first step of the backoff.
    assert clock.slept == [0.2]


@pytest.mark.parametrize("fault", [Fault.GZIP, Fault.GZIP_MEMBERS], ids=lambda fault: fault.name)
async def test_gzip_that_was_not_asked_for_is_read(
    hub: FakeHub, client: HubClient, fault: Fault
) -> None:
    hub.fault(CONFIG, fault)
    assert (await client.fetch_model("org/model")).config == LLAMA


async def test_no_cookie_of_the_hub_comes_back(hub: FakeHub, client: HubClient) -> None:
    hub.fault(CONFIG, Fault.COOKIES)
    for revision in ("one", "two", "three"):
        await client.fetch_model("org/model", revision)
    assert len(hub.asked(CONFIG)) >= 3
    assert [seen for seen in hub.requests if "cookie" in seen.headers] == []


async def test_there_are_two_retries_further_apart(
    hub: FakeHub, client: HubClient, clock: Clock
) -> None:
    hub.fault(r"/config\.json", Fault.UNAVAILABLE)
    with pytest.raises(HubUnavailable):
        await client.fetch_model("org/model")
    assert len(hub.asked(r"/config\.json")) == 3
    assert clock.slept == [0.2, 0.4]


async def test_no_retry_that_cannot_end_before_the_deadline(
    hub: FakeHub, make_client: MakeClient
) -> None:
    hub.fault(CONFIG, Fault.UNAVAILABLE)
    with pytest.raises(HubUnavailable, match="503"):
        await make_client(backoff_s=5.0, timeout_s=3.0).fetch_model("org/model")
    assert len(hub.asked(r"/config\.json")) == 1


async def test_nobody_listening(hub: FakeHub, make_client: MakeClient) -> None:
    await hub.hub.stop()
    with pytest.raises(HubUnavailable, match="could not be reached"):
        await make_client().fetch_model("org/model")


async def test_no_request_and_no_token_reach_a_foreign_host(
    hub: FakeHub, make_client: MakeClient
) -> None:
    hub.fault(CONFIG, Fault.FOREIGN_REDIRECT)
    with pytest.raises(HubBadAnswer):
        await make_client(token=Token(GOOD_TOKEN)).fetch_model("org/model")
    assert hub.foreign.requests == []


async def test_a_large_file_is_fetched_from_a_storage_host_without_the_token(
    hub: FakeHub, make_client: MakeClient
) -> None:
    hub.add("org/large", {"config.json": LLAMA}, large=frozenset({"config.json"}))
    await make_client(token=Token(GOOD_TOKEN)).fetch_model("org/large")
    assert len(hub.cdn.requests) == 1
    assert "authorization" not in hub.cdn.requests[0].headers


async def test_a_malformed_file_of_a_commit_is_not_fetched_again(
    hub: FakeHub, client: HubClient
) -> None:
    hub.add("org/broken", {"config.json": b"[1, 2]"})
    for _ in range(3):
        with pytest.raises(HubBadAnswer, match="not a JSON object"):
            await client.fetch_model("org/broken")
    assert len(hub.asked(r"resolve/main/config\.json")) == 1
