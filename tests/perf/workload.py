"""The requests: never the same input twice, so that no cache of answers helps."""

import json
from dataclasses import dataclass

PATH = "/concurrency"
HOST = "127.0.0.1"
_CONTEXT, _OVERHEAD = 1024, 2_000_000_000
_FIELDS: dict[str, object] = {"model": "llama-3-8b", "gpu": "h100"}


@dataclass(frozen=True)
class Workload:
    """Requests by one method, numbered from ``first``; ``repeated`` makes them all the same.

    The context changes with each request and the overhead once a round of contexts.
    """

    method: str
    repeated: bool = False
    first: int = 0

    @property
    def query(self) -> str:
        """Query string with two places for numbers."""
        fixed = "&".join(f"{name}={value}" for name, value in _FIELDS.items())
        return f"{fixed}&context=%d&overhead_bytes=%d"

    @property
    def body(self) -> str:
        """JSON body with two places for numbers; braces and quotes need no escape in either."""
        fields = _FIELDS | {"context": "%d", "overhead_bytes": "%d"}
        return json.dumps(fields).replace('"%d"', "%d")

    def numbers(self, n: int) -> tuple[int, int]:
        """What request ``n`` asks."""
        if self.repeated:
            return _CONTEXT, _OVERHEAD
        n += self.first
        return _CONTEXT + n % 7000, _OVERHEAD + n // 7000

    def target(self, n: int) -> str:
        """Path and query of request ``n``."""
        return f"{PATH}?{self.query % self.numbers(n)}" if self.method == "GET" else PATH

    def raw(self, n: int) -> bytes:
        """Request ``n`` as it goes over the wire."""
        lines = f"{self.method} {self.target(n)} HTTP/1.1\r\nHost: {HOST}\r\n"
        if self.method == "GET":
            return f"{lines}\r\n".encode()
        body = self.body % self.numbers(n)
        kind = "Content-Type: application/json"
        return f"{lines}{kind}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()

    def wrk_script(self) -> str:
        """The same for wrk, in its Lua, with a report in JSON at the end."""
        step = "" if self.repeated else "n = n + 1"
        make = (
            f'wrk.format("GET", string.format([[{PATH}?{self.query}]], context, overhead))'
            if self.method == "GET"
            else f'wrk.format("POST", "{PATH}", headers, '
            f"string.format([[{self.body}]], context, overhead))"
        )
        return f"""
local n = {self.first}
local headers = {{["Content-Type"] = "application/json"}}
function request()
  local context = {_CONTEXT} + n % 7000
  local overhead = {_OVERHEAD} + math.floor(n / 7000)
  {step}
  return {make}
end
function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format(
    '\\n{{"requests": %d, "duration_us": %d, "failed": %d, "p50": %d, "p90": %d, "p99": %d}}\\n',
    summary.requests, summary.duration, e.connect + e.read + e.write + e.status + e.timeout,
    latency:percentile(50), latency:percentile(90), latency:percentile(99)))
end
"""
