"""From an exception to an RFC 9457 problem: the one table, and the handlers that use it."""

import difflib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, get_args
from urllib.parse import quote

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Scope

from app import errors

MEDIA_TYPE = "application/problem+json"
MAX_ERRORS = 20
MAX_TEXT = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """How one class of errors looks from outside.

    Attributes:
        status: The HTTP status code.
        slug: The last part of the problem's ``type``, which is ``/problems/{slug}``.
        title: A short name, the same for each occurrence.
    """

    status: int
    slug: str
    title: str


def _kind(status: int, slug: str, title: str) -> Kind:
    return Kind(status=status, slug=slug, title=title)


KINDS: dict[type[Exception], Kind] = {
    errors.InputError: _kind(422, "invalid-input", "Invalid input"),
    errors.UnknownArchitecture: _kind(422, "unknown-architecture", "Unknown architecture"),
    errors.NotFound: _kind(404, "not-found", "Not found"),
    errors.UnknownGpu: _kind(404, "unknown-gpu", "Unknown GPU"),
    errors.UnknownModel: _kind(404, "unknown-model", "Unknown model"),
    errors.UnknownRevision: _kind(404, "unknown-revision", "Unknown revision"),
    errors.AccessDenied: _kind(403, "access-denied", "Access denied"),
    errors.GatedModel: _kind(403, "gated-model", "Gated model"),
    errors.PrivateModel: _kind(403, "private-model", "Private model"),
    errors.TooLarge: _kind(413, "too-large", "Too large"),
    errors.Overloaded: _kind(503, "overloaded", "Overloaded"),
    errors.DeadlinePassed: _kind(504, "deadline-passed", "Deadline passed"),
    errors.NotAuthenticated: _kind(401, "not-authenticated", "Not authenticated"),
    errors.TooManyRequests: _kind(429, "too-many-requests", "Too many requests"),
    errors.HubError: _kind(502, "hub-error", "Hub error"),
    errors.HubUnavailable: _kind(503, "hub-unavailable", "Hub unavailable"),
    errors.HubTimeout: _kind(504, "hub-timeout", "Hub timeout"),
    errors.HubBadAnswer: _kind(502, "hub-bad-answer", "Unusable answer from the hub"),
    errors.HubRateLimited: _kind(503, "hub-rate-limited", "Hub rate limit"),
    errors.HubOffline: _kind(503, "hub-offline", "Hub offline"),
    Exception: _kind(500, "internal-error", "Internal error"),
}


def kind_of(error: BaseException) -> Kind:
    """The row of the table for an error: its own class's, or that of the nearest ancestor."""
    return next(KINDS[cls] for cls in type(error).__mro__ if cls in KINDS)


def _kind_of_status(status: int) -> Kind:
    phrase = HTTPStatus(status).phrase
    return Kind(status=status, slug=phrase.lower().replace(" ", "-"), title=phrase.capitalize())


def clip(text: str, limit: int = MAX_TEXT) -> str:
    """Text from a request, short enough to be repeated in an answer."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def problem(
    scope: Scope,
    kind: Kind,
    detail: str,
    *,
    extra: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
    retry_after: float | None = None,
) -> Response:
    """The response that tells a caller of ``scope`` what went wrong.

    Non-ASCII text is escaped, so that even a lone surrogate of a request cannot break an answer.
    """
    body = {
        "type": f"/problems/{kind.slug}",
        "title": kind.title,
        "status": kind.status,
        "detail": detail,
        "instance": quote(clip(scope.get("path", "/")), safe="/:@!$&'()*+,;=-._~"),
    }
    if request_id := scope.get("request_id"):
        body["request_id"] = request_id
    response = Response(
        json.dumps(body | dict(extra or {}), allow_nan=False),
        status_code=kind.status,
        headers={"cache-control": "no-store", **(headers or {})},
        media_type=MEDIA_TYPE,
    )
    if retry_after is not None:
        response.headers["retry-after"] = str(max(1, math.ceil(retry_after)))
    return response


def respond(scope: Scope, error: BaseException) -> Response:
    """The response for any exception; one that we did not raise on purpose says nothing of itself."""
    kind = kind_of(error)
    if not isinstance(error, errors.KvmathError):
        detail = "Something went wrong on our side; the log knows more under the request id."
        return problem(scope, kind, detail)
    extra = dict(error.extra)
    if isinstance(error, errors.InputError):
        extra["errors"] = [
            _entry(_located(scope, found.loc), found.msg, found.type)
            for found in error.errors[:MAX_ERRORS]
        ]
    # RFC 9110, 11.6.1: a 401 names the scheme that would be accepted.
    headers = {"www-authenticate": "Bearer"} if kind.status == HTTPStatus.UNAUTHORIZED else None
    return problem(
        scope,
        kind,
        clip(error.detail, 2000),
        extra=extra,
        headers=headers,
        retry_after=error.retry_after,
    )


def install(app: FastAPI) -> None:
    """Make every failure of the application's routes a problem document."""
    app.add_exception_handler(errors.KvmathError, _on_kvmath_error)
    app.add_exception_handler(RequestValidationError, _on_validation_error)
    app.add_exception_handler(HTTPException, _on_http_exception)


