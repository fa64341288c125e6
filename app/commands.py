"""What `kvmath`'s commands do: resolve, compute, print; each returns its exit code."""

import asyncio
import json
import os
import sys
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ValidationError

from app.answers.concurrency import concurrency_answer
from app.answers.crossover import crossover_answer
from app.answers.kv import kv_answer
from app.answers.models import reference_table
from app.answers.plan import plan_answer
from app.catalog.models import model_catalogue
from app.deps import Services, open_services
from app.errors import AccessDenied, HubError, InputError, KvmathError
from app.hub.folder import read_folder
from app.hub.strict_json import JsonRefused, parse_object
from app.problems import input_error
from app.render import tables
from app.resolve.facts import catalogue_differences, catalogue_entry
from app.resolve.gpu import ResolvedGpu, requested_gpu
from app.resolve.model import ResolvedModel
from app.schemas.request import ConcurrencyQuery, CrossoverQuery, KvQuery, ModelFields, PlanQuery
from app.settings import BadSettings, Settings

FITS, DOES_NOT_FIT, BAD_INPUT, HUB_TROUBLE = 0, 1, 2, 3
READER_GONE = 141
"""What shells report for a program whose reader closed the pipe."""
USUAL_CONTEXTS = (4096, 8192, 32768, 131072)
MAX_CONFIG_BYTES = 5_000_000
_OPTIONS = {"contexts": "context", "batches": "batch", "concurrent_users": "users"}
"""Options that have another name than the field they fill."""

M = TypeVar("M", bound=BaseModel)
Q = TypeVar("Q", bound=ModelFields)
Fields = Mapping[str, Any]
Work = Callable[[Services], Coroutine[Any, Any, int]]


def size(model: str, fields: Fields, *, as_json: bool) -> int:
    """Parameters, weights, KV per token and per sequence, and what fits."""

    async def work(services: Services) -> int:
        wanted = {**fields, "contexts": fields["contexts"] or list(USUAL_CONTEXTS)}
        query, resolved = await _resolved(services, ConcurrencyQuery, model, wanted)
        gpu = requested_gpu(query)
        given = query.model_dump(exclude_unset=True)
        shared = {name: value for name, value in given.items() if name in KvQuery.model_fields}
        kv = kv_answer(KvQuery.model_validate(shared), resolved, gpu)
        fit = None
        if gpu is not None or query.kv_budget_bytes is not None:
            fit = concurrency_answer(query, resolved, gpu)
        if as_json:
            _print_json({"kv": kv, "concurrency": fit})
        else:
            tables.print_size(kv, fit)
        return DOES_NOT_FIT if fit is not None and tables.too_few(kv, fit) else FITS

    return _run(work)


def crossover(models: list[str], fields: Fields, *, output: Path | None, as_json: bool) -> int:
    """Where reading the cache costs as much as reading the weights."""

    async def work(services: Services) -> int:
        asked = [await _resolved(services, CrossoverQuery, name, fields) for name in models]
        gpu = requested_gpu(asked[0][0], memory_needed=False)
        if output is not None:
            _write_picture(output, asked, gpu)
            return FITS
        answers = [crossover_answer(query, resolved, gpu) for query, resolved in asked]
        if as_json:
            _print_json(answers[0] if len(answers) == 1 else answers)
        else:
            for found in answers:
                tables.print_crossover(found)
        return FITS

    return _run(work)


def plan(model: str, fields: Fields, *, as_json: bool) -> int:
    """Machines for a workload."""

    async def work(services: Services) -> int:
        query, resolved = await _resolved(services, PlanQuery, model, fields)
        found = plan_answer(query, resolved, requested_gpu(query))
        if as_json:
            _print_json(found)
        else:
            tables.print_plan(found)
        return FITS if found.nodes is not None and found.meets_slo else DOES_NOT_FIT

    return _run(work)


def verify(file: Path, model: str | None, fields: Fields, *, as_json: bool) -> int:
    """A startup log explained; `-` reads standard input."""
    from app.answers.verify import verify as verify_log  # noqa: PLC0415 -- numbers need no logs
    from app.logs.reader import read_log  # noqa: PLC0415 -- as above
    from app.render.verify import print_verify  # noqa: PLC0415 -- as above
    from app.schemas.verify import VerifyBody  # noqa: PLC0415 -- as above

    async def work(services: Services) -> int:
        text = _log_text(file, services.settings.max_log_bytes)
        given = {name: value for name, value in fields.items() if value is not None}
        here = None if model is None else _on_disk(model)
        known = None
        if isinstance(here, Path):
            known = await services.models.read(await read_folder(here), ModelFields())
        elif here is not None:
            given["config"] = here
        elif model is not None:
            given["model"] = model
        asked = _asked(VerifyBody, {**given, "log": text})
        found = await verify_log(asked, read_log(text), services.models, known)
        if as_json:
            _print_json(found)
        else:
            print_verify(found)
        return DOES_NOT_FIT if found.fits is False else FITS

    return _run(work)


