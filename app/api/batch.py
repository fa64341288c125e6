"""Many requests in one: each with its own status, in order, like ones computed once."""

import asyncio
import json
import logging
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Annotated, Any

from cachetools import LRUCache
from fastapi import Body, Request
from pydantic import ValidationError
from pydantic_core import from_json, to_json
from starlette.responses import Response, StreamingResponse

from app.answers.calculations import CALCULATIONS, Calculation
from app.answers.calculator import Calculator
from app.answers.split import NotUsual, split_items
from app.api.routing import StrictRoute, api_router
from app.errors import DeadlinePassed, FieldError, InputError, KvmathError, TooLarge
from app.json_size import MAX_VALUES, holds_more
from app.problems import input_error, respond
from app.schemas.batch import EXAMPLES, MAX_ITEMS, BatchAnswer, BatchBody
from app.schemas.request import CrossoverQuery

_log = logging.getLogger("kvmath")
LINES = "application/x-ndjson"
SLICE_S = 0.005
"""How long the event loop is kept from other requests, about."""
_PIECE_BYTES = 65_536
_AT_ONCE = 256
_KEPT_BYTES = 32 * 2**20


class BatchRoute(StrictRoute):
    """A strict route whose usual body is only cut into items; any other goes to FastAPI."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """FastAPI's handler behind one attempt at the usual case."""
        handle = super().get_route_handler()

        async def cut(request: Request) -> Response:
            is_json = request.headers.get("content-type") == "application/json"
            if not is_json or request.scope["query_string"]:
                return await handle(request)
            try:
                items = await _cut((await request.body()).decode())
            except (NotUsual, UnicodeDecodeError):
                return await handle(request)
            return _respond(items, request)

        return cut


router = api_router("calculations", BatchRoute)


@router.post(
    "/batch",
    response_model=BatchAnswer,
    summary="Many calculations at once",
    responses={200: {"content": {LINES: {"schema": {"type": "string"}}}}},
)
async def batch(
    asked: Annotated[BatchBody, Body(openapi_examples=EXAMPLES)], request: Request
) -> Response:
    """Up to 10,000 items, each the path of a calculation with the fields of its POST body.

    Each has its own status; the whole is 200 whatever they are. With `Accept:
    application/x-ndjson` one result a line, in order, each sent as soon as it is there.
    """
    return _respond([to_json(item).decode() for item in asked.items], request)


async def _cut(text: str) -> list[str]:
    pause = _Pauses()
    items: list[str] = []
    for item in split_items(text):
        items.append(item)
        if len(items) > MAX_ITEMS:
            raise NotUsual
        if len(items) % 64 == 0:
            await pause.if_due()
    return items


def _respond(items: Sequence[str], request: Request) -> Response:
    as_lines = LINES in request.headers.get("accept", "")
    # What is left of a request's time is for sending what there is.
    seconds = 0.9 * request.app.settings.request_timeout_s
    results = _Batch(request.app.state.services.calculator, items, seconds).results()
    pieces = _lines(results) if as_lines else _document(results)
    return StreamingResponse(
        _pieced(pieces),
        media_type=LINES if as_lines else "application/json",
        headers={"cache-control": "no-store", "vary": "accept"},
    )


