"""One question to the hub over HTTP: redirects followed by our rules, the answer read in bounds."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from http.cookiejar import CookieJar
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx

from app.hub.body import BodyRefused, WrongAnswer, read_body
from app.hub.budget import Budget
from app.hub.classify import Outcome, Verdict, classify
from app.hub.config import HubConfig
from app.hub.names import is_commit, repo_id_in_path
from app.hub.origins import Origins
from app.hub.shelter import Shelter

MAX_REDIRECTS = 20
_MAX_ERROR_BYTES = 8_192
_LOCATION = "x-kvmath-location"
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


class NoAnswer(Exception):
    """The connection gave no whole answer; asking again may help."""

    def __init__(self, reason: str, *, timed_out: bool) -> None:
        super().__init__(reason)
        self.timed_out = timed_out


class MustWait(Exception):
    """The hub's rate limit leaves nothing for this request for `wait_s` seconds."""

    def __init__(self, wait_s: float) -> None:
        super().__init__(wait_s)
        self.wait_s = wait_s


@dataclass(frozen=True, kw_only=True, slots=True)
class Trail:
    """What the hub said along the redirects of one question."""

    commit: str | None = None
    repo_id: str | None = None
    file_bytes: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """One GET: `span` asks for a range of bytes (first and last, both included)."""

    url: str
    limit: int
    span: tuple[int, int] | None = None
    known: Callable[[Trail], Awaitable[bool]] | None = None
    """Asked at a redirect whether its target is already at hand: then it is not followed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """The end of a question: a verdict, and the body where the verdict is OK."""

    verdict: Verdict
    headers: Mapping[str, str]
    trail: Trail
    body: bytes = b""
    at_hand: bool = False
    """The question's `known` said that the body need not be fetched."""


class _NoCookies(CookieJar):
    """A jar that takes nothing: the hub's cookies would be kept and sent without bound."""

    def extract_cookies(self, response: Any, request: Any) -> None:
        """Take none."""

    def add_cookie_header(self, request: Any) -> None:
        """Send none."""


