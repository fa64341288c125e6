"""Answers as tables for people, on a terminal."""

import sys

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table

from app.answers.models import reference_table
from app.answers.steps import n
from app.catalog.models import model_catalogue
from app.schemas.answer import Answer, Step
from app.schemas.concurrency import ConcurrencyAnswer
from app.schemas.crossover import CrossoverAnswer
from app.schemas.kv import KvAnswer
from app.schemas.plan import PlanAnswer

GIB, GB, MIB, KIB = 2**30, 10**9, 2**20, 2**10
_WORDS, _WIDE = 16, 10_000


def binary(size: float) -> str:
    """Bytes for people in the binary unit that suits."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size >= unit:
            return f"{size / unit:,.3f} {name}"
    return f"{size:,} B"


def decimal_gb(size: float) -> str:
    """Bytes for people in decimal GB, as weights and GPUs are sold."""
    return f"{size / GB:,.2f} GB"


def print_size(kv: KvAnswer, fit: ConcurrencyAnswer | None) -> None:
    """The calculator of exercise A."""
    console = new_console()
    console.print(_title(kv))
    facts = new_table("", "")
    counts = kv.parameters
    active = "" if counts.active == counts.total else f" ({counts.active:,} active)"
    facts.add_row("parameters", f"{counts.total:,}{active}")
    facts.add_row("weights, as loaded", f"{kv.weight_bytes:,} B = {decimal_gb(kv.weight_bytes)}")
    for name, size in kv.weight_bytes_by_dtype.items():
        facts.add_row(f"all weights in {name}", decimal_gb(size))
    per_token = kv.kv_bytes_per_token
    facts.add_row(f"KV per token ({kv.kv_cache_dtype})", f"{per_token:,} B = {binary(per_token)}")
    if kv.per_gpu.kv_bytes_per_token != per_token:
        facts.add_row("KV per token and GPU", f"{kv.per_gpu.kv_bytes_per_token:,} B")
    if kv.state_bytes_per_sequence:
        facts.add_row("state per sequence", f"{kv.state_bytes_per_sequence:,} B")
    if fit is not None:
        facts.add_row("KV budget per GPU", decimal_gb(fit.kv_budget_bytes))
        _add_engine_rows(facts, fit)
    console.print(facts)
    console.print(
        "All weights in a format: every parameter in it. A checkpoint of that quantisation keeps some "
        "parts wider; see what it takes with --set quantization=fp8 (awq, ...)."
    )
    console.print(_contexts(kv, fit))
    if fit is not None and too_few(kv, fit):
        _print_advice(console, kv, fit)
    _print_rest(console, fit or kv)


def _add_engine_rows(facts: Table, fit: ConcurrencyAnswer) -> None:
    """What an engine prints at its start, and how sure that is."""
    band = fit.kv_budget_band_bytes
    if band is not None:
        facts.add_row("nine starts of ten", f"{decimal_gb(band.low)} to {decimal_gb(band.high)}")
    if fit.num_blocks is None:
        return
    facts.add_row("blocks", f"{fit.num_blocks:,} of {fit.block_size} tokens")
    facts.add_row(f"tokens at {fit.context:,}", f"{fit.kv_cache_tokens:,}")
    if fit.max_concurrency_exact is not None:
        facts.add_row(f"concurrency at {fit.context:,}", f"{fit.max_concurrency_exact:,.2f}x")


def _contexts(kv: KvAnswer, fit: ConcurrencyAnswer | None) -> Table:
    columns = ["context", "KV per sequence", "per GPU"]
    table = new_table(*columns, *(["max concurrency"] if fit is not None else []))
    found = {} if fit is None else {row.context: row for row in fit.by_context}
    for row in kv.by_context:
        cells = [
            f"{row.context:,}",
            binary(row.kv_bytes_per_sequence),
            binary(row.per_gpu_kv_bytes_per_sequence),
        ]
        if row.context in found:
            most = found[row.context].max_concurrency
            cells.append("no limit" if most is None else f"{most:,}")
        table.add_row(*cells)
    return table


def too_few(kv: KvAnswer, fit: ConcurrencyAnswer) -> bool:
    """Whether fewer sequences fit than were asked for (`batch`), or none at all."""
    held = fit.max_concurrency
    return not fit.fits or (held is not None and held < kv.batch)


def _print_advice(console: Console, kv: KvAnswer, fit: ConcurrencyAnswer) -> None:
    wanted = f": {fit.max_concurrency:,} of {kv.batch:,} sequences" if kv.batch > 1 else ""
    console.print(f"Does not fit{wanted}; limited by {fit.limited_by}.")
    for advice in fit.advice:
        console.print(f"  - {advice.detail}")


def print_crossover(found: CrossoverAnswer) -> None:
    """The curve and the regimes of one model."""
    console = new_console()
    console.print(_title(found))
    slots = found.crossover_token_slots
    console.print(
        f"weights {decimal_gb(found.weight_bytes)} / {found.kv_bytes_per_token:,} B per token = "
        + ("never" if slots is None else f"{slots:,} token slots")
    )
    curve = new_table("batch", "crossover context")
    for at in found.by_batch:
        curve.add_row(f"{at.batch:,}", "never" if at.context is None else f"{at.context:,}")
    console.print(curve)
    table = new_table("regime", "batch", "context", "dominated by", "quantise", "weights", "KV")
    for regime in found.regimes:
        table.add_row(
            regime.name.replace("_", " "),
            f"{regime.batch:,}",
            f"{regime.context:,}",
            regime.dominated_by,
            regime.prioritise.removesuffix("_quantisation"),
            f"{regime.speedup.weight_quantisation:.2f}x",
            f"{regime.speedup.kv_quantisation:.2f}x",
        )
    console.print(table)
    _print_rest(console, found)


def print_plan(found: PlanAnswer) -> None:
    """The six steps and the answer."""
    console = new_console()
    console.print(_title(found))
    print_steps(console, found.steps)
    if found.nodes is None:
        console.print(f"No number of nodes serves this workload; limited by {found.limited_by}.")
    else:
        console.print(
            f"ANSWER: {found.nodes:,} nodes ({found.gpus:,} GPUs), limited by {found.limited_by}; "
            f"ITL {found.itl_ms:.1f} ms"
        )
    if found.alternatives:
        table = new_table("instead", "TP", "KV cache", "nodes", "GPUs", "ITL")
        for other in found.alternatives:
            table.add_row(
                other.gpu,
                str(other.tensor_parallel_size),
                other.kv_cache_dtype,
                f"{other.nodes:,}",
                f"{other.gpus:,}",
                f"{other.itl_ms:.1f} ms",
            )
        console.print(table)
    _print_assumptions(console, found)


def print_reference() -> None:
    """The quick reference table."""
    sizes = ("8k\nGiB", "32k\nGiB", "128k\nGiB")
    table = new_table("model", "params\n1e9", "weights\nGB", "KV/token\nB", *sizes)
    for row in reference_table(model_catalogue()).models:
        kept = (
            row.kv_bytes_per_sequence_8k,
            row.kv_bytes_per_sequence_32k,
            row.kv_bytes_per_sequence_128k,
        )
        table.add_row(
            row.id,
            f"{row.parameters / GB:,.2f}",
            f"{row.weight_bytes / GB:,.2f}",
            f"{row.kv_bytes_per_token:,}",
            *(f"{size / GIB:,.3f}" for size in kept),
        )
    new_console().print(table)


def new_console() -> Console:
    """Where tables go, without colours: the terminal, or as wide as they are."""
    return Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else _WIDE)


class _Figures(Table):
    """A table whose numbers are whole, on a terminal however narrow: its first column, of words,
    folds, and beyond that lines are longer than the terminal.
    """

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """As any table's, in as much width as the numbers need."""
        first, *others = (
            max(
                cell_len(line)
                for cell in (column.header, *column.cells)
                for line in str(cell).split("\n")
            )
            for column in self.columns
        )
        needed = min(first, _WORDS) + sum(others) + 2 * len(self.columns) + 1
        width = max(options.max_width, needed)
        return super().__rich_console__(console, options.update(max_width=width))


