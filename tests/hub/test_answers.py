"""Each row of what the hub answers, with what a caller sees."""

from collections.abc import AsyncIterator

import httpx
import pytest

from app.errors import (
    DisabledModel,
    GatedModel,
    HubBadAnswer,
    HubOffline,
    HubTokenRefused,
    NoModelFiles,
    PrivateModel,
    UnknownModel,
    UnknownRevision,
)
from app.hub.client import HubClient
from app.hub.config import HubConfig
from app.hub.token import Token
from tests.fake_hub import COMMIT, FakeHub, Fault
from tests.fake_hub.http import Answer
from tests.fake_hub.hub import GOOD_TOKEN
from tests.hub.conftest import LLAMA, MakeClient

OTHER = "f" * 40


async def test_a_small_file_behind_its_redirect(hub: FakeHub, client: HubClient) -> None:
    files = await client.fetch_model("org/model")
    assert files.config == LLAMA
    assert (files.resolved_id, files.commit, files.source) == ("org/model", COMMIT, "hub")
    assert not files.stale
    # One question a file, asked at once: config.json (two hops) and hf_quant_config.json (404).
    assert len(hub.requests) == 3
    assert all(seen.headers["accept-encoding"] == "identity" for seen in hub.requests)


async def test_a_large_file_behind_another_origin(hub: FakeHub, make_client: MakeClient) -> None:
    hub.add("org/large", {"config.json": LLAMA}, large=frozenset({"config.json"}))
    client = make_client(token=Token(GOOD_TOKEN))
    files = await client.fetch_model("org/large")
    assert (files.config, files.commit) == (LLAMA, COMMIT)
    assert [seen.headers.get("authorization") for seen in hub.cdn.requests] == [None]
    assert hub.requests[0].headers["authorization"] == f"Bearer {GOOD_TOKEN}"


async def test_a_renamed_model_is_reported_by_its_new_name(hub: FakeHub, client: HubClient) -> None:
    hub.renamed["old/name"] = "org/model"
    files = await client.fetch_model("old/name")
    assert (files.requested_id, files.resolved_id) == ("old/name", "org/model")
    assert files.notes == ("the hub knows old/name as org/model",)


async def test_files_are_of_one_commit_even_if_the_branch_moves(
    hub: FakeHub, client: HubClient
) -> None:
    old = {"config.json": b'{"model_type": "old"}', "hf_quant_config.json": b'{"v": 1}'}
    new = {"config.json": b'{"model_type": "new"}', "hf_quant_config.json": b'{"v": 2}'}
    repo = hub.add("org/moving", old, history={OTHER: new})
    resolve = repo.at
    answers = iter([COMMIT, OTHER])
    repo.at = lambda revision: resolve(next(answers, OTHER) if revision == "main" else revision)  # type: ignore[method-assign]
    files = await client.fetch_model("org/moving")
    kinds = {COMMIT: ("old", {"v": 1}), OTHER: ("new", {"v": 2})}
    assert files.commit is not None
    assert (files.config["model_type"], files.quantization) == kinds[files.commit]


async def test_missing_or_private_cannot_be_told_apart_without_a_token(client: HubClient) -> None:
    with pytest.raises(UnknownModel, match="missing or private"):
        await client.fetch_model("org/none")


async def test_missing_with_a_token(make_client: MakeClient) -> None:
    with pytest.raises(UnknownModel, match="does not know it") as caught:
        await make_client(token=Token(GOOD_TOKEN)).fetch_model("org/none")
    assert caught.value.extra["hub_request_id"] == "Root=1-fake"


async def test_a_bad_token_does_not_read_as_a_missing_model(make_client: MakeClient) -> None:
    with pytest.raises(HubTokenRefused):
        await make_client(token=Token("hf_expired")).fetch_model("org/model")


@pytest.mark.parametrize("token", [None, Token(GOOD_TOKEN)])
async def test_a_gated_model_still_tells_its_totals(
    hub: FakeHub, make_client: MakeClient, token: Token | None
) -> None:
    info = {
        "config": {"architectures": ["LlamaForCausalLM"]},
        "safetensors": {"parameters": {"BF16": 8_030_261_248}},
    }
    hub.add("org/gated", {"config.json": LLAMA}, gated="manual", info=info)
    with pytest.raises(GatedModel) as caught:
        await make_client(token=token).fetch_model("org/gated")
    assert ("no token" in caught.value.detail) is (token is None)
    assert caught.value.extra["architectures"] == ["LlamaForCausalLM"]
    assert caught.value.extra["parameters_by_dtype"] == {"BF16": 8_030_261_248}


async def test_a_gated_model_with_access(hub: FakeHub, make_client: MakeClient) -> None:
    hub.add("org/gated", {"config.json": LLAMA}, gated="auto")
    hub.granted.add("org/gated")
    files = await make_client(token=Token(GOOD_TOKEN)).fetch_model("org/gated")
    assert files.config == LLAMA


