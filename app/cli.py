"""`kvmath`: the calculator on the command line; `app.commands` does the work.

Exit codes: 0 fits, 1 does not fit or fewer than `batch` do, 2 bad input, 3 hub trouble. Of several
contexts the first decides.
"""

import sys
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from app import __version__

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="KV cache arithmetic: what a model's cache and weights take, and how much of it fits.",
    epilog="Exit codes: 0 fits, 1 does not fit or fewer than `batch` do, 2 bad input or output, "
    "3 hub trouble. Of several contexts the first decides.",
)

Model = Annotated[
    str, typer.Argument(help="Hub id, catalogue alias, local folder, or a config.json file.")
]
Gpu = Annotated[str | None, typer.Option(help="GPU of the catalogue, such as h100 or 4090.")]
Context = Annotated[list[int] | None, typer.Option(help="Tokens per sequence; may repeat.")]
TensorParallel = Annotated[int, typer.Option("--tensor-parallel-size", "--tp")]
CacheDtype = Annotated[str, typer.Option(help="auto, bfloat16, fp8, ...")]
WeightBytes = Annotated[int | None, typer.Option(help="Total weight bytes, if you know better.")]
Engine = Annotated[str, typer.Option(help="formula, vllm, sglang, tensorrt-llm or llama.cpp.")]
More = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Any field of the request by its own name, such as engine_version=0.19 or "
        "gpu_memory_utilization=0.95; may repeat.",
    ),
]
Revision = Annotated[str | None, typer.Option(help="Branch, tag or commit.")]
Source = Annotated[str, typer.Option(help="any, or hub to go past the catalogue.")]
AsJson = Annotated[bool, typer.Option("--json", help="The answer as the service gives it.")]
Explain = Annotated[bool, typer.Option(help="Show the arithmetic.")]


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"kvmath {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print and stop.")
    ] = False,
) -> None:
    """What stands before any command."""


def _commands() -> ModuleType:
    from app import commands  # noqa: PLC0415 -- so that --help need not wait for the core

    return commands


def _named(more: list[str] | None) -> dict[str, str]:
    """Fields given as NAME=VALUE; what they may be is the request's own to say."""
    pairs = [word.partition("=") for word in more or []]
    for name, equals, _ in pairs:
        if not name or not equals:
            raise typer.BadParameter("write NAME=VALUE", param_hint="--set")
    return {name: value for name, _, value in pairs}


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
    more: More = None,
    as_json: AsJson = False,
    explain: Explain = False,
) -> None:
    """Parameters, weights, KV per token and per sequence, and what fits (the default command)."""
    fields = {
        "revision": revision,
        "source": source,
        "gpu": gpu,
        "tensor_parallel_size": tensor_parallel_size,
        "kv_cache_dtype": kv_cache_dtype,
        "weight_bytes": weight_bytes,
        "engine": engine,
        "contexts": context or [],
        "explain": explain,
    }
    raise typer.Exit(_commands().size(model, fields | _named(more), as_json=as_json))


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
    more: More = None,
    as_json: AsJson = False,
    explain: Explain = False,
) -> None:
    """Where reading the KV cache costs as much as reading the weights."""
    fields = {
        "gpu": gpu,
        "contexts": context or [],
        "batches": batch or [],
        "tensor_parallel_size": tensor_parallel_size,
        "kv_cache_dtype": kv_cache_dtype,
        "weight_bytes": weight_bytes,
        "explain": explain,
    }
    raise typer.Exit(
        _commands().crossover(model, fields | _named(more), output=output, as_json=as_json)
    )


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
    engine: Engine = "formula",
    efficiency: Annotated[float, typer.Option()] = 0.70,
    spike_headroom: Annotated[float, typer.Option()] = 0.30,
    spare_nodes: Annotated[int, typer.Option()] = 1,
    more: More = None,
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
        "engine": engine,
        "efficiency": efficiency,
        "spike_headroom": spike_headroom,
        "spare_nodes": spare_nodes,
    }
    raise typer.Exit(_commands().plan(model, fields | _named(more), as_json=as_json))


@app.command()
def verify(
    file: Annotated[Path, typer.Argument(help="A startup log; - for standard input.")],
    model: Annotated[
        str | None, typer.Option(help="As for the other commands, where the log names none.")
    ] = None,
    gpu: Gpu = None,
    engine_version: Annotated[str | None, typer.Option(help="Where the log states none.")] = None,
    tensor_parallel_size: Annotated[
        int | None, typer.Option("--tensor-parallel-size", "--tp", help="In place of the log's.")
    ] = None,
    context: Annotated[int | None, typer.Option(help="Tokens per sequence.")] = None,
    max_num_seqs: Annotated[int | None, typer.Option()] = None,
    max_num_batched_tokens: Annotated[int | None, typer.Option()] = None,
    gpu_memory_utilization: Annotated[float | None, typer.Option()] = None,
    kv_cache_dtype: Annotated[str | None, typer.Option(help="auto, bfloat16, fp8, ...")] = None,
    revision: Revision = None,
    as_json: AsJson = False,
    explain: Explain = False,
) -> None:
    """What an engine's startup log shows, against what was to be expected, and why they differ."""
    fields = {
        "gpu": gpu,
        "engine_version": engine_version,
        "tensor_parallel_size": tensor_parallel_size,
        "context": context,
        "max_num_seqs": max_num_seqs,
        "max_num_batched_tokens": max_num_batched_tokens,
        "gpu_memory_utilization": gpu_memory_utilization,
        "kv_cache_dtype": kv_cache_dtype,
        "revision": revision,
        "explain": explain,
    }
    raise typer.Exit(_commands().verify(file, model, fields, as_json=as_json))


@app.command()
def catalogue(
    check: Annotated[bool, typer.Option(help="Compare with the hub; exit 1 on a change.")] = False,
    entry: Annotated[
        str | None,
        typer.Option(metavar="ORG/NAME", help="A new entry from the files on the hub, as JSON."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """The quick reference table, or a comparison of the shipped facts with the hub."""
    if entry is not None:
        raise typer.Exit(_commands().new_entry(entry))
    raise typer.Exit(_commands().catalogue(check=check, as_json=as_json))


def main() -> None:
    """Entry point; where no command is named, it is `size`."""
    words = sys.argv[1:]
    alone = {"size", "crossover", "plan", "verify", "catalogue", "--help", "--version"}
    if words and words[0] not in alone:
        sys.argv.insert(1, "size")
    app()
