"""What the hub client needs to know, in one frozen value: built from the settings once."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from app import __version__
from app.hub.token import Token
from app.settings import Settings

PUBLIC_ENDPOINT = "https://huggingface.co"


@dataclass(frozen=True, kw_only=True, slots=True)
class HubConfig:
    """Limits in bytes, times in seconds."""

    endpoint: str = PUBLIC_ENDPOINT
    token: Token | None = field(default=None, repr=False)
    cache_dir: Path | None = None
    """The Hugging Face cache, only ever read; None where none is looked at."""
    offline: bool = False
    timeout_s: float = 3.0
    """Total time for a model's configuration: redirects, waits and retries included."""
    header_timeout_s: float = 30.0
    """Total time for the headers of weight files, which may be many megabytes."""
    retries: int = 2
    backoff_s: float = 0.2
    connections: int = 32
    refs_ttl_s: float = 300.0
    refused_ttl_s: float = 60.0
    stale_retry_s: float = 10.0
    """How long a stale answer is given without asking again."""
    blob_cache_bytes: int = 8_000_000
    facts_cache_bytes: int = 8_000_000
    max_json_bytes: int = 5_000_000
    max_gguf_bytes: int = 100_000_000
    headers_at_once: int = 2
    """Headers beyond their file's first read that are fetched and read at the same time."""
    cdn_hosts: tuple[str, ...] = ()
    """Storage hosts, beside Hugging Face's own, that the hub may redirect large files to."""
    user_agent: str = f"kvmath/{__version__}"

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """The client that a deployment's settings describe: the one place that reads them.

        Raises:
            ValueError: a token that cannot stand in a header.
        """
        secret = settings.hub_token()
        return cls(
            endpoint=str(settings.hf_endpoint).rstrip("/"),
            token=Token(secret.get_secret_value()) if secret else None,
            cache_dir=settings.hub_cache,
            offline=settings.offline,
            timeout_s=settings.hub_timeout_s,
            header_timeout_s=settings.hub_header_timeout_s,
            cdn_hosts=tuple(settings.hub_cdn_hosts.replace(",", " ").split()),
        )
