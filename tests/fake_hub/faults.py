"""The faults of a hub: each turns a right answer into a wrong one."""

import asyncio
import enum
import functools
import gzip
import time
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from types import MappingProxyType

from tests.fake_hub.http import Answer, Seen

GIGABYTE = 1_000_000_000
CHUNK = b"x" * 65_536


class Fault(enum.Enum):
    """What goes wrong. Those of the answer's head strike at the first hop, the others at its body."""

    UNAVAILABLE = "503"
    BAD_GATEWAY = "502"
    RESET = "connection reset"
    RATE_LIMITED = "429 with r=0"
    RATE_LIMITED_BY_ANOTHER = "429 with r>0"
    HTML = "an HTML page with 200"
    REDIRECT_LOOP = "redirect loop"
    FOREIGN_REDIRECT = "redirect to a foreign host"
    REDIRECT_WITH_USER = "redirect with a user and password"
    REDIRECT_TO_SCRIPT = "redirect to javascript:"
    REDIRECT_NOWHERE = "redirect to what is no address"
    REDIRECT_TO_NO_NAME = "redirect to a host name that is none"
    CAPITAL_COMMIT = "a commit in capitals"
    OTHER_COMMIT = "another commit after a redirect"
    COOKIES = "cookies, new ones each time"
    ABSURD_WAIT = "503 with an absurd Retry-After"
    LONG_HEAD = "a head of 1 MB"
    SLOW_HEAD = "a head byte by byte"
    INTERIM = "interim answers (1xx) without end"
    TRAILERS = "trailers of 1 MB"
    BAD_TOKEN = "401 on any repository"
    SLOW_BODY = "slow body"
    SHORT_BODY = "short body"
    SILENT = "no answer at all"
    IGNORED_RANGE = "200 instead of 206"
    UNASKED_PART = "206 to a question without range"
    WRONG_RANGE = "206 with another range"
    GZIP = "gzip, unasked"
    GZIP_MEMBERS = "gzip in two members"
    GZIP_EMPTY_MEMBERS = "gzip of 200,000 empty members"
    GZIP_BOMB = "100 MB of zeros in gzip"
    BROTLI = "an encoding nobody speaks"
    NOT_UTF8 = "not UTF-8"
    NAN = "NaN in JSON"
    HUGE = "a 1 GB body"
    HUGE_UNDECLARED = "a 1 GB body without Content-Length"
    DEEP = "JSON nested 100,000 deep"


HTML = b"<!doctype html><html><body>Please log in to the network.</body></html>"
BAD_TOKEN = {"X-Error-Message": "Invalid credentials in Authorization header"}
EMPTY_BUCKET = {"RateLimit": '"resolvers";r=0;t=55'}
ANOTHER_LIMITER = {"RateLimit": '"resolvers";r=2900;t=55', "Retry-After": "0"}

_HEADS: dict[Fault, Callable[[Seen, str], Answer]] = {
    Fault.UNAVAILABLE: lambda seen, foreign: Answer(503, {}, b"Service Unavailable"),
    Fault.BAD_GATEWAY: lambda seen, foreign: Answer(502, {"Content-Type": "text/html"}, HTML),
    Fault.RESET: lambda seen, foreign: Answer(reset=True),
    Fault.RATE_LIMITED: lambda seen, foreign: Answer(429, dict(EMPTY_BUCKET)),
    Fault.RATE_LIMITED_BY_ANOTHER: lambda seen, foreign: Answer(429, dict(ANOTHER_LIMITER)),
    Fault.HTML: lambda seen, foreign: Answer(200, {"Content-Type": "text/html"}, HTML),
    Fault.REDIRECT_LOOP: lambda seen, foreign: Answer(307, {"Location": f"{seen.path}?again=1"}),
    Fault.FOREIGN_REDIRECT: lambda seen, foreign: Answer(302, {"Location": f"{foreign}/stolen"}),
    Fault.REDIRECT_WITH_USER: lambda seen, foreign: _to(
        f"http://me:secret@{seen.headers['host']}{seen.path}?again=1"
    ),
    Fault.REDIRECT_TO_SCRIPT: lambda seen, foreign: _to("javascript:alert(1)"),
    Fault.REDIRECT_NOWHERE: lambda seen, foreign: _to("//["),
    Fault.REDIRECT_TO_NO_NAME: lambda seen, foreign: _to(
        "https://xn--.hf.co/file", {"X-Linked-Etag": '"a"'}
    ),
    Fault.CAPITAL_COMMIT: lambda seen, foreign: Answer(200, {"X-Repo-Commit": "A" * 40}, b"{}"),
    Fault.COOKIES: lambda seen, foreign: Answer(200, _cookies(), b'{"model_type": "llama"}'),
    Fault.ABSURD_WAIT: lambda seen, foreign: Answer(503, {"Retry-After": "-1.5e9 days"}),
    Fault.LONG_HEAD: lambda seen, foreign: Answer(raw=_long_head()),
    Fault.SLOW_HEAD: lambda seen, foreign: Answer(raw=_slowly(b"HTTP/1.1 200 OK\r\nX: " * 1000)),
    Fault.INTERIM: lambda seen, foreign: Answer(raw=_interim()),
    Fault.TRAILERS: lambda seen, foreign: Answer(raw=_trailers()),
    Fault.BAD_TOKEN: lambda seen, foreign: Answer(401, dict(BAD_TOKEN)),
    Fault.SILENT: lambda seen, foreign: Answer(200, {}, _silence()),
}
AT_HEAD = frozenset(_HEADS)