async def test_a_disabled_model_is_neither_gated_nor_missing(
    hub: FakeHub, client: HubClient
) -> None:
    # Recorded: the files answer as if gated, model info says disabled.
    hub.add("org/disabled", {"config.json": LLAMA}, disabled=True)
    with pytest.raises(DisabledModel):
        await client.fetch_model("org/disabled")


async def test_a_missing_revision(client: HubClient) -> None:
    with pytest.raises(UnknownRevision, match="v9"):
        await client.fetch_model("org/model", "v9")


async def test_a_revision_by_branch_and_by_commit(hub: FakeHub, client: HubClient) -> None:
    files = {"config.json": b'{"model_type": "older"}'}
    hub.add("org/two", {"config.json": LLAMA}, refs={"refs/pr/1": OTHER}, history={OTHER: files})
    assert (await client.fetch_model("org/two", "refs/pr/1")).commit == OTHER
    by_commit = await client.fetch_model("org/two", OTHER)
    assert (by_commit.config, by_commit.commit) == ({"model_type": "older"}, OTHER)


async def test_forbidden_for_no_named_reason(hub: FakeHub, client: HubClient) -> None:
    hub._routed = lambda seen: Answer(403, {"X-Error-Message": "Forbidden by region"})  # type: ignore[method-assign]
    with pytest.raises(PrivateModel, match="Forbidden by region"):
        await client.fetch_model("org/model")


async def test_a_repository_without_any_configuration(hub: FakeHub, client: HubClient) -> None:
    hub.add("org/empty", {"README.md": b"hello"})
    with pytest.raises(NoModelFiles):
        await client.fetch_model("org/empty")


async def test_offline_asks_nothing(hub: FakeHub, make_client: MakeClient) -> None:
    client = make_client(offline=True)
    with pytest.raises(HubOffline):
        await client.fetch_model("org/model")
    assert hub.requests == []


async def test_quantization_beside_the_config_counts_where_the_config_has_none(
    hub: FakeHub, client: HubClient
) -> None:
    beside = {"quantization": {"quant_algo": "NVFP4"}}
    hub.add("org/beside", {"config.json": LLAMA, "hf_quant_config.json": beside})
    assert (await client.fetch_model("org/beside")).quantization == beside
    own = LLAMA | {"quantization_config": {"quant_method": "fp8"}}
    hub.add("org/own", {"config.json": own, "hf_quant_config.json": beside})
    assert (await client.fetch_model("org/own")).quantization is None


async def test_params_json_where_there_is_no_config_json(hub: FakeHub, client: HubClient) -> None:
    hub.add("org/mistral", {"params.json": {"dim": 64, "n_layers": 2, "n_heads": 4}})
    files = await client.fetch_model("org/mistral")
    assert files.is_params_json
    assert (files.config["model_type"], files.config["hidden_size"]) == ("mistral", 64)


async def test_connections_are_used_again(hub: FakeHub, client: HubClient) -> None:
    for number in range(5):
        hub.add(f"org/m{number}", {"config.json": LLAMA})
        await client.fetch_model(f"org/m{number}")
    # Two questions at once need two connections; redirects and 404s end none of them.
    assert (len(hub.requests), hub.hub.accepted) == (15, 2)


async def test_a_commit_that_answers_with_another(hub: FakeHub, client: HubClient) -> None:
    repo = hub.add("org/two", {"config.json": LLAMA}, history={OTHER: {}})
    repo.at = lambda revision: (COMMIT, repo.files)  # type: ignore[method-assign]
    with pytest.raises(HubBadAnswer, match="another commit"):
        await client.fetch_model("org/two", OTHER)


async def test_a_gated_model_whose_info_fails_is_still_gated(
    hub: FakeHub, client: HubClient
) -> None:
    hub.add("org/gated", {"config.json": LLAMA}, gated="auto")
    hub.fault("/api/models", Fault.HTML)
    with pytest.raises(GatedModel):
        await client.fetch_model("org/gated")


async def streamed(content: bytes) -> AsyncIterator[bytes]:
    yield content


async def test_a_mirror_that_sends_us_to_the_hub_itself() -> None:
    seen: list[tuple[str, str | None]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append((request.url.host, request.headers.get("authorization")))
        if request.url.host == "mirror.example":
            place = f"https://huggingface.co{request.url.raw_path.decode()}"
            return httpx.Response(308, headers={"Location": place}, content=streamed(b""))
        headers = {"X-Repo-Commit": COMMIT}
        return httpx.Response(200, headers=headers, content=streamed(b'{"model_type": "llama"}'))

    config = HubConfig(endpoint="https://mirror.example", token=Token(GOOD_TOKEN))
    async with HubClient(config, transport=httpx.MockTransport(answer)) as client:
        files = await client.fetch_model("org/model")
    assert files.commit == COMMIT
    assert {host for host, _ in seen} == {"mirror.example", "huggingface.co"}
    assert all((sent is None) == (host == "huggingface.co") for host, sent in seen)
