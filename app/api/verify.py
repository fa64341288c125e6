"""A startup log explained: as text with the rest in the query, or all in one JSON body."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Annotated, Any
from urllib.parse import parse_qsl

from fastapi import Body, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import ValidationError
from starlette.responses import Response

from app.answers.verify import verify
from app.api.routing import StrictRoute, api_router
from app.deps import Services
from app.errors import InputError
from app.logs.reader import read_log
from app.schemas.verify import EXAMPLES, VerifyAnswer, VerifyBody, VerifyQuery

_LARGE = 2**17
"""Characters from which reading is done beside the event loop."""
_TEXT = {
    "requestBody": {
        "content": {
            "text/plain": {
                "schema": {"type": "string", "minLength": 1},
                "examples": {
                    "v0": {
                        "summary": EXAMPLES["v0"]["summary"],
                        "value": EXAMPLES["v0"]["value"]["log"],
                    }
                },
            }
        }
    }
}


class TextRoute(APIRoute):
    """A route that also takes a body that is no JSON: the log itself, beside the query's fields."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """FastAPI's handler for JSON, our own for text."""
        handle = super().get_route_handler()

        async def log_or_json(request: Request) -> Response:
            kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind == "application/json" or kind.endswith("+json"):
                return await handle(request)
            return await _explain(await _with_query(request), request)

        return log_or_json


class LogRoute(StrictRoute, TextRoute):
    """The same, strict about the names of the query's keys."""


router = api_router("calculations", LogRoute)


@router.post(
    "/verify",
    response_model=VerifyAnswer,
    summary="A startup log, explained",
    openapi_extra=_TEXT,
)
async def verify_log(
    asked: Annotated[VerifyBody, Body(openapi_examples=EXAMPLES)],
    also: Annotated[VerifyQuery, Query()],
    request: Request,
) -> Response:
    """Reads the settings and measurements in a startup log of vLLM, SGLang, TensorRT-LLM or
    llama.cpp, predicts the same start, and says where the two differ and why.

    What the log does not say (the GPU, mostly) is added by fields with the names that
    `/concurrency` has for them, in the query or in the JSON body. Nothing of a log is kept.
    """
    given = {name: getattr(also, name) for name in also.model_fields_set - asked.model_fields_set}
    return await _explain(asked.model_copy(update=given), request)


async def _with_query(request: Request) -> VerifyBody:
    """The log of a text body, with the fields of the query."""
    values: dict[str, Any] = {}
    for name, value in parse_qsl(request.url.query, keep_blank_values=True):
        values[name] = [*values.get(name, []), value] if name == "contexts" else value
    try:
        asked = VerifyQuery.model_validate(values)
    except ValidationError as error:
        faults = [{**fault, "loc": ("query", *fault["loc"])} for fault in error.errors()]
        raise RequestValidationError(faults) from None
    log = (await request.body()).decode("utf-8", errors="replace")
    if not log:
        raise InputError.of("body", "is empty: send the log", type="missing")
    given = {name: getattr(asked, name) for name in asked.model_fields_set}
    return VerifyBody.model_validate({**given, "log": log})


async def _explain(asked: VerifyBody, request: Request) -> Response:
    services: Services = request.app.state.services
    if len(asked.log) > _LARGE:
        log = await asyncio.to_thread(read_log, asked.log)
    else:
        log = read_log(asked.log)
    answer = await verify(asked, log, services.models)
    return Response(
        answer.model_dump_json(),
        media_type="application/json",
        headers={"cache-control": "no-store"},
    )