def head_fault(fault: Fault, seen: Seen, foreign_url: str) -> Answer:
    """The answer of a hub that fails before it has looked at the request."""
    return _HEADS[fault](seen, foreign_url)


def body_fault(fault: Fault, answer: Answer) -> Answer:
    """`answer` with its body spoiled."""
    assert isinstance(answer.body, bytes)
    return _BODIES[fault](answer, answer.body)


def _coded(name: str, body: bytes | AsyncIterator[bytes], answer: Answer) -> Answer:
    return Answer(answer.status, answer.headers | {"Content-Encoding": name}, body)


@functools.cache
def _bomb() -> bytes:
    # 100 MB of zeros in 100 kB: one stream, so that a decoder takes it for one body.
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    million = bytes(1_000_000)
    return b"".join(packer.compress(million) for _ in range(100)) + packer.flush()


_BODIES: dict[Fault, Callable[[Answer, bytes], Answer]] = {
    Fault.SLOW_BODY: lambda answer, body: Answer(
        answer.status, answer.headers, _slowly(body), length=len(body)
    ),
    Fault.SHORT_BODY: lambda answer, body: Answer(
        answer.status, answer.headers, body[:-3], length=len(body)
    ),
    Fault.GZIP: lambda answer, body: _coded("gzip", gzip.compress(body), answer),
    Fault.GZIP_MEMBERS: lambda answer, body: _coded(
        "gzip", gzip.compress(body[:9]) + gzip.compress(body[9:]), answer
    ),
    Fault.GZIP_EMPTY_MEMBERS: lambda answer, body: _coded(
        "gzip", gzip.compress(b"") * 200_000 + gzip.compress(body), answer
    ),
    Fault.OTHER_COMMIT: lambda answer, body: Answer(
        answer.status, answer.headers | {"X-Repo-Commit": "f" * 40}, body
    ),
    Fault.UNASKED_PART: lambda answer, body: Answer(206, answer.headers, body),
    Fault.GZIP_BOMB: lambda answer, body: _coded("gzip", _bomb(), answer),
    Fault.BROTLI: lambda answer, body: _coded("br", body, answer),
    Fault.NOT_UTF8: lambda answer, body: Answer(200, answer.headers, b'{"a": "\xff\xfe"}'),
    Fault.NAN: lambda answer, body: Answer(200, answer.headers, b'{"hidden_size": NaN}'),
    Fault.HUGE: lambda answer, body: Answer(200, answer.headers, _huge(), length=GIGABYTE),
    Fault.HUGE_UNDECLARED: lambda answer, body: Answer(200, answer.headers, _huge(), length=-1),
    Fault.DEEP: lambda answer, body: Answer(
        200, answer.headers, b'{"a":' * 100_000 + b"1" + b"}" * 100_000
    ),
}


def _to(location: str, headers: Mapping[str, str] = MappingProxyType({})) -> Answer:
    return Answer(307, {"Location": location, "X-Repo-Commit": "a" * 40, **headers})


def _cookies() -> dict[str, str]:
    now = time.monotonic_ns()
    # One header a name; the name's case tells them apart here, and no client minds it.
    names = ("set-cookie", "Set-Cookie", "SET-COOKIE")
    values = (f"{name}{now}={'v' * 1000}; Path=/" for name in names)
    return {"X-Repo-Commit": "a" * 40} | dict(zip(names, values, strict=True))


async def _long_head() -> AsyncIterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\n"
    for number in range(10_000):
        yield b"X-%04d: %s\r\n" % (number, b"v" * 92)
    yield b"\r\n"


async def _interim() -> AsyncIterator[bytes]:
    while True:
        yield b"HTTP/1.1 102 Processing\r\n\r\n" * 100


async def _trailers() -> AsyncIterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\nX-Repo-Commit: %s\r\n" % (b"a" * 40)
    yield b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
    for number in range(10_000):
        yield b"X-%04d: %s\r\n" % (number, b"v" * 92)
    yield b"\r\n"


async def _silence() -> AsyncIterator[bytes]:
    await asyncio.sleep(3600)
    yield b""


async def _slowly(body: bytes) -> AsyncIterator[bytes]:
    for position in range(len(body)):
        yield body[position : position + 1]
        await asyncio.sleep(0.05)


async def _huge() -> AsyncIterator[bytes]:
    for _ in range(GIGABYTE // len(CHUNK)):
        yield CHUNK