async def _on_kvmath_error(request: Request, error: Exception) -> Response:
    return respond(request.scope, error)


async def _on_validation_error(request: Request, error: Exception) -> Response:
    found = error.errors() if isinstance(error, RequestValidationError) else ()
    field = getattr(request.scope.get("route"), "body_field", None)
    body = None if field is None else field.field_info.annotation
    is_json = "json" in request.headers.get("content-type", "").lower()
    return respond(request.scope, input_error(found, body, is_json=is_json))


async def _on_http_exception(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    if status == HTTPStatus.BAD_REQUEST and error.__cause__ is not None:
        # FastAPI's word for a body that is not JSON in a way its decoder has no name for.
        why = _json_trouble(error.__cause__)
        return respond(request.scope, errors.InputError.of("body", why, type="json_invalid"))
    path = clip(request.scope["path"])
    if status == HTTPStatus.NOT_FOUND:
        return problem(request.scope, KINDS[errors.NotFound], f"There is nothing at {path}.")
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = ", ".join(sorted(_allowed_methods(request)))
        detail = f"{clip(request.method, 20)} is not offered at {path} (allowed: {allowed})."
        kind = _kind_of_status(status)
        return problem(request.scope, kind, detail, headers={"allow": allowed})
    return problem(
        request.scope, _kind_of_status(status), clip(str(getattr(error, "detail", error)))
    )


def _allowed_methods(request: Request) -> set[str]:
    """All methods of all routes at the request's path; HEAD wherever there is GET."""
    allowed: set[str] = set()
    for route in request.app.routes:
        if route.matches(request.scope)[0] is not Match.NONE:
            allowed |= getattr(route, "methods", None) or {"GET"}
    return allowed | {"HEAD"} if "GET" in allowed else allowed


def _json_trouble(cause: BaseException) -> str:
    match cause:
        case RecursionError():
            return "nested too deeply"
        case UnicodeDecodeError():
            return "not UTF-8"
        case _:
            return "cannot be read as JSON"


def _located(scope: Scope, loc: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """A field's path, beginning with where it was sent, as FastAPI writes it."""
    if loc and loc[0] in {"query", "body", "path", "header"}:
        return loc
    if loc and loc[0] in scope.get("path_params", {}):
        return ("path", *loc)
    return ("body" if scope.get("method") == "POST" else "query", *loc)


def _entry(loc: Sequence[str | int], msg: str, type_: str) -> dict[str, Any]:
    path = [clip(step) if isinstance(step, str) else step for step in loc]
    return {"loc": path, "msg": clip(msg, 500), "type": type_}


def input_error(
    found: Sequence[Mapping[str, Any]], body: Any, *, is_json: bool = True
) -> errors.InputError:
    """What pydantic and FastAPI found, without the input itself.

    Args:
        found: The entries of a validation error, each with a `loc` that begins with where it is.
        body: The annotation of the body, for the names of its fields; None where there is none.
        is_json: Whether the body was declared as JSON.
    """
    return errors.InputError(
        [
            errors.FieldError(
                loc=tuple(clip(s) if isinstance(s, str) else s for s in entry["loc"]),
                msg=_message(entry, body, is_json=is_json),
                type=entry["type"],
            )
            for entry in found[:MAX_ERRORS]
        ]
    )


def _message(entry: Mapping[str, Any], body: Any, *, is_json: bool) -> str:
    loc: tuple[str | int, ...] = tuple(entry["loc"])
    message = str(entry["msg"])
    if entry["type"] == "json_invalid":
        return f"not JSON: {entry.get('ctx', {}).get('error', message)} at character {loc[-1]}"
    if entry["type"] == "extra_forbidden":
        return unknown_field(str(loc[-1]), _fields_at(body, loc[:-1]))
    if loc == ("body",) and not is_json:
        return f"{message}; send JSON with Content-Type: application/json"
    return message.removeprefix("Value error, ")


def unknown_field(name: str, known: Sequence[str]) -> str:
    """The sentence for a field that nobody asked for, with the nearest one that exists."""
    nearest = difflib.get_close_matches(clip(name), known, n=1)
    hint = f"; did you mean {nearest[0]}?" if nearest else ""
    return f"there is no such field{hint}"


def _fields_at(body: Any, loc: Sequence[str | int]) -> list[str]:
    """The field names of the request model that ``loc`` leads to, as far as it can be followed."""
    models = list(_models(body))
    for step in loc[1:]:
        inner = [m.model_fields[step] for m in models if step in m.model_fields]
        if inner:
            models = [model for info in inner for model in _models(info.annotation)]
    return [name for model in models for name in model.model_fields]


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """All pydantic models inside an annotation such as ``list[Item] | None``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models(inner)