def new_table(*columns: str) -> Table:
    """An empty table: the first column of words, the others of numbers."""
    table = _Figures(box=box.SIMPLE, show_header=any(columns), pad_edge=False, padding=(0, 1, 0, 0))
    for index, column in enumerate(columns):
        words = index == 0
        table.add_column(
            column, justify="left" if words else "right", no_wrap=not words, overflow="fold"
        )
    return table


def _title(answer: Answer) -> str:
    name = answer.model.id or answer.model.architecture
    commit = f" @ {answer.model.revision[:12]}" if answer.model.revision else ""
    gpu = f" on {answer.gpu.name}" if answer.gpu is not None else ""
    return f"{name}{commit} ({answer.model.source}){gpu}"


def _print_rest(console: Console, answer: Answer) -> None:
    if answer.steps:
        print_steps(console, answer.steps)
    _print_assumptions(console, answer)


def print_steps(console: Console, steps: list[Step]) -> None:
    """Each step in two lines: the formula, and the numbers put in."""
    for line in steps:
        value = "none" if line.value is None else n(line.value)
        console.print(f"  {line.name} = {line.formula}")
        console.print(f"    = {line.substituted} = {value} {line.unit}")


def _print_assumptions(console: Console, answer: Answer) -> None:
    if answer.assumptions:
        console.print("Assumed:")
    for line in answer.assumptions:
        console.print(f"  - {line}")
