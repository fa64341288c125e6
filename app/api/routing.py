"""Routers as this service uses them: strict about query keys, every failure declared."""

from collections.abc import Callable, Coroutine, Iterator, Mapping
from functools import cached_property
from typing import Any, TypeVar, get_args, get_origin
from urllib.parse import parse_qsl, unquote_plus

from fastapi import APIRouter, FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from app.edge.exchange import Exchange
from app.errors import FieldError, InputError
from app.problems import MEDIA_TYPE, clip, unknown_field

Route = TypeVar("Route", bound=APIRoute)

_PROBLEM = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
PROBLEM_RESPONSES: dict[int | str, dict[str, Any]] = {
    422: {"description": "The input is malformed or impossible.", "content": _PROBLEM},
    "4XX": {"description": "The request cannot be answered as it stands.", "content": _PROBLEM},
    "5XX": {"description": "We, or the hub, are in trouble.", "content": _PROBLEM},
}


class StrictRoute(APIRoute):
    """A route that refuses query keys it does not know, single ones that repeat, and JSON that is
    not UTF-8.

    FastAPI ignores the first and takes the last of the second: both hide a caller's mistake.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """FastAPI's handler behind a look at the query's keys and at the body's encoding."""
        handle = super().get_route_handler()
        fields = dict(_query_fields(self.dependant))
        lists = frozenset(name for name, is_list in fields.items() if is_list)

        async def strict(request: Request) -> Response:
            if query := request.scope["query_string"]:
                names = _names(query)
                once = set(names)
                if len(once) < len(names) and (repeated := _repeated(names, lists)):
                    raise _refused(repeated, lambda _: "given more than once", "repeated")
                if unknown := once - fields.keys():
                    say = lambda name: unknown_field(name, list(fields))  # noqa: E731 -- one use
                    raise _refused(unknown, say, "extra_forbidden")
            exchange: Exchange = request.scope["exchange"]
            # Python's reader guesses UTF-16 and 32 by these; JSON is UTF-8 (RFC 8259, 8.1).
            if exchange.says_json and b"\0" in exchange.body[:4]:
                raise InputError.of("body", "not UTF-8", type="json_invalid")
            return await handle(request)

        return strict


class AnswerRoute(StrictRoute):
    """A strict route whose endpoint takes one model, from query or body, and the request.

    FastAPI's own handler spends more on finding that out anew for each request than a calculation
    takes. Here the usual request is read at once; any that is unusual, or wrong, goes to FastAPI's
    handler, which knows all cases and words what is wrong.
    """

    @cached_property
    def _reads(self) -> tuple[str, type[BaseModel], Mapping[str, bool] | None]:
        """Name and model of what is read; for a query, its keys and whether each may repeat."""
        in_query = self.dependant.query_params
        param = (in_query or self.dependant.body_params)[0]
        fields = dict(_query_fields(self.dependant)) if in_query else None
        return param.name, _model_of(param.field_info.annotation), fields

    def usual(self, scope: Scope) -> BaseModel | None:
        """What the request asks, where it asks in the usual way and nothing is wrong with it."""
        _, model, fields = self._reads
        try:
            if fields is not None:
                values = _usual_query(scope["query_string"], fields)
                return None if values is None else model.model_validate(values)
            exchange: Exchange = scope["exchange"]
            if exchange.is_json and not scope["query_string"]:
                return model.model_validate_json(exchange.body)
        except ValidationError:
            return None
        return None

    async def answer(self, asked: BaseModel, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the endpoint and send what it answers."""
        name = self._reads[0]
        response: Response = await self.endpoint(**{name: asked}, request=Request(scope, receive))
        await response(scope, receive, send)


def _model_of(annotation: Any) -> type[BaseModel]:
    if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
        raise TypeError(f"an answer route reads one model, not {annotation}")
    return annotation


def _usual_query(query: bytes, fields: Mapping[str, bool]) -> dict[str, Any] | None:
    """A query's values, those of lists in lists; None where a single one repeats."""
    values: dict[str, Any] = {}
    for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
        if fields.get(name, False):
            values.setdefault(name, []).append(value)
        elif name in values:
            return None
        else:
            values[name] = value
    return values


def api_router(tag: str, route_class: type[APIRoute] = StrictRoute) -> APIRouter:
    """An empty router whose routes are strict and declare their problem documents."""
    return APIRouter(
        tags=[tag],
        route_class=route_class,
        redirect_slashes=False,
        responses=PROBLEM_RESPONSES,
        generate_unique_id_function=lambda route: route.name,
    )


def mount(app: FastAPI, router: APIRouter) -> None:
    """Add a router's routes to the application's own.

    ``include_router`` would keep it as a router of its own, and match each path twice.
    """
    app.router.routes.extend(router.routes)


class DirectRouter:
    """Fixed paths by a look-up, all else by the router, which tries its routes in turn.

    A route tried and not taken costs about two microseconds, a calculation about ten.
    """

    def __init__(self, router: APIRouter) -> None:
        self.router = router
        self.fixed = _fixed(router, APIRoute)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        route = self.fixed.get((scope.get("method", ""), scope.get("path", "")))
        if route is None:
            await self.router(scope, receive, send)
            return
        scope["router"] = self.router
        scope.update(route.matches(scope)[1])
        await route.handle(scope, receive, send)


class UsualAnswers:
    """Usual requests to answer routes, in front of FastAPI; all else is FastAPI's.

    They need nothing of what FastAPI puts around a handler: whatever they raise, the edge answers.
    """

    def __init__(self, app: FastAPI, otherwise: ASGIApp) -> None:
        self.app = app
        self.otherwise = otherwise
        self._routes: dict[tuple[str, str], AnswerRoute] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or hand it on."""
        if self._routes is None:  # not before every route has been added
            self._routes = _fixed(self.app.router, AnswerRoute)
        route = self._routes.get((scope.get("method", ""), scope.get("path", "")))
        if route is None or (asked := route.usual(scope)) is None:
            await self.otherwise(scope, receive, send)
            return
        scope["app"] = self.app
        scope["route"] = route
        await route.answer(asked, scope, receive, send)


def _fixed(router: APIRouter, kind: type[Route]) -> dict[tuple[str, str], Route]:
    """The routes of a kind whose paths have no parts to fill in, by method and path."""
    found: dict[tuple[str, str], Route] = {}
    for route in router.routes:
        if isinstance(route, kind) and "{" not in route.path:
            for method in route.methods or ():
                found.setdefault((method, route.path), route)
    return found


def _names(query: bytes) -> list[str]:
    return [
        unquote_plus(name) if "%" in name or "+" in name else name
        for pair in query.decode("latin-1").split("&")
        if (name := pair.partition("=")[0])
    ]


def _repeated(names: list[str], lists: frozenset[str]) -> set[str]:
    return {name for name in names if name not in lists and names.count(name) > 1}


def _refused(names: set[str], say: Callable[[str], str], type_: str) -> InputError:
    return InputError(
        [FieldError(loc=("query", clip(name)), msg=say(name), type=type_) for name in sorted(names)]
    )


def _query_fields(dependant: Dependant) -> Iterator[tuple[str, bool]]:
    """Name of each query key that the route reads, and whether it may repeat."""
    for param in dependant.query_params:
        annotation = param.field_info.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            for name, info in annotation.model_fields.items():
                yield info.alias or name, _is_list(info.annotation)
        else:
            yield param.alias, _is_list(annotation)
    for inner in dependant.dependencies:
        yield from _query_fields(inner)


def _is_list(annotation: Any) -> bool:
    return get_origin(annotation) is list or any(_is_list(inner) for inner in get_args(annotation))