class _Batch:
    """The items of one batch on their way to results.

    A result is kept while further items are waiting for it, within bounds; one that had to go is
    made again. Items whose turn comes after `seconds` fail with 504, so that the whole is whole.
    """

    def __init__(self, calculator: Calculator, items: Sequence[str], seconds: float) -> None:
        self._calculator = calculator
        self._seconds = seconds
        self._ends_at = time.monotonic() + seconds
        self._items = items
        self._wanted = Counter(items)
        # A batch that would push all else out leaves the kept answers alone, and saves the looking.
        kept = calculator.has_room_for(len(self._wanted))
        self._find = calculator.at_hand if kept else calculator.anew
        self._made: LRUCache[str, bytes] = LRUCache(_KEPT_BYTES, getsizeof=len)
        self._waiting: dict[str, asyncio.Task[bytes]] = {}

    async def results(self) -> AsyncIterator[bytes]:
        """Each item's result without its opening brace, in order."""
        pause = _Pauses()
        ahead: deque[tuple[str, bytes | asyncio.Task[bytes]]] = deque()
        try:
            for item in self._items:
                self._wanted[item] -= 1
                ahead.append((item, self._begin(item)))
                await pause.if_due()
                while ahead and (len(ahead) > _AT_ONCE or isinstance(ahead[0][1], bytes)):
                    yield await self._end(*ahead.popleft())
            while ahead:
                yield await self._end(*ahead.popleft())
        finally:
            for task in self._waiting.values():
                task.cancel()

    def _begin(self, item: str) -> bytes | asyncio.Task[bytes]:
        begun = self._made.get(item) or self._waiting.get(item) or self._make(item)
        if isinstance(begun, asyncio.Task):
            self._waiting[item] = begun
        else:
            self._keep(item, begun)
        return begun

    async def _end(self, item: str, begun: bytes | asyncio.Task[bytes]) -> bytes:
        if isinstance(begun, bytes):
            return begun
        try:
            async with asyncio.timeout(max(0.0, self._ends_at - time.monotonic())):
                made = await asyncio.shield(begun)
        except TimeoutError:
            return _failed(None, DeadlinePassed(self._seconds))
        self._waiting.pop(item, None)
        self._keep(item, made)
        return made

    def _keep(self, item: str, made: bytes) -> None:
        if self._wanted[item] > 0 and len(made) <= self._made.maxsize:
            self._made[item] = made
        else:
            self._made.pop(item, None)

    def _make(self, item: str) -> bytes | asyncio.Task[bytes]:
        if time.monotonic() >= self._ends_at:
            return _failed(None, DeadlinePassed(self._seconds))
        try:
            fields = _object(item)
        except KvmathError as error:
            return _failed(None, error)
        path = fields.pop("path", None)
        calculation = CALCULATIONS.get(path) if isinstance(path, str) else None
        if calculation is None:
            return _failed(None, _no_path(path))
        try:
            asked = _read(calculation, fields)
            answer = self._find(calculation, asked)
        except ValidationError as error:
            found = [
                entry | {"loc": ("body", *entry["loc"])}
                for entry in error.errors(include_url=False, include_input=False)
            ]
            return _failed(path, input_error(found, calculation.body))
        except Exception as error:  # noqa: BLE001 -- an item that fails takes no other with it
            return _failed(path, error)
        if answer is not None:
            return _succeeded(answer.body)

        async def wait() -> bytes:
            try:
                return _succeeded((await self._calculator.answer(calculation, asked)).body)
            except Exception as error:  # noqa: BLE001 -- an item that fails takes no other with it
                return _failed(path, error)

        return asyncio.create_task(wait())


def _read(calculation: Calculation, fields: dict[str, Any]) -> Any:
    asked = calculation.body.model_validate(fields)
    if isinstance(asked, CrossoverQuery) and asked.format != "json":
        raise InputError.of("format", "is json in a batch: a picture is asked for alone")
    return asked


def _succeeded(body: bytes) -> bytes:
    return b'"status":200,"body":%b}' % body


def _failed(path: str | None, error: Exception) -> bytes:
    if not isinstance(error, KvmathError):
        _log.error("an item of a batch failed", exc_info=error)
    response = respond({"path": path or "/batch", "method": "POST"}, error)
    wait = response.headers.get("retry-after")
    after = b"" if wait is None else b'"retry_after_s":%b,' % wait.encode()
    return b'"status":%d,%b"body":%b}' % (response.status_code, after, bytes(response.body))


def _no_path(path: object) -> InputError:
    known = ", ".join(CALCULATIONS)
    msg = f"is needed: one of {known}" if path is None else f"is none of {known}"
    kind = "missing" if path is None else "literal_error"
    return InputError([FieldError(loc=("body", "path"), msg=msg, type=kind)])


def _object(item: str) -> dict[str, Any]:
    """The fields of an item.

    Raises:
        TooLarge: it would unfold to too much.
        InputError: it is no object, nested too deeply, or has a number too long to be read.
    """
    if len(item) > MAX_VALUES and holds_more(item.encode()):
        raise TooLarge(f"The item holds over {MAX_VALUES} values.")
    try:
        fields = from_json(item)
    except ValueError:  # half a character, or nested deeper than pydantic goes
        try:
            fields = json.loads(item)
        except (ValueError, RecursionError):  # here the stack may be deeper than where it was cut
            rule = "nested too deeply, or a number has more digits than are read"
            raise InputError([FieldError(loc=("body",), msg=rule, type="json_invalid")]) from None
    if not isinstance(fields, dict):
        rule = "an item is an object with a path"
        raise InputError([FieldError(loc=("body",), msg=rule, type="dict_type")])
    return fields


async def _lines(results: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    index = 0
    async for result in results:
        yield b'{"index":%d,%b\n' % (index, result)
        index += 1


async def _document(results: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    index = 0
    yield b'{"results":['
    async for result in results:
        yield b'%b{"index":%d,%b' % (b"," if index else b"", index, result)
        index += 1
    yield b"]}"


async def _pieced(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same bytes in fewer pieces."""
    held: list[bytes] = []
    size = 0
    async for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= _PIECE_BYTES:
            yield b"".join(held)
            held.clear()
            size = 0
    yield b"".join(held)


class _Pauses:
    """Lets the event loop turn when it has been kept for long enough."""

    def __init__(self) -> None:
        self._due = time.perf_counter() + SLICE_S

    async def if_due(self) -> None:
        """Give way to others, if it is time."""
        if time.perf_counter() >= self._due:
            await asyncio.sleep(0)
            self._due = time.perf_counter() + SLICE_S
