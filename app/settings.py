"""Configuration from the environment, read when an application is created, never at import."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, AliasChoices, BeforeValidator, Field, HttpUrl, SecretStr
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

_TRUE = frozenset({"1", "ON", "YES", "TRUE"})


def _ecosystem_flag(value: object) -> bool:
    """A flag as huggingface_hub reads one: 1, on, yes and true in any case; all else is false."""
    return str(value).strip().upper() in _TRUE


def _redis_url(value: SecretStr) -> SecretStr:
    if not value.get_secret_value().startswith(("redis://", "rediss://", "unix://")):
        raise ValueError("should begin with redis://, rediss:// or unix://")
    return value


def _named_keys(value: object) -> object:
    """`name:key,key` as keys by name; those without a name are numbered."""
    if not isinstance(value, str):
        return value
    keys = {}
    for number, entry in enumerate((e.strip() for e in value.split(",") if e.strip()), start=1):
        name, _, key = entry.rpartition(":")
        keys[name or f"key-{number}"] = key
    return keys


ApiKeys = Annotated[
    dict[str, Annotated[SecretStr, Field(min_length=8)]], NoDecode, BeforeValidator(_named_keys)
]
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
    host: str = Field("127.0.0.1", validation_alias="HOST", description="Address to listen on.")
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
        None, repr=False, description="Redis or Valkey for files shared between replicas."
    )
    redis_timeout_s: float = Field(
        0.25, gt=0, le=10, description="Longest wait for it; then one goes on without."
    )

    # Who may ask, and how often
    api_keys: ApiKeys = Field(
        {}, repr=False, description="`name:key` or `key`, with commas between; none: everybody."
    )
    rate_limit: int | None = Field(
        None, ge=1, description="Requests of a key in a window, counted by each worker."
    )
    rate_limit_window_s: int = Field(60, ge=1, le=86400, description="Length of that window.")

    # The hub, by the ecosystem's names
    hf_endpoint: HttpUrl = Field(
        HttpUrl("https://huggingface.co"),
        validation_alias="HF_ENDPOINT",
        description="The hub, or a mirror of it.",
    )
    hf_home: Path | None = Field(
        None,
        validation_alias="HF_HOME",
        description="Where the ecosystem keeps token and cache; else `huggingface` in the next.",
    )
    xdg_cache_home: Path | None = Field(
        None, validation_alias="XDG_CACHE_HOME", description="The user's caches; else `~/.cache`."
    )
    hf_hub_cache: Path | None = Field(
        None,
        validation_alias=AliasChoices("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"),
        description="Downloaded repositories, only read; else `hub` in `HF_HOME`.",
    )
    hf_token: SecretStr | None = Field(
        None,
        validation_alias=AliasChoices("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"),
        repr=False,
        description="Token for gated and private models; sent to `HF_ENDPOINT` alone.",
    )
    hf_token_path: Path | None = Field(
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
        """The settings that the process's environment asks for."""
        return cls()

    @property
    def offline(self) -> bool:
        """Whether no request may leave for the hub."""
        return self.hf_hub_offline or self.transformers_offline

    @property
    def hub_home(self) -> Path:
        """Where the ecosystem keeps its state: ``HF_HOME`` or the user's cache folder."""
        caches = self.xdg_cache_home or Path("~/.cache")
        return (self.hf_home or caches / "huggingface").expanduser()

    @property
    def hub_cache(self) -> Path:
        """The folder of downloaded repositories, which is only ever read."""
        return (self.hf_hub_cache or self.hub_home / "hub").expanduser()

    def hub_token(self) -> SecretStr | None:
        """The token for the hub: the environment's, or that of the token file.

        None where there is none, or where ``HF_HUB_DISABLE_IMPLICIT_TOKEN`` forbids using it.
        """
        if self.hf_hub_disable_implicit_token:
            return None
        if self.hf_token is not None:
            text = self.hf_token.get_secret_value()
        else:
            path = (self.hf_token_path or self.hub_home / "token").expanduser()
            try:
                text = path.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError):
                return None
        text = text.replace("\r", "").replace("\n", "").strip()
        return SecretStr(text) if text else None
