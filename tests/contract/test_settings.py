"""Settings come from the environment, by the ecosystem's names where it has them."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from app.settings import BadSettings, Settings


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
        "KVMATH_API_KEYS",
        "KVMATH_RATE_LIMIT",
        "KVMATH_REDIS_URL",
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


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"HOST": "a..b"}, "HOST: should be an address or the name of a host"),
        ({"HF_ENDPOINT": "https://user:pw@h.example"}, "HF_ENDPOINT: should be http(s)://host"),
        ({"HF_ENDPOINT": "https://h.example/path?x=1"}, "HF_ENDPOINT: should be http(s)://host"),
        ({"HF_ENDPOINT": "https://h.example/path#f"}, "HF_ENDPOINT: should be http(s)://host"),
        ({"HF_ENDPOINT": "https://h.example:0"}, "HF_ENDPOINT: should be http(s)://host"),
        ({"HF_ENDPOINT": "https://h..example"}, "HF_ENDPOINT: should be an address or the name"),
        ({"KVMATH_HUB_CDN_HOSTS": "https://cdn.example"}, "KVMATH_HUB_CDN_HOSTS: should be names"),
        ({"KVMATH_HUB_CDN_HOSTS": "cdn.example:80"}, "KVMATH_HUB_CDN_HOSTS: should be names"),
        ({"HF_HOME": __file__}, "HF_HOME: should be a folder"),
        ({"XDG_CACHE_HOME": __file__}, "XDG_CACHE_HOME: should be a folder"),
        ({"HF_HUB_CACHE": __file__}, "HF_HUB_CACHE: should be a folder"),
        ({"HF_TOKEN_PATH": "/"}, "HF_TOKEN_PATH, or token in HF_HOME: cannot be read"),
        ({"HF_TOKEN": "Bearer hf_x"}, "HF_TOKEN: a token may hold printable ASCII only, and no s"),
        # A batch of up to 32 MiB would be answered 503, and 503 again.
        ({"KVMATH_MAX_BODIES_BYTES": "33554431"}, "KVMATH_MAX_BODIES_BYTES: should be at least"),
        ({"KVMATH_SHUTDOWN_GRACE_S": "25s"}, "KVMATH_SHUTDOWN_GRACE_S: Input should be a valid"),
        ({"KVMATH_SHUTDOWN_GRACE_S": "3601"}, "KVMATH_SHUTDOWN_GRACE_S: Input should be less"),
        ({"KVMATH_REQUEST_TIMEOUT_S": "nan"}, "KVMATH_REQUEST_TIMEOUT_S: Input should be"),
        ({"KVMATH_TELEMETRY": "2"}, "KVMATH_TELEMETRY: Input should be a valid boolean"),
        ({"KVMATH_LOG_LEVEL": "loud"}, "KVMATH_LOG_LEVEL: Input should be 'debug', 'info',"),
        ({"HF_HOME": "~no-such-user/hf"}, "HF_HOME: names the home of a user"),
        ({"HUGGINGFACE_HUB_CACHE": "~no-such-user"}, "HUGGINGFACE_HUB_CACHE: names the home"),
        ({"HF_TOKEN": "hf_\u00e9"}, "HF_TOKEN: a token may hold printable ASCII"),
        ({"KVMATH_API_KEYS": "ci:7letter"}, "KVMATH_API_KEYS: key 1 should have at least 8"),
        ({"KVMATH_API_KEYS": "a:eight888,b:nine\x7f9999"}, "KVMATH_API_KEYS: key 2 should be"),
        ({"KVMATH_API_KEYS": "a:eight888,a:nine99999"}, "KVMATH_API_KEYS: key 2 has the name"),
        ({"KVMATH_API_KEYS": "key-2:eight888,nine99999"}, "KVMATH_API_KEYS: key 2 has the name"),
        ({"KVMATH_REDIS_URL": "valkey:6379"}, "KVMATH_REDIS_URL: should begin with redis://"),
        # Redis' client takes each of these for another address: database 0 or 12, or localhost.
        ({"KVMATH_REDIS_URL": "redis://h/notanumber"}, "KVMATH_REDIS_URL: should name one data"),
        ({"KVMATH_REDIS_URL": "redis://h/1/2"}, "KVMATH_REDIS_URL: should name one database"),
        ({"KVMATH_REDIS_URL": "redis://h/-1"}, "KVMATH_REDIS_URL: should name one database"),
        ({"KVMATH_REDIS_URL": "redis://h/1?db=2"}, "KVMATH_REDIS_URL: should name one database"),
        ({"KVMATH_REDIS_URL": "redis://h/?db="}, "KVMATH_REDIS_URL: should name one database"),
        ({"KVMATH_REDIS_URL": "unix:///s?db=one"}, "KVMATH_REDIS_URL: should name one database"),
        ({"KVMATH_REDIS_URL": "redis://h/1#2"}, "KVMATH_REDIS_URL: should be redis://host"),
        ({"KVMATH_REDIS_URL": "redis://:6379/1"}, "KVMATH_REDIS_URL: should be redis://host"),
        ({"KVMATH_REDIS_URL": "redis://h:0/1"}, "KVMATH_REDIS_URL: should be redis://host"),
        ({"KVMATH_REDIS_URL": "unix://?db=1"}, "KVMATH_REDIS_URL: should be redis://host"),
        ({"KVMATH_RATE_LIMIT": "3"}, "KVMATH_RATE_LIMIT: needs KVMATH_API_KEYS"),
        # A service that was to have keys, and lost them on the way, is not open to everybody.
        ({"KVMATH_API_KEYS": ""}, "KVMATH_API_KEYS: holds no key"),
        ({"KVMATH_API_KEYS": ","}, "KVMATH_API_KEYS: holds no key"),
        ({"KVMATH_RATE_LIMIT": "3", "KVMATH_API_KEYS": " , "}, "KVMATH_API_KEYS: holds no key"),
        ({"KVMATH_API_KEYS": "a:eight888,b: eight888"}, "KVMATH_API_KEYS: key 2 is the same"),
        # The keys are what is wrong here, and not that there are none.
        ({"KVMATH_RATE_LIMIT": "3", "KVMATH_API_KEYS": "7letter"}, "KVMATH_API_KEYS: key 1"),
    ],
)
def test_a_fault_is_one_line_with_the_variable_and_the_rule(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], fault: str
):
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(BadSettings) as refused:
        Settings.from_environment()
    (line,) = refused.value.faults
    assert line.startswith(fault)
    assert "\n" not in line
    assert not any(value in line for value in given.values() if len(value) > 1)


def test_what_is_right_is_taken(monkeypatch: pytest.MonkeyPatch):
    for name, value in {
        "HOST": "::1",
        "HF_HOME": "$HOME/hf",
        "HF_ENDPOINT": "http://[::1]:8080/hf/",
        "HF_TOKEN": "  ",
        "KVMATH_API_KEYS": "ci : eight888,a key with spaces",
        "KVMATH_HUB_CDN_HOSTS": "CDN.example, other",
        "KVMATH_RATE_LIMIT": "3",
        "KVMATH_REDIS_URL": "unix:///run/valkey.sock?db=1",
    }.items():
        monkeypatch.setenv(name, value)
    settings = Settings.from_environment()
    assert (settings.host, settings.rate_limit) == ("::1", 3)
    assert settings.hub_home == Path.home() / "hf"
    assert str(settings.hf_endpoint) == "http://[::1]:8080/hf/"
    assert settings.hub_cdn_hosts == "cdn.example,other"
    assert settings.hub_token() is None
    keys = {name: key.get_secret_value() for name, key in settings.api_keys.items()}
    assert keys == {"ci": "eight888", "key-2": "a key with spaces"}


@pytest.mark.parametrize(
    "url",
    [
        "redis://h",
        "redis://h/",
        "redis://user:p%40ss@h:6380/0",
        "rediss://[::1]:6379/15?ssl_cert_reqs=none",
        "redis://h?db=1",
        "unix:///run/valkey.sock",
    ],
)
def test_addresses_of_a_store(monkeypatch: pytest.MonkeyPatch, url: str):
    monkeypatch.setenv("KVMATH_REDIS_URL", url)
    given = Settings.from_environment().redis_url
    assert given is not None
    assert given.get_secret_value() == url


def test_a_token_file_that_holds_something_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """It would fail at every question to the hub."""
    (tmp_path / "other").write_text("hf_\u00e9", encoding="utf-8")
    monkeypatch.setenv("HF_TOKEN_PATH", str(tmp_path / "other"))
    with pytest.raises(BadSettings, match=r"^HF_TOKEN_PATH.*printable ASCII") as refused:
        Settings.from_environment()
    assert "hf_" not in str(refused.value)
    monkeypatch.setenv("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")
    assert Settings.from_environment().hub_token() is None