def _log_text(file: Path, most: int) -> str:
    if str(file) == "-":
        data = sys.stdin.buffer.read(most + 1)
    else:
        with file.open("rb") as log:
            data = log.read(most + 1)
    if len(data) > most:
        raise InputError.of("file", f"is over {most} bytes")
    # A file without a byte is no log either, and is told so in the same words.
    return data.decode("utf-8", errors="replace") or "\n"


def catalogue(*, check: bool, as_json: bool) -> int:
    """The quick reference table, or a comparison of the shipped facts with the hub."""

    async def work(services: Services) -> int:
        if check:
            return await _check_catalogue(services)
        if as_json:
            _print_json(reference_table(model_catalogue()))
        else:
            tables.print_reference()
        return FITS

    return _run(work)


async def _check_catalogue(services: Services) -> int:
    changed = 0
    for entry in model_catalogue().models:
        if "/" not in entry.id:
            continue
        try:
            files = await services.hub.fetch_model(entry.id, use_local_cache=False)
        except AccessDenied as error:
            print(f"{entry.id}: not compared: {error.detail}")
            continue
        differences = catalogue_differences(entry.facts, files.config)
        changed += bool(differences)
        for line in differences:
            print(f"{entry.id}: {line}")
    return DOES_NOT_FIT if changed else FITS


def new_entry(name: str) -> int:
    """An entry for the catalogue from the hub's files, as JSON."""

    async def work(services: Services) -> int:
        files = await services.hub.fetch_model(name, use_local_cache=False)
        weights = await services.hub.fetch_weights(files)
        _print_json(catalogue_entry(files, weights, datetime.now(tz=UTC).date()))
        return FITS

    return _run(work)


async def _resolved(
    services: Services, kind: type[Q], name: str, fields: Fields
) -> tuple[Q, ResolvedModel]:
    """The request and its model: a file or folder where `name` is one, else an id or alias."""
    here = _on_disk(name)
    query = _asked(kind, {**fields, "model": None if here else name})
    if isinstance(here, Path):
        return query, await services.models.read(await read_folder(here), query)
    return query, await services.models.resolve(query, here)


def _asked(kind: type[M], fields: Fields) -> M:
    """The request of these fields.

    Raises:
        InputError: in the service's own words, on what the request can't be.
    """
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        said = input_error(error.errors(include_url=False, include_input=False), kind)
        faults = [
            replace(fault, loc=(_OPTIONS.get(str(fault.loc[0]), fault.loc[0]),))
            if fault.loc
            else fault
            for fault in said.errors
        ]
        raise InputError(faults) from None


def _on_disk(name: str) -> Path | dict[str, Any] | None:
    """The folder of that name, or the content of the config file, or None.

    Raises:
        InputError: on a name that can only be a path, where there is no folder and no config.
    """
    path = Path(name).expanduser()
    if path.is_dir():
        return path
    if path.is_file():
        if path.suffix == ".json":
            return _config_file(path)
        raise InputError.of("model", f"{name} is a file, but no .json file")
    if name.startswith((".", "/", "~")) or path.suffix == ".json" or name.count("/") > 1:
        raise InputError.of("model", f"there is no file or folder {name}")
    return None


def _config_file(path: Path) -> dict[str, Any]:
    if path.stat().st_size > MAX_CONFIG_BYTES:
        raise InputError.of("model", f"{path.name} is over {MAX_CONFIG_BYTES} bytes")
    try:
        return parse_object(path.read_bytes())
    except JsonRefused as refused:
        raise InputError.of("model", f"{path.name} {refused}") from None


def _write_picture(
    output: Path, asked: list[tuple[CrossoverQuery, ResolvedModel]], gpu: ResolvedGpu | None
) -> None:
    from app.render.crossover_chart import crossover_chart  # noqa: PLC0415 -- numbers need no picture
    from app.render.crossover_curve import crossover_curve, crossover_frame  # noqa: PLC0415 -- as above

    kind: Literal["svg", "png"]
    if output.suffix == ".svg":
        kind = "svg"
    elif output.suffix == ".png":
        kind = "png"
    else:
        raise InputError.of("output", "must end in .svg or .png")
    curves = tuple(crossover_curve(query, model, gpu) for query, model in asked)
    output.write_bytes(crossover_chart(crossover_frame(asked[0][0]), curves, kind))


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, default=BaseModel.model_dump))


def _run(work: Work) -> int:
    async def inside() -> int:
        async with open_services(Settings.from_environment()) as services:
            return await work(services)

    try:
        code = asyncio.run(inside())
        sys.stdout.flush()
    except BrokenPipeError:
        _forget_output()
        return READER_GONE
    except OSError as error:
        _forget_output()
        _complain(f"{error.filename or 'output'}: {error.strerror}")
        return BAD_INPUT
    except BadSettings as bad:
        for line in bad.faults:
            _complain(line)
        return BAD_INPUT
    except KvmathError as error:
        _complain(error.detail)
        return HUB_TROUBLE if isinstance(error, AccessDenied | HubError) else BAD_INPUT
    return code


def _forget_output() -> None:
    """What could not be written is not tried again while Python ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(text: str) -> None:
    print(f"kvmath: {text}", file=sys.stderr)
