"""`kvmath`: the calculator on the command line, on the same core and schemas as the service.

Exit codes: 0 fits, 1 does not fit, 2 bad input, 3 hub trouble.
"""

import asyncio
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import typer
from pydantic import BaseModel, ValidationError

from app.answers.concurrency import concurrency_answer
from app.answers.crossover import crossover_answer
from app.answers.kv import kv_answer
from app.answers.plan import plan_answer
from app.catalog.models import model_catalogue
from app.deps import Services, open_services
from app.errors import AccessDenied, HubError, InputError, KvmathError
from app.hub.folder import read_folder
from app.hub.strict_json import JsonRefused, parse_object
from app.render import tables
from app.resolve.facts import catalogue_differences
from app.resolve.gpu import requested_gpu
from app.resolve.model import ResolvedModel
from app.schemas.request import (
    ConcurrencyQuery,
    CrossoverQuery,
    KvQuery,
    ModelFields,
    PlanQuery,
)
from app.settings import Settings

FITS, DOES_NOT_FIT, BAD_INPUT, HUB_TROUBLE = 0, 1, 2, 3
USUAL_CONTEXTS = (4096, 8192, 32768, 131072)
MAX_CONFIG_BYTES = 5_000_000

Q = TypeVar("Q", bound=ModelFields)
Fields = Mapping[str, Any]

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="KV cache arithmetic: what a model's cache and weights take, and how much of it fits.",
    epilog="Exit codes: 0 fits, 1 does not fit, 2 bad input, 3 hub trouble.",
)

Model = Annotated[
    str, typer.Argument(help="Hub id, catalogue alias, local folder, or a config.json file.")
]
Gpu = Annotated[str | None, typer.Option(help="GPU of the catalogue, such as h100 or 4090.")]
Context = Annotated[list[int] | None, typer.Option(help="Tokens per sequence; may repeat.")]
TensorParallel = Annotated[int, typer.Option("--tensor-parallel-size", "--tp")]
CacheDtype = Annotated[str, typer.Option(help="auto, bfloat16, fp8, ...")]
WeightBytes = Annotated[int | None, typer.Option(help="Total weight bytes, if you know better.")]
Engine = Annotated[str, typer.Option(help="formula or vllm.")]
Revision = Annotated[str | None, typer.Option(help="Branch, tag or commit.")]
Source = Annotated[str, typer.Option(help="any, or hub to go past the catalogue.")]
AsJson = Annotated[bool, typer.Option("--json", help="The answer as the service gives it.")]
Explain = Annotated[bool, typer.Option(help="Show the arithmetic.")]


@app.command()
def size(
    model: Model,
    gpu: Gpu = None,
    context: Context = None,
    tensor_parallel_size: TensorParallel = 1,
    kv_cache_dtype: CacheDtype = "auto",
    weight_bytes: WeightBytes = None,
    engine: Engine = "formula",
    revision: Revision = None,
    source: Source = "any",
    as_json: AsJson = False,
    explain: Explain = False,
) -> None:
    """Parameters, weights, KV per token and per sequence, and what fits (the default command)."""
    contexts = context or list(USUAL_CONTEXTS)
    common = {
        "revision": revision,
        "source": source,
        "gpu": gpu,
        "tensor_parallel_size": tensor_parallel_size,
        "kv_cache_dtype": kv_cache_dtype,
        "weight_bytes": weight_bytes,
        "engine": engine,
        "contexts": contexts,
        "explain": explain,
    }

    async def answer(services: Services) -> int:
        kv_query, resolved = await _resolved(services, KvQuery, model, common)
        device = requested_gpu(kv_query)
        kv = kv_answer(kv_query, resolved, device)
        fit = None
        if device is not None:
            query = ConcurrencyQuery.model_validate(kv_query.model_dump())
            fit = concurrency_answer(query, resolved, device)
        if as_json:
            _print_json({"kv": kv, "concurrency": fit})
        else:
            tables.print_size(kv, fit)
        return FITS if fit is None or fit.fits else DOES_NOT_FIT

    _run(answer)


@app.command()
def crossover(
    model: Annotated[list[str], typer.Argument(help="One model, or several for a picture.")],
    gpu: Gpu = None,
    context: Context = None,
    batch: Annotated[list[int] | None, typer.Option(help="Sequences at once; may repeat.")] = None,
    tensor_parallel_size: TensorParallel = 1,
    kv_cache_dtype: CacheDtype = "auto",
    weight_bytes: WeightBytes = None,
    output: Annotated[Path | None, typer.Option(help="Write a picture: NAME.svg or .png.")] = None,
    as_json: AsJson = False,
    explain: Explain = False,
) -> None:
    """Where reading the KV cache costs as much as reading the weights."""
    common = {
        "gpu": gpu,
        "contexts": context or [],
        "batches": batch or [],
        "tensor_parallel_size": tensor_parallel_size,
        "kv_cache_dtype": kv_cache_dtype,
        "weight_bytes": weight_bytes,
        "explain": explain,
    }

    async def answer(services: Services) -> int:
        asked = [await _resolved(services, CrossoverQuery, name, common) for name in model]
        device = requested_gpu(asked[0][0], memory_needed=False)
        if output is not None:
            _write_picture(output, asked, device)
            return FITS
        answers = [crossover_answer(query, resolved, device) for query, resolved in asked]
        if as_json:
            _print_json({"crossover": answers[0] if len(answers) == 1 else answers})
        else:
            for found in answers:
                tables.print_crossover(found)
        return FITS

    _run(answer)


