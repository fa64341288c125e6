"""The hub's routes, as dated recordings of the live one show them."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import quote, unquote

from tests.fake_hub.faults import AT_HEAD, Fault, body_fault, head_fault
from tests.fake_hub.http import Answer, HttpServer, Seen

COMMIT = "0123456789abcdef0123456789abcdef01234567"
GOOD_TOKEN = "hf_goodtoken"
LIMITS = {"api": 500, "resolvers": 3000, "pages": 100}

_RESOLVE = re.compile(r"/(?P<id>[^/]+(?:/[^/]+)?)/resolve/(?P<rev>[^/]+)/(?P<file>.+)")
_CACHE = re.compile(r"/api/resolve-cache/models/(?P<id>.+?)/(?P<sha>[0-9a-f]{40})/(?P<file>.+)")
_INFO = re.compile(r"/api/models/(?P<id>[^/]+(?:/[^/]+)?)(?:/revision/(?P<rev>[^/]+))?")


@dataclass
class Repo:
    """A repository: one set of files a commit, and names that point to commits."""

    files: dict[str, bytes]
    commit: str = COMMIT
    refs: dict[str, str] = field(default_factory=dict)
    history: dict[str, dict[str, bytes]] = field(default_factory=dict)
    large: frozenset[str] = frozenset()
    private: bool = False
    gated: str | None = None
    disabled: bool = False
    info: dict[str, Any] = field(default_factory=dict)

    def at(self, revision: str) -> tuple[str, dict[str, bytes]] | None:
        commit = {"main": self.commit, **self.refs}.get(revision, revision)
        if commit == self.commit:
            return commit, self.files
        return (commit, self.history[commit]) if commit in self.history else None


@dataclass
class _Rule:
    pattern: re.Pattern[str]
    fault: Fault
    times: int | None


class FakeHub:
    """The hub, its CDN (another origin) and a foreign host, each on its own port."""

    def __init__(self) -> None:
        self.hub = HttpServer(self._hub)
        self.cdn = HttpServer(self._cdn)
        self.foreign = HttpServer(self._foreign)
        self.repos: dict[str, Repo] = {}
        self.renamed: dict[str, str] = {}
        self.granted: set[str] = set()
        self.limits: dict[str, tuple[int, int]] = {}
        self._rules: list[_Rule] = []

    async def __aenter__(self) -> Self:
        for server in (self.hub, self.cdn, self.foreign):
            await server.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        for server in (self.hub, self.cdn, self.foreign):
            await server.stop()

    @property
    def url(self) -> str:
        return self.hub.url

    @property
    def requests(self) -> list[Seen]:
        return self.hub.requests

    def add(self, repo_id: str, files: Mapping[str, Any], **more: Any) -> Repo:
        """Register a repository; values that are no bytes become JSON."""
        raw = {name: _raw(content) for name, content in files.items()}
        repo = self.repos[repo_id] = Repo(raw, **more)
        return repo

    def fault(self, path: str, fault: Fault, times: int | None = None) -> None:
        """Make requests whose path matches the expression fail, `times` times or for good."""
        self._rules.append(_Rule(re.compile(path), fault, times))

    def mend(self) -> None:
        """No more faults."""
        self._rules.clear()

    def asked(self, pattern: str) -> list[Seen]:
        """The requests whose path matches, on the hub itself."""
        return [seen for seen in self.requests if re.search(pattern, seen.path)]

    async def _hub(self, seen: Seen) -> Answer:
        head = self._struck(seen.path, at_head=True)
        if head is not None:
            answer = head_fault(head, seen, self.foreign.url)
        else:
            answer = self._routed(seen)
        for name, value in self._limit_headers(seen.path).items():
            answer.headers.setdefault(name, value)
        answer.headers.setdefault("X-Request-Id", "Root=1-fake")
        return answer

    async def _cdn(self, seen: Seen) -> Answer:
        repo_id, _, file = seen.path.removeprefix("/").partition("//")
        return self._body(seen, self.repos[repo_id].files[file], {})

    async def _foreign(self, seen: Seen) -> Answer:
        return Answer(200, {"X-Repo-Commit": COMMIT}, b'{"model_type": "stolen"}')

    def _routed(self, seen: Seen) -> Answer:
        if match := _CACHE.fullmatch(seen.path):
            return self._cached(seen, match)
        if match := _INFO.fullmatch(seen.path):
            return self._moved(seen, match) or self._info(seen, match)
        if match := _RESOLVE.fullmatch(seen.path):
            return self._moved(seen, match) or self._resolve(seen, match)
        return Answer(404, {"Content-Type": "text/html"}, b"<h1>404</h1>")

    def _moved(self, seen: Seen, match: re.Match[str]) -> Answer | None:
        new = self.renamed.get(match["id"])
        if new is None:
            return None
        target = seen.path.replace(match["id"], new, 1) + (f"?{seen.query}" if seen.query else "")
        return Answer(307, {"Location": target}, b"Temporary Redirect")

    def _resolve(self, seen: Seen, match: re.Match[str]) -> Answer:
        repo = self.repos.get(match["id"])
        hidden = self._hidden(seen, repo)
        if hidden is not None or repo is None:
            return hidden or Answer(500)
        if (repo.gated or repo.disabled) and match["id"] not in self._granted(seen):
            return self._gated(seen, match["id"])
        found = repo.at(unquote(match["rev"]))
        if found is None:
            return _error(404, "RevisionNotFound", f"Invalid rev id: {match['rev']}")
        commit, files = found
        file = unquote(match["file"])
        at_commit = {"X-Repo-Commit": commit}
        if file not in files:
            return _error(404, "EntryNotFound", "Entry not found", at_commit)
        if file in repo.large:
            sha256 = hashlib.sha256(files[file]).hexdigest()
            linked = {"X-Linked-Etag": f'"{sha256}"', "X-Linked-Size": str(len(files[file]))}
            target = f"{self.cdn.url}/{match['id']}//{file}"
            return Answer(302, at_commit | linked | {"Location": target, "X-Xet-Hash": sha256})
        etag = _git_sha1(files[file])
        query = f"{quote(seen.path, safe='')}=&etag=%22{etag}%22"
        target = f"/api/resolve-cache/models/{match['id']}/{commit}/{match['file']}?{query}"
        head = {"Location": target, "Accept-Ranges": "bytes", "Content-Type": "text/plain"}
        return Answer(
            307, at_commit | head, b"Temporary Redirect. Redirecting to " + target.encode()
        )

    def _cached(self, seen: Seen, match: re.Match[str]) -> Answer:
        found = self.repos[match["id"]].at(match["sha"])
        assert found is not None
        content = found[1][unquote(match["file"])]
        etag = f'"{_git_sha1(content)}"'
        headers = {"X-Repo-Commit": match["sha"], "ETag": etag, "Accept-Ranges": "bytes"}
        if seen.headers.get("if-none-match") == etag:
            return Answer(304, headers)
        return self._body(seen, content, headers)

    def _info(self, seen: Seen, match: re.Match[str]) -> Answer:
        repo = self.repos.get(match["id"])
        hidden = self._hidden(seen, repo)
        if hidden is not None or repo is None:
            return hidden or Answer(500)
        found = repo.at(unquote(match["rev"] or "main"))
        if found is None:
            return _error(404, "RevisionNotFound", "Invalid rev id")
        known = {
            "sha": found[0],
            "private": repo.private,
            "gated": repo.gated or False,
            "disabled": repo.disabled,
            "siblings": [{"rfilename": name} for name in found[1]],
        } | repo.info
        wanted = {value for key, value in seen.params if key in ("expand", "expand[]")}
        shown = {key: value for key, value in known.items() if not wanted or key in wanted}
        answer = {"_id": "621ffdc0", "id": match["id"]} | shown
        return self._body(seen, json.dumps(answer).encode(), {"Content-Type": "application/json"})

    def _hidden(self, seen: Seen, repo: Repo | None) -> Answer | None:
        sent = seen.headers.get("authorization")
        good = sent == f"Bearer {GOOD_TOKEN}"
        if sent is not None and not good:
            return _error(401, "", "Invalid credentials in Authorization header")
        if repo is not None and not repo.private:
            return None
        if good:
            return _error(404, "RepoNotFound", "Repository not found")
        return _error(401, "", "Invalid username or password.")

    def _granted(self, seen: Seen) -> set[str]:
        return self.granted if "authorization" in seen.headers else set()

    def _gated(self, seen: Seen, repo_id: str) -> Answer:
        if "authorization" in seen.headers:
            return _error(403, "GatedRepo", f"Access to model {repo_id} is restricted.")
        return _error(401, "GatedRepo", f"Access to model {repo_id} is restricted. Please log in.")

    def _body(self, seen: Seen, content: bytes, headers: dict[str, str]) -> Answer:
        fault = self._struck(seen.path, at_head=False)
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", seen.headers.get("range", ""))
        answer = Answer(200, dict(headers), content)
        if asked and fault is not Fault.IGNORED_RANGE:
            answer = _ranged(content, int(asked[1]), int(asked[2]), headers)
            if fault is Fault.WRONG_RANGE:
                answer.headers["Content-Range"] = f"bytes 7-99/{len(content)}"
        if fault in (None, Fault.IGNORED_RANGE, Fault.WRONG_RANGE):
            return answer
        return body_fault(fault, answer)

    def _struck(self, path: str, *, at_head: bool) -> Fault | None:
        for rule in self._matching(path):
            if (rule.fault in AT_HEAD) is at_head:
                if rule.times is not None:
                    rule.times -= 1
                return rule.fault
        return None

    def _matching(self, path: str) -> Iterator[_Rule]:
        return (rule for rule in self._rules if rule.times != 0 and rule.pattern.search(path))

    def _limit_headers(self, path: str) -> dict[str, str]:
        bucket = "api" if path.startswith("/api/models/") else "resolvers"
        left, reset = self.limits.get(bucket, (LIMITS[bucket] - 1, 300))
        return {
            "RateLimit": f'"{bucket}";r={left};t={reset}',
            "RateLimit-Policy": f'"fixed window";"{bucket}";q={LIMITS[bucket]};w=300',
        }


def _ranged(content: bytes, first: int, last: int, headers: dict[str, str]) -> Answer:
    if first >= len(content):
        return Answer(416, headers | {"Content-Range": f"bytes */{len(content)}"})
    part = content[first : last + 1]
    said = f"bytes {first}-{first + len(part) - 1}/{len(content)}"
    return Answer(206, headers | {"Content-Range": said}, part)


def _error(
    status: int, code: str, message: str, headers: Mapping[str, str] | None = None
) -> Answer:
    told = {"X-Error-Code": code} if code else {}
    return Answer(
        status,
        {"Content-Type": "application/json", "X-Error-Message": message, **told, **(headers or {})},
        json.dumps({"error": message}).encode(),
    )


def _raw(content: Any) -> bytes:
    return content if isinstance(content, bytes) else json.dumps(content).encode()


def _git_sha1(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
