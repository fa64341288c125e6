"""What an answer of the hub means, by status and headers alone.

The order of the questions is the hub's own client's: error code before message, message before
status. The URL plays no part, so a mirror or a loopback address is told the same things apart.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from app.hub.strict_json import JsonRefused, parse_object

MAX_MESSAGE = 200
_DISABLED = "Access to this resource is disabled."
_BAD_TOKEN = "Invalid credentials in Authorization header"  # noqa: S105 -- the hub's sentence
_TRANSIENT = frozenset({408, 500, 502, 503, 504})


class Outcome(enum.Enum):
    """The kinds of answer that a caller has to tell apart."""

    OK = "ok"
    REVISION_MISSING = "revision_missing"
    FILE_MISSING = "file_missing"
    GATED = "gated"
    DISABLED = "disabled"
    REPO_MISSING = "repo_missing"
    BAD_TOKEN = "bad_token"  # noqa: S105 -- a name, no secret
    BAD_REQUEST = "bad_request"
    FORBIDDEN = "forbidden"
    RATE_LIMITED = "rate_limited"
    RANGE_REFUSED = "range_refused"
    TRANSIENT = "transient"
    UNEXPECTED = "unexpected"


_BY_CODE = {
    "RevisionNotFound": Outcome.REVISION_MISSING,
    "EntryNotFound": Outcome.FILE_MISSING,
    "GatedRepo": Outcome.GATED,
}
_BY_STATUS: Mapping[int, Outcome] = {
    HTTPStatus.BAD_REQUEST: Outcome.BAD_REQUEST,
    HTTPStatus.FORBIDDEN: Outcome.FORBIDDEN,
    HTTPStatus.TOO_MANY_REQUESTS: Outcome.RATE_LIMITED,
    HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE: Outcome.RANGE_REFUSED,
    **dict.fromkeys(_TRANSIENT, Outcome.TRANSIENT),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """An answer's kind, with what the hub said about it (bounded, printable)."""

    outcome: Outcome
    status: int
    message: str = ""
    request_id: str = ""
    warning: str = ""

    def facts(self) -> dict[str, Any]:
        """What a program may want to know of the hub's answer, for an error's `extra`."""
        told = {
            "hub_status": self.status,
            "hub_message": self.message,
            "hub_request_id": self.request_id,
            "hub_warning": self.warning,
        }
        return {key: value for key, value in told.items() if value}


def classify(status: int, headers: Mapping[str, str], body: bytes = b"") -> Verdict:
    """The verdict on an answer; `headers` by lower-case name, `body` as far as it was read."""
    message = _message(headers, body)
    return Verdict(
        outcome=_outcome(status, headers.get("x-error-code", ""), message),
        status=status,
        message=message,
        request_id=printable(headers.get("x-request-id", "")),
        warning=printable(headers.get("x-hf-warning", "")),
    )


def printable(text: str) -> str:
    """`text` on one line, without control characters, cut to `MAX_MESSAGE` characters."""
    shown = "".join(char if char.isprintable() else " " for char in text[: 2 * MAX_MESSAGE])
    return " ".join(shown.split())[:MAX_MESSAGE]


def _outcome(status: int, code: str, message: str) -> Outcome:
    if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        return Outcome.OK
    if code in _BY_CODE:
        return _BY_CODE[code]
    if message.startswith(_DISABLED):
        return Outcome.DISABLED
    if code == "RepoNotFound":
        return Outcome.REPO_MISSING
    if status == HTTPStatus.UNAUTHORIZED:
        refused = message.startswith(_BAD_TOKEN)
        return Outcome.BAD_TOKEN if refused else Outcome.REPO_MISSING
    return _BY_STATUS.get(status, Outcome.UNEXPECTED)


def _message(headers: Mapping[str, str], body: bytes) -> str:
    named = headers.get("x-error-message")
    if named:
        return printable(named)
    try:
        return printable(_message_in(parse_object(body)))
    except JsonRefused:
        plain = headers.get("content-type", "").startswith("text/plain")
        return printable(body[: 4 * MAX_MESSAGE].decode("utf-8", "replace")) if plain else ""


def _message_in(answer: dict[str, Any]) -> str:
    match answer:
        case {"error": str(text)} | {"error_description": str(text)}:
            return text
        case {"error": [*items]} | {"errors": [*items]}:
            return "; ".join(
                item if isinstance(item, str) else str(item.get("message", ""))
                for item in items[:5]
                if isinstance(item, (str, dict))
            )
    return ""