class Wire:
    """The HTTP client of one hub. `transport` replaces the network, for those who need to."""

    def __init__(
        self, config: HubConfig, budget: Budget, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self._origins = Origins(config.endpoint, config.cdn_hosts)
        self._token = config.token
        self._budget = budget
        self._shelter = Shelter()
        self._client = httpx.AsyncClient(
            transport=transport,
            headers={"User-Agent": config.user_agent, "Accept-Encoding": "identity"},
            cookies=_NoCookies(),
            follow_redirects=False,
            event_hooks={"response": [_put_location_aside]},
            timeout=httpx.Timeout(config.timeout_s / 2, pool=None),
            limits=httpx.Limits(max_connections=config.connections),
            # A proxy of the environment is for the world outside, not for this machine.
            trust_env=urlsplit(config.endpoint).hostname not in _LOOPBACK,
        )

    async def aclose(self) -> None:
        """Close every connection."""
        await self._shelter.aclose()
        await self._client.aclose()

    async def ask(self, question: Question) -> Reply:
        """The reply to `question`, after its redirects.

        Raises:
            NoAnswer: connection refused, reset, cut short or silent.
            WrongAnswer: too large, a redirect where none may lead, too many of them.
            MustWait: the rate limit's bucket is empty (at whichever hop).
        """
        return await self._shelter.run(self._walk(question))

    async def _walk(self, question: Question) -> Reply:
        url, trail = question.url, Trail()
        seen: set[str] = set()
        while url not in seen and len(seen) <= MAX_REDIRECTS:
            seen.add(url)
            try:
                step = await self._hop(url, question, trail)
            except httpx.TimeoutException:
                raise NoAnswer("did not answer in time", timed_out=True) from None
            except (httpx.HTTPError, OSError) as error:
                raise NoAnswer(_reason(error), timed_out=False) from None
            except (httpx.InvalidURL, ValueError, RuntimeError):
                # The first address was checked, so what cannot be read here came from the hub.
                raise WrongAnswer("cannot be read") from None
            if isinstance(step, Reply):
                return step
            url, trail = step
        raise WrongAnswer(f"redirects in a circle, or more than {MAX_REDIRECTS} times")

    async def _hop(self, url: str, question: Question, trail: Trail) -> Reply | tuple[str, Trail]:
        own = self._origins.is_endpoint(url)
        if own and (wait := self._budget.wait_s(url)) > 0:
            raise MustWait(wait)
        request = self._client.build_request("GET", url, headers=self._headers(own, question.span))
        with self._budget.under_way(url):
            response = await self._client.send(request, stream=True)
            headers = {name.lower(): value for name, value in response.headers.items()}
            if own:
                self._budget.observe(url, response.status_code, headers)
        try:
            if self._origins.is_hub(url):
                trail = _follow(trail, url, headers)
            if response.status_code not in _REDIRECTS or _LOCATION not in headers:
                return await self._read(response, headers, question, trail)
            # A redirect's few bytes are read so that its connection can be used again.
            await _excerpt(response, headers)
        finally:
            await response.aclose()
        if trail.commit and question.known and await question.known(trail):
            return Reply(
                verdict=Verdict(outcome=Outcome.OK, status=response.status_code),
                headers=headers,
                trail=trail,
                at_hand=True,
            )
        return self._next(url, headers), trail

    def _headers(self, own: bool, span: tuple[int, int] | None) -> dict[str, str]:
        headers = {}
        if own and self._token is not None:
            headers["Authorization"] = self._token.header()
        if span is not None:
            headers["Range"] = f"bytes={span[0]}-{span[1]}"
        return headers

    def _next(self, url: str, headers: Mapping[str, str]) -> str:
        try:
            # As the client would write it: what is judged here is what would be asked.
            target = str(httpx.URL(urljoin(url, headers[_LOCATION])))
        except (httpx.InvalidURL, ValueError):
            raise WrongAnswer("redirects to what is no address") from None
        large = "x-linked-etag" in headers or "x-linked-size" in headers
        if not self._origins.may_follow(url, target, large_file=large):
            raise WrongAnswer("redirects to an address that is no hub's")
        return target

    async def _read(
        self,
        response: httpx.Response,
        headers: Mapping[str, str],
        question: Question,
        trail: Trail,
    ) -> Reply:
        status = response.status_code
        if not response.is_success:
            verdict = self._redacted(classify(status, headers, await _excerpt(response, headers)))
            return Reply(verdict=verdict, headers=headers, trail=trail)
        span, limit = question.span, question.limit
        if span is None and status == HTTPStatus.PARTIAL_CONTENT:
            raise WrongAnswer("is a part of a file that was asked for whole")
        whole = span is not None and status != HTTPStatus.PARTIAL_CONTENT
        if span is not None:
            # A server that ignores the range sends the file from its start: take what is needed.
            limit = span[1] + 1 if whole else span[1] - span[0] + 1
            if limit > question.limit:
                raise WrongAnswer(f"is larger than {question.limit} bytes")
        body = await read_body(response.aiter_raw(), headers, limit=limit, cut=whole)
        if span is not None:
            size = _size_of_range(headers, span, len(body)) if not whole else None
            trail = replace(trail, file_bytes=size or trail.file_bytes)
            body = body[span[0] :] if whole else body
        return Reply(verdict=classify(status, headers), headers=headers, trail=trail, body=body)

    def _redacted(self, verdict: Verdict) -> Verdict:
        if self._token is None:
            return verdict
        return replace(
            verdict,
            message=self._token.redact(verdict.message),
            request_id=self._token.redact(verdict.request_id),
            warning=self._token.redact(verdict.warning),
        )


async def _put_location_aside(response: httpx.Response) -> None:
    # The client reads this header even where it follows none, and fails on what it cannot read.
    location = response.headers.pop("location", None)
    response.headers.pop(_LOCATION, None)
    if location is not None:
        response.headers[_LOCATION] = location


async def _excerpt(response: httpx.Response, headers: Mapping[str, str]) -> bytes:
    try:
        return await read_body(response.aiter_raw(), headers, limit=_MAX_ERROR_BYTES, cut=True)
    except BodyRefused:
        return b""


def _follow(trail: Trail, url: str, headers: Mapping[str, str]) -> Trail:
    commit = headers.get("x-repo-commit", "")
    if is_commit(commit) and trail.commit not in (None, commit):
        raise WrongAnswer("names one commit and then another")
    size = headers.get("x-linked-size", "")
    return Trail(
        commit=commit if is_commit(commit) else trail.commit,
        repo_id=repo_id_in_path(urlsplit(url).path) or trail.repo_id,
        file_bytes=int(size)
        if size.isdecimal() and len(size) < len("1" * 19)
        else trail.file_bytes,
    )


def _size_of_range(headers: Mapping[str, str], span: tuple[int, int], length: int) -> int | None:
    unit, _, said = headers.get("content-range", "").partition(" ")
    where, _, total = said.partition("/")
    if unit != "bytes" or where != f"{span[0]}-{span[0] + length - 1}":
        raise WrongAnswer("holds another range than was asked for")
    return int(total) if total.isdecimal() and len(total) < len("1" * 19) else None


def _reason(error: Exception) -> str:
    match error:
        case httpx.ConnectError():
            return "could not be reached"
        case httpx.RemoteProtocolError():
            return "broke off its answer"
        case _:
            return "lost the connection"
