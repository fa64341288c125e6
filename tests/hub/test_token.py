"""The token goes to the hub's own origin and is seen nowhere else."""

import logging
import pickle
from pathlib import Path
from typing import Any

import pytest

from app.errors import KvmathError
from app.hub.config import HubConfig
from app.hub.origins import Origins
from app.hub.token import Token
from app.settings import Settings
from tests.fake_hub import FakeHub, Fault
from tests.fake_hub.http import Answer
from tests.hub.conftest import MakeClient

SECRET = "hf_goodtoken"


def test_a_token_does_not_show_itself() -> None:
    token = Token(SECRET)
    config = HubConfig(token=token)
    assert SECRET not in f"{token} {token!r} {config!r} {config}"
    assert token.redact(f"who sent {SECRET}?") == "who sent ***?"


@pytest.mark.parametrize("secret", ["", "a\nb", "a\x00", "é"])
def test_what_cannot_stand_in_a_header_is_no_token(secret: str) -> None:
    with pytest.raises(ValueError, match="printable") as caught:
        Token(secret)
    assert not secret or secret not in str(caught.value)


@pytest.mark.parametrize("fault", list(Fault), ids=lambda fault: fault.name)
async def test_no_error_and_no_log_line_holds_the_token(
    hub: FakeHub, make_client: MakeClient, caplog: pytest.LogCaptureFixture, fault: Fault
) -> None:
    caplog.set_level(logging.DEBUG)
    hub.fault("", fault)
    client = make_client(token=Token(SECRET), timeout_s=0.5)
    told = ""
    try:
        await client.fetch_model("org/model")
    except KvmathError as error:
        told = f"{error!r} {error} {error.detail} {error.extra} {pickle.dumps(error.args)!r}"
    assert hub.requests[0].headers["authorization"] == f"Bearer {SECRET}"
    assert SECRET not in told + caplog.text
    assert hub.foreign.requests == []


async def test_a_hub_that_sends_the_token_back(hub: FakeHub, make_client: MakeClient) -> None:
    echo = {"X-Error-Message": f"no {SECRET}", "X-Request-Id": SECRET, "X-HF-Warning": SECRET}
    hub._routed = lambda seen: Answer(400, dict(echo))  # type: ignore[method-assign]
    with pytest.raises(KvmathError) as caught:
        await make_client(token=Token(SECRET)).fetch_model("org/model")
    assert SECRET not in f"{caught.value.detail} {caught.value.extra}"
    assert caught.value.extra["hub_message"] == "no ***"


async def test_without_a_token_none_is_sent(hub: FakeHub, make_client: MakeClient) -> None:
    await make_client().fetch_model("org/model")
    assert all("authorization" not in seen.headers for seen in hub.requests)


def test_only_the_endpoint_itself_gets_the_token() -> None:
    origins = Origins("https://mirror.example/hf")
    assert origins.is_endpoint("https://mirror.example/o/n/resolve/main/x")
    for url in (
        "http://mirror.example/x",
        "https://mirror.example:8443/x",
        "https://mirror.example.evil.example/x",
        "https://huggingface.co/x",
    ):
        assert not origins.is_endpoint(url)


@pytest.mark.parametrize(
    ("target", "plain", "large"),
    [
        ("https://huggingface.co/o/n", True, True),
        ("https://hf.co/o/n", True, True),
        ("https://mirror.example/x", True, True),
        ("https://cas-bridge.xethub.hf.co/x", False, True),
        ("https://cdn-lfs.huggingface.co/x", False, True),
        ("https://storage.example/x", False, True),
        ("https://mirror.example:8443/x", False, True),
        ("http://mirror.example/x", False, False),
        ("http://cdn-lfs.huggingface.co/x", False, False),
        ("https://evilhf.co/x", False, False),
        ("https://evil.example/x", False, False),
        ("https://huggingface.co@evil.example/x", False, False),
        ("https://user:pw@huggingface.co/x", False, False),
        ("http://169.254.169.254/latest/meta-data", False, False),
        ("file:///etc/passwd", False, False),
        ("https://[::1/x", False, False),
        ("https://h:99999/x", False, False),
    ],
)
def test_where_a_redirect_may_lead(target: str, plain: bool, large: bool) -> None:
    origins = Origins("https://mirror.example", ("storage.example",))
    source = "https://mirror.example/o/n/resolve/main/x"
    assert origins.may_follow(source, target, large_file=False) is plain
    assert origins.may_follow(source, target, large_file=True) is large


def test_a_storage_host_sends_nobody_elsewhere() -> None:
    origins = Origins("https://huggingface.co")
    cdn = "https://cdn-lfs.hf.co/x"
    assert origins.may_follow(cdn, "https://cdn-lfs.hf.co/y", large_file=True)
    assert not origins.may_follow(cdn, "https://cas-bridge.xethub.hf.co/y", large_file=True)


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", "HF_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    return monkeypatch


def token_of() -> str | None:
    token = HubConfig.from_settings(Settings.from_environment()).token
    return token.header() if token else None


def test_the_order_of_the_token_places(environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert token_of() is None
    (tmp_path / "token").write_text("from-home\n")
    assert token_of() == "Bearer from-home"
    (tmp_path / "elsewhere").write_text("from-path\r\n")
    environment.setenv("HF_TOKEN_PATH", str(tmp_path / "elsewhere"))
    assert token_of() == "Bearer from-path"
    environment.setenv("HUGGING_FACE_HUB_TOKEN", "older-name")
    assert token_of() == "Bearer older-name"
    environment.setenv("HF_TOKEN", " from\nenv ")
    assert token_of() == "Bearer fromenv"
    environment.setenv("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")
    assert token_of() is None


def test_the_rest_of_the_settings(environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    environment.setenv("HF_ENDPOINT", "https://mirror.example/hf/")
    environment.setenv("TRANSFORMERS_OFFLINE", "yes")
    config = HubConfig.from_settings(Settings.from_environment())
    assert config.endpoint == "https://mirror.example/hf"
    assert config.offline
    assert config.cache_dir == tmp_path / "hub"
