"""Configuration from the environment, read when an application is created, never at import."""

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import parse_qsl, urlsplit

from pydantic import (
    AfterValidator,
    AliasChoices,
    BeforeValidator,
    Field,
    HttpUrl,
    SecretStr,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

_TRUE = frozenset({"1", "ON", "YES", "TRUE"})
_KEY_LENGTH = 8
_API_KEYS = "KVMATH_API_KEYS"


class BadSettings(Exception):
    """The environment asks for what cannot be had.

    Attributes:
        faults: One line each: the variable and its rule, never a value, which may be a secret.
    """

    def __init__(self, faults: Iterable[str]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(self.faults))


def _ecosystem_flag(value: object) -> bool:
    """A flag as huggingface_hub reads one: 1, on, yes and true in any case; all else is false."""
    return str(value).strip().upper() in _TRUE


def _host(value: str) -> str:
    try:
        value.encode("idna")
    except UnicodeError:
        raise ValueError("should be an address or the name of a host") from None
    return value


def _path(value: Path) -> Path:
    """With the user's home and variables in it put in, as huggingface_hub does."""
    try:
        return Path(os.path.expandvars(value.expanduser()))
    except RuntimeError:
        raise ValueError("names the home of a user who is not known here") from None


def _folder(value: Path) -> Path:
    try:
        other = value.exists() and not value.is_dir()
    except OSError:  # in a folder that this user may not look into
        other = False
    if other:
        raise ValueError("should be a folder")
    return value


def _endpoint(value: HttpUrl) -> HttpUrl:
    beside = (value.username, value.password, value.query, value.fragment)
    if any(each is not None for each in beside) or value.port == 0:
        raise ValueError("should be http(s)://host, with port and path at most")
    _host(str(value.host).strip("[]"))
    return value


def _redis_url(value: SecretStr) -> SecretStr:
    """An address that the client reads as it is written: what it cannot use it would pass over."""
    text = value.get_secret_value()
    if not text.startswith(("redis://", "rediss://", "unix://")):
        raise ValueError("should begin with redis://, rediss:// or unix://")
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ValueError("should have a host and a port that can be read") from None
    databases = [each for name, each in parse_qsl(parts.query, True) if name == "db"]
    if parts.scheme != "unix" and parts.path not in {"", "/"}:
        databases.append(parts.path[1:])
    if not (parts.path if parts.scheme == "unix" else host) or port == 0 or parts.fragment:
        raise ValueError("should be redis://host:port/database or unix:///path?db=database")
    if len(databases) > 1 or not all(re.fullmatch("[0-9]{1,9}", each) for each in databases):
        raise ValueError("should name one database, by its number")
    return value


def _hosts(value: str) -> str:
    hosts = value.lower().replace(",", " ").split()
    if not all(re.fullmatch(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*", each) for each in hosts):
        raise ValueError("should be names of hosts alone, with commas between")
    return ",".join(hosts)


def _token(value: SecretStr) -> SecretStr:
    """The token as huggingface_hub cleans it: environment and files may add line ends."""
    text = value.get_secret_value().replace("\r", "").replace("\n", "").strip()
    if not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError("a token may hold printable ASCII only, and no space")
    return SecretStr(text)


def _named_keys(value: object) -> object:
    """`name:key,key` as keys by name; those without a name are numbered."""
    if not isinstance(value, str):
        return value
    keys: dict[str, str] = {}
    for number, entry in enumerate((e.strip() for e in value.split(",") if e.strip()), start=1):
        name, _, key = entry.rpartition(":")
        name, key = name.strip() or f"key-{number}", key.strip()
        if name in keys:
            raise ValueError(f"key {number} has the name of one before it")
        if key in keys.values():
            raise ValueError(f"key {number} is the same as one before it")
        keys[name] = key
    if not keys:
        raise ValueError("holds no key; where everybody may ask, it is not set at all")
    return keys


def _sound_keys(keys: dict[str, SecretStr]) -> dict[str, SecretStr]:
    # By its place: of a key with a colon in it, the name is a part.
    for number, (name, key) in enumerate(keys.items(), start=1):
        if len(key) < _KEY_LENGTH:
            raise ValueError(f"key {number} should have at least {_KEY_LENGTH} characters")
        if not (name + key.get_secret_value()).isprintable():
            raise ValueError(f"key {number} should be printable text")
    return keys


def _rate_of_keys(value: int, info: ValidationInfo) -> int:
    if info.data.get("api_keys") == {}:
        raise ValueError("needs KVMATH_API_KEYS: a rate is that of a key, and would limit nobody")
    return value


ApiKeys = Annotated[
    dict[str, SecretStr], NoDecode, BeforeValidator(_named_keys), AfterValidator(_sound_keys)
]
File = Annotated[Path, AfterValidator(_path)]
Folder = Annotated[File, AfterValidator(_folder)]
HubToken = Annotated[SecretStr, AfterValidator(_token)]
EcosystemFlag = Annotated[bool, BeforeValidator(_ecosystem_flag)]
_MIB = 1024 * 1024


class Settings(BaseSettings):
    """All that a deployment can change.

    Our own names start with ``KVMATH_``; those of the Hugging Face ecosystem are taken as they
    are, so that a machine set up for it needs nothing more. What is empty counts as not set, but for
    the API keys: where they were lost on their way here, the service would be open to everybody.
    """

    model_config = SettingsConfigDict(
        env_prefix="KVMATH_",
        frozen=True,
        extra="ignore",
        populate_by_name=True,
        env_ignore_empty=True,
        hide_input_in_errors=True,
    )

    # Serving
    host: Annotated[str, AfterValidator(_host)] = Field(
        "127.0.0.1", validation_alias="HOST", description="Address to listen on."
    )
    port: int = Field(
        8000, ge=0, le=65535, validation_alias="PORT", description="Port to listen on; 0: any."
    )
    workers: int = Field(1, ge=1, le=256, description="Server processes.")
    shutdown_grace_s: int = Field(
        25, ge=0, le=3600, description="Time for requests in flight at SIGTERM."
    )

    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="`debug`, `info`, `warning` or `error`."
    )
    log_requests: bool = Field(True, description="One JSON line a request on stderr.")
    telemetry: bool = Field(
        False, description="OpenTelemetry by FastAPI's own instrumentation; needs its SDK."
    )

    # Limits: what a single request, and all together, may take
    max_body_bytes: int = Field(
        6 * _MIB, ge=1024, description="Body of a calculation; published configs reach 3 MB."
    )
    max_log_bytes: int = Field(8 * _MIB, ge=1024, description="Body of /verify.")
    max_batch_bytes: int = Field(32 * _MIB, ge=1024, description="Body of /batch.")
    max_target_bytes: int = Field(8192, ge=256, description="Path and query string together.")
    max_header_bytes: int = Field(16384, ge=1024, description="All header fields together.")
    max_requests: int = Field(1000, ge=1, description="In flight; more are answered 503.")
    max_bodies_bytes: int = Field(
        128 * _MIB, ge=1024, description="All bodies in flight together; more are answered 503."
    )
    request_timeout_s: float = Field(
        60.0, gt=0, le=3600, description="From a request's arrival to its answer, or 504."
    )
    answer_cache_bytes: int = Field(16 * _MIB, ge=0, description="Finished answers kept in memory.")
    cache_max_age_s: int = Field(
        300, ge=0, le=31_536_000, description="Cache-Control of deterministic answers."
    )

    # A fleet
    redis_url: Annotated[SecretStr, AfterValidator(_redis_url)] | None = Field(
        None,
        repr=False,
        description="Redis or Valkey for what replicas share: files, and the counts of a rate.",
    )
    redis_timeout_s: float = Field(
        0.25, gt=0, le=10, description="Longest wait for it; then one goes on without."
    )

    # Who may ask, and how often
    api_keys: ApiKeys = Field(
        {},
        repr=False,
        description="`name:key` or `key`, with commas between, each key of at least 8 characters; "
        "not set: everybody may ask.",
    )
    rate_limit: Annotated[int, Field(ge=1, le=10**9), AfterValidator(_rate_of_keys)] | None = Field(
        None,
        description="Requests of a key in a window; needs keys. Counted by all together with "
        "`KVMATH_REDIS_URL`, else by each worker for itself.",
    )
    rate_limit_window_s: int = Field(60, ge=1, le=86400, description="Length of that window.")

    # The hub, by the ecosystem's names
    hf_endpoint: Annotated[HttpUrl, AfterValidator(_endpoint)] = Field(
        HttpUrl("https://huggingface.co"),
        validation_alias="HF_ENDPOINT",
        description="The hub, or a mirror of it.",
    )
    hf_home: Folder | None = Field(
        None,
        validation_alias="HF_HOME",
        description="Where the ecosystem keeps token and cache; else `huggingface` in the next.",
    )
    xdg_cache_home: Folder | None = Field(
        None, validation_alias="XDG_CACHE_HOME", description="The user's caches; else `~/.cache`."
    )
    hf_hub_cache: Folder | None = Field(
        None,
        validation_alias=AliasChoices("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"),
        description="Downloaded repositories, only read; else `hub` in `HF_HOME`.",
    )
    hf_token: HubToken | None = Field(
        None,
        validation_alias=AliasChoices("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"),
        repr=False,
        description="Token for gated and private models; sent to `HF_ENDPOINT` alone.",
    )
    hf_token_path: File | None = Field(
        None, validation_alias="HF_TOKEN_PATH", description="File of it; else `token` in `HF_HOME`."
    )
    hf_hub_disable_implicit_token: EcosystemFlag = Field(
        False,
        validation_alias="HF_HUB_DISABLE_IMPLICIT_TOKEN",
        description="1: the token is not used.",
    )
    hf_hub_offline: EcosystemFlag = Field(
        False, validation_alias="HF_HUB_OFFLINE", description="1: the hub is never asked."
    )
    transformers_offline: EcosystemFlag = Field(
        False, validation_alias="TRANSFORMERS_OFFLINE", description="The same."
    )

    # The hub, by our own names
    hub_timeout_s: float = Field(
        3.0, gt=0, le=600, description="Total time for a model's configuration, retries included."
    )
    hub_header_timeout_s: float = Field(
        30.0, gt=0, le=3600, description="Total time for the headers of a model's weight files."
    )
    hub_cdn_hosts: Annotated[str, AfterValidator(_hosts)] = Field(
        "", description="Further storage hosts a mirror redirects large files to, by commas."
    )

    @classmethod
    def from_environment(cls) -> Self:
        """The settings that the process's environment asks for.

        Raises:
            BadSettings: where it asks for what cannot be had.
        """
        try:
            settings = cls()
        except ValidationError as error:
            raise BadSettings(_faults(error)) from None
        for name in ("max_body_bytes", "max_log_bytes", "max_batch_bytes"):
            if getattr(settings, name) > settings.max_bodies_bytes:
                fault = f"KVMATH_MAX_BODIES_BYTES: should be at least KVMATH_{name.upper()}"
                raise BadSettings([fault])
        return settings

    @model_validator(mode="before")
    @classmethod
    def _empty_keys_are_a_fault(cls, values: dict[str, Any]) -> dict[str, Any]:
        if _API_KEYS in os.environ:
            values.setdefault("api_keys", os.environ[_API_KEYS])
        return values

    @model_validator(mode="after")
    def _token_can_be_sent(self) -> Self:
        try:
            self.hub_token()
        except ValueError as error:
            raise ValueError(f"HF_TOKEN_PATH, or token in HF_HOME: {error}") from None
        return self

    @property
    def offline(self) -> bool:
        """Whether no request may leave for the hub."""
        return self.hf_hub_offline or self.transformers_offline

    @property
    def hub_home(self) -> Path:
        """Where the ecosystem keeps its state: ``HF_HOME`` or the user's cache folder."""
        return self.hf_home or (self.xdg_cache_home or Path.home() / ".cache") / "huggingface"

    @property
    def hub_cache(self) -> Path:
        """The folder of downloaded repositories, which is only ever read."""
        return self.hf_hub_cache or self.hub_home / "hub"

    def hub_token(self) -> SecretStr | None:
        """The token for the hub: the environment's, or that of the token file.

        None where there is none, or where ``HF_HUB_DISABLE_IMPLICIT_TOKEN`` forbids using it.

        Raises:
            ValueError: a file whose text cannot stand in a header, or one that is named and is
                there but cannot be read.
        """
        if self.hf_hub_disable_implicit_token:
            return None
        if self.hf_token:
            return self.hf_token
        path = self.hf_token_path or self.hub_home / "token"
        try:
            return _token(SecretStr(path.read_text(encoding="utf-8"))) or None
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError):
            if self.hf_token_path is None:
                return None
            raise ValueError("cannot be read as text") from None


def _faults(error: ValidationError) -> list[str]:
    faults = []
    for fault in error.errors(include_url=False, include_input=False):
        rule = fault["msg"].removeprefix("Value error, ")
        faults.append(f"{_variable(str(fault['loc'][0]))}: {rule}" if fault["loc"] else rule)
    return faults


def _variable(place: str) -> str:
    """The variable that a fault is about: of those with an older name, the one that is set."""
    field = Settings.model_fields.get(place)
    if field is not None:
        return f"KVMATH_{place.upper()}"
    choices = (each.validation_alias for each in Settings.model_fields.values())
    for alias in choices:
        if isinstance(alias, AliasChoices) and place in alias.choices:
            return next((str(each) for each in alias.choices if os.environ.get(str(each))), place)
    return place
