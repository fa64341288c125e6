"""Configuration from the environment, read when an application is created, never at import."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal, Self

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


def _folder(value: Path) -> Path:
    try:
        return value.expanduser()
    except RuntimeError:
        raise ValueError("names the home of a user who is not known here") from None


def _redis_url(value: SecretStr) -> SecretStr:
    if not value.get_secret_value().startswith(("redis://", "rediss://", "unix://")):
        raise ValueError("should begin with redis://, rediss:// or unix://")
    return value


def _token(value: SecretStr) -> SecretStr:
    """The token as huggingface_hub cleans it: environment and files may add line ends."""
    text = value.get_secret_value().replace("\r", "").replace("\n", "").strip()
    if not text.isascii() or not text.isprintable():
        raise ValueError("a token may hold printable ASCII only")
    return SecretStr(text)


def _named_keys(value: object) -> object:
    """`name:key,key` as keys by name; those without a name are numbered."""
    if not isinstance(value, str):
        return value
    keys: dict[str, str] = {}
    for number, entry in enumerate((e.strip() for e in value.split(",") if e.strip()), start=1):
        name, _, key = entry.rpartition(":")
        name = name or f"key-{number}"
        if name in keys:
            raise ValueError(f"key {number} has the name of one before it")
        keys[name] = key
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
Folder = Annotated[Path, AfterValidator(_folder)]
HubToken = Annotated[SecretStr, AfterValidator(_token)]
EcosystemFlag = Annotated[bool, BeforeValidator(_ecosystem_flag)]
_MIB = 1024 * 1024


class Settings(BaseSettings):
    """All that a deployment can change.

    Our own names start with ``KVMATH_``; those of the Hugging Face ecosystem are taken as they
    are, so that a machine set up for it needs nothing more.
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
    shutdown_grace_s: int = Field(25, ge=0, description="Time for requests in flight at SIGTERM.")

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
    cache_max_age_s: int = Field(300, ge=0, description="Cache-Control of deterministic answers.")

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
        "none: everybody may ask.",
    )
    rate_limit: Annotated[int, Field(ge=1), AfterValidator(_rate_of_keys)] | None = Field(
        None,
        description="Requests of a key in a window; needs keys. Counted by all together with "
        "`KVMATH_REDIS_URL`, else by each worker for itself.",
    )
    rate_limit_window_s: int = Field(60, ge=1, le=86400, description="Length of that window.")

    # The hub, by the ecosystem's names
    hf_endpoint: HttpUrl = Field(
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
    hf_token_path: Folder | None = Field(
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
    hub_cdn_hosts: str = Field(
        "", description="Further storage hosts a mirror redirects large files to, by commas."
    )

    @classmethod
    def from_environment(cls) -> Self:
        """The settings that the process's environment asks for.

        Raises:
            BadSettings: where it asks for what cannot be had.
        """
        try:
            return cls()
        except ValidationError as error:
            raise BadSettings(_faults(error)) from None

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
            ValueError: a file whose text cannot stand in a header.
        """
        if self.hf_hub_disable_implicit_token:
            return None
        token = self.hf_token
        if token is None:
            path = self.hf_token_path or self.hub_home / "token"
            try:
                token = _token(SecretStr(path.read_text(encoding="utf-8")))
            except (OSError, UnicodeDecodeError):
                return None
        return token if token.get_secret_value() else None


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
