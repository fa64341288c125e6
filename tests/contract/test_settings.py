"""Settings come from the environment, by the ecosystem's names where it has them."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from app.settings import Settings


@pytest.fixture(autouse=True)
def empty_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for name in (
        "HF_ENDPOINT",
        "HF_HOME",
        "HF_HUB_CACHE",
        "HF_HUB_DISABLE_IMPLICIT_TOKEN",
        "HF_HUB_OFFLINE",
        "HF_TOKEN",
        "HF_TOKEN_PATH",
        "HOST",
        "HUGGINGFACE_HUB_CACHE",
        "HUGGING_FACE_HUB_TOKEN",
        "PORT",
        "TRANSFORMERS_OFFLINE",
        "XDG_CACHE_HOME",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_defaults(empty_environment: Path):
    settings = Settings()
    assert (settings.host, settings.port) == ("127.0.0.1", 8000)
    assert not settings.offline
    assert settings.hub_cache == empty_environment / ".cache" / "huggingface" / "hub"
    assert settings.hub_token() is None


@pytest.mark.parametrize("name", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
@pytest.mark.parametrize(
    ("value", "offline"),
    [("1", True), ("ON", True), ("yes", True), ("True", True), ("0", False), ("2", False)],
)
def test_offline(monkeypatch: pytest.MonkeyPatch, name: str, value: str, offline: bool):
    monkeypatch.setenv(name, value)
    assert Settings().offline is offline


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert Settings().hub_cache == Path("/xdg/huggingface/hub")
    monkeypatch.setenv("HF_HOME", "/hf")
    assert Settings().hub_cache == Path("/hf/hub")
    monkeypatch.setenv("HUGGINGFACE_HUB_CACHE", "/old")
    assert Settings().hub_cache == Path("/old")
    monkeypatch.setenv("HF_HUB_CACHE", "/new")
    assert Settings().hub_cache == Path("/new")


def test_the_token_by_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    def token() -> str | None:
        secret = Settings().hub_token()
        return secret.get_secret_value() if secret else None

    monkeypatch.setenv("HF_HOME", str(tmp_path))
    (tmp_path / "token").write_text("of-file\n", encoding="utf-8")
    assert token() == "of-file"
    (tmp_path / "other").write_text("of-path\r\n", encoding="utf-8")
    monkeypatch.setenv("HF_TOKEN_PATH", str(tmp_path / "other"))
    assert token() == "of-path"
    monkeypatch.setenv("HUGGING_FACE_HUB_TOKEN", "old-name")
    assert token() == "old-name"
    monkeypatch.setenv("HF_TOKEN", " of-env\n")
    assert token() == "of-env"
    monkeypatch.setenv("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")
    assert token() is None


def test_a_token_is_never_shown(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    settings = Settings()
    assert "hf_secret" not in repr(settings) + str(settings) + settings.model_dump_json()
    assert "hf_secret" not in repr(settings.hub_token())


def test_a_bad_value_stops_the_start(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PORT", "99999")
    with pytest.raises(ValidationError, match="PORT"):
        Settings()
