"""Where a request may go, and where the token may: decided by origin, never by habit."""

from urllib.parse import urlsplit

Origin = tuple[str, str, int]

_DEFAULT_PORTS = {"http": 80, "https": 443}
_HUB_HOSTS = ("huggingface.co", "hf.co", "hub-ci.huggingface.co")
_CDN_SUFFIXES = (".huggingface.co", ".hf.co")


def origin_of(url: str) -> Origin | None:
    """Scheme, host and port of an http(s) URL; None for anything else."""
    try:
        parts = urlsplit(url)
        port = _DEFAULT_PORTS.get(parts.scheme) if parts.port is None else parts.port
    except ValueError:
        return None
    if not port or parts.scheme not in _DEFAULT_PORTS or not parts.hostname:
        return None
    if parts.username is not None or parts.password is not None:
        return None
    return parts.scheme, parts.hostname, port


class Origins:
    """The origins that belong to one hub endpoint."""

    def __init__(self, endpoint: str, cdn_hosts: tuple[str, ...] = ()) -> None:
        origin = origin_of(endpoint)
        if origin is None:
            raise ValueError(f"the hub's endpoint {endpoint!r} is no http(s) address")
        self._endpoint = origin
        self._hubs = {origin} | {("https", host, 443) for host in _HUB_HOSTS}
        self._cdn_hosts = frozenset(cdn_hosts)

    def is_endpoint(self, url: str) -> bool:
        """True where the token may be sent: the configured hub's own origin and no other."""
        return origin_of(url) == self._endpoint

    def is_hub(self, url: str) -> bool:
        """True for the configured hub and the public ones: their word on commits counts."""
        return origin_of(url) in self._hubs

    def may_follow(self, source: str, target: str, *, large_file: bool) -> bool:
        """True if a redirect from `source` to `target` may be followed.

        A hub may send us to itself, to the endpoint or to a public hub; for the content of a
        large file (`large_file`: the redirect carries X-Linked-* headers) also to a storage host:
        one of Hugging Face's own, one that was configured, or another port of the endpoint's host.
        """
        there = origin_of(target)
        if there is None:
            return False
        if there == origin_of(source) or there in self._hubs:
            return True
        return large_file and self.is_hub(source) and self._is_storage(there)

    def _is_storage(self, origin: Origin) -> bool:
        scheme, host, _ = origin
        if (scheme, host) == self._endpoint[:2]:
            return True
        return scheme == "https" and (host in self._cdn_hosts or host.endswith(_CDN_SUFFIXES))