@app.command()
def plan(
    model: Model,
    gpu: Annotated[str, typer.Option(help="GPU of the catalogue.")],
    users: Annotated[int, typer.Option(help="Users decoding at once.")],
    context: Annotated[int, typer.Option(help="Tokens held per sequence.")],
    itl_slo_ms: Annotated[float | None, typer.Option(help="Inter-token latency promised.")] = None,
    gpus_per_node: Annotated[int, typer.Option()] = 8,
    tensor_parallel_size: TensorParallel = 1,
    kv_cache_dtype: CacheDtype = "auto",
    weight_bytes: WeightBytes = None,
    node_overhead_bytes: Annotated[int | None, typer.Option()] = None,
    efficiency: Annotated[float, typer.Option()] = 0.70,
    spike_headroom: Annotated[float, typer.Option()] = 0.30,
    spare_nodes: Annotated[int, typer.Option()] = 1,
    as_json: AsJson = False,
) -> None:
    """Machines for a workload, every step shown."""
    fields = {
        "gpu": gpu,
        "concurrent_users": users,
        "context": context,
        "itl_slo_ms": itl_slo_ms,
        "gpus_per_node": gpus_per_node,
        "tensor_parallel_size": tensor_parallel_size,
        "kv_cache_dtype": kv_cache_dtype,
        "weight_bytes": weight_bytes,
        "node_overhead_bytes": node_overhead_bytes,
        "efficiency": efficiency,
        "spike_headroom": spike_headroom,
        "spare_nodes": spare_nodes,
    }

    async def answer(services: Services) -> int:
        query, resolved = await _resolved(services, PlanQuery, model, fields)
        found = plan_answer(query, resolved, requested_gpu(query))
        if as_json:
            _print_json({"plan": found})
        else:
            tables.print_plan(found)
        return FITS if found.nodes is not None and found.meets_slo else DOES_NOT_FIT

    _run(answer)


@app.command()
def catalogue(
    check: Annotated[bool, typer.Option(help="Compare with the hub; exit 1 on a change.")] = False,
) -> None:
    """The quick reference table, or a comparison of the shipped facts with the hub."""

    async def answer(services: Services) -> int:
        if not check:
            tables.print_reference()
            return FITS
        changed = 0
        for entry in model_catalogue().models:
            if "/" not in entry.id:
                continue
            try:
                files = await services.hub.fetch_model(entry.id, use_local_cache=False)
            except (AccessDenied, HubError) as error:
                print(f"{entry.id}: not compared: {error.detail}")
                continue
            differences = catalogue_differences(entry.facts, files.config)
            changed += bool(differences)
            for line in differences:
                print(f"{entry.id}: {line}")
        return DOES_NOT_FIT if changed else FITS

    _run(answer)


async def _resolved(
    services: Services, kind: type[Q], name: str, fields: Fields
) -> tuple[Q, ResolvedModel]:
    """The request and its model: a file or folder where `name` is one, else an id or alias."""
    here = _on_disk(name)
    query = kind.model_validate({**fields, "model": None if here else name})
    if isinstance(here, Path):
        return query, await services.models.read(await read_folder(here), query)
    return query, await services.models.resolve(query, here)


def _on_disk(name: str) -> Path | dict[str, Any] | None:
    """The folder of that name, or the content of the config file, or None."""
    path = Path(name)
    if path.is_dir():
        return path
    return _config_file(path) if path.suffix == ".json" and path.is_file() else None


def _config_file(path: Path) -> dict[str, Any]:
    if path.stat().st_size > MAX_CONFIG_BYTES:
        raise InputError.of("model", f"{path.name} is over {MAX_CONFIG_BYTES} bytes")
    try:
        return parse_object(path.read_bytes())
    except JsonRefused as refused:
        raise InputError.of("model", f"{path.name} {refused}") from None


def _write_picture(
    output: Path, asked: list[tuple[CrossoverQuery, ResolvedModel]], gpu: Any
) -> None:
    from app.render.crossover_chart import crossover_chart  # noqa: PLC0415 -- numbers need no picture
    from app.render.crossover_curve import crossover_curve  # noqa: PLC0415 -- as above

    kind: Literal["svg", "png"]
    if output.suffix == ".svg":
        kind = "svg"
    elif output.suffix == ".png":
        kind = "png"
    else:
        raise InputError.of("output", "must end in .svg or .png")
    curves = tuple(crossover_curve(query, model, gpu) for query, model in asked)
    output.write_bytes(crossover_chart(curves, kind))


def _print_json(answers: Mapping[str, Any]) -> None:
    def plain(value: Any) -> Any:
        return value.model_dump(mode="json") if isinstance(value, BaseModel) else value

    shown = {
        name: [plain(v) for v in value] if isinstance(value, list) else plain(value)
        for name, value in answers.items()
    }
    print(json.dumps(next(iter(shown.values())) if len(shown) == 1 else shown, indent=2))


def _run(answer: Callable[[Services], Any]) -> None:
    async def inside() -> int:
        async with open_services(Settings.from_environment()) as services:
            code: int = await answer(services)
            return code

    try:
        code = asyncio.run(inside())
    except ValidationError as error:
        for fault in error.errors(include_url=False, include_input=False):
            _complain(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}")
        code = BAD_INPUT
    except KvmathError as error:
        _complain(error.detail)
        code = HUB_TROUBLE if isinstance(error, AccessDenied | HubError) else BAD_INPUT
    raise typer.Exit(code)


def _complain(text: str) -> None:
    print(f"kvmath: {text}", file=sys.stderr)


def main() -> None:
    """Entry point; a first word that is no command is the model of `size`."""
    words = sys.argv[1:]
    commands = {"size", "crossover", "plan", "catalogue"}
    if words and words[0] not in commands and not words[0].startswith("-"):
        sys.argv.insert(1, "size")
    app()
