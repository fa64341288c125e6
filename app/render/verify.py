"""A startup log's explanation for people, on a terminal."""

from rich.console import Console
from rich.table import Table

from app.render.tables import new_console, new_table, print_steps
from app.schemas.verify import Split, VerifyAnswer, VerifyRow

GIB = 2**30
ENGINES = {"vllm": "vLLM", "sglang": "SGLang", "tensorrt-llm": "TensorRT-LLM"}
NAMES = {
    "gpu_memory": "memory of the GPU",
    "unrequested": "left alone by the engine",
    "weights": "weights",
    "activation": "activation peak",
    "non_torch": "outside the allocator",
    "cuda_graphs": "CUDA graphs",
    "kv_pool": "memory for the cache",
    "kv_cache_tokens": "tokens",
    "num_blocks": "blocks",
    "max_concurrency": "sequences at once",
    "kv_cache_tokens_of_logged_memory": "tokens, from the logged memory",
    "num_blocks_of_logged_memory": "blocks, from the logged memory",
    "max_concurrency_of_logged_memory": "sequences, from the logged memory",
    "gib_against_gb": "GiB against GB",
    "version_rule": "the engine's share",
    "block_rounding_of_the_pool": "rest of the last block",
    "padding_layers": "padding of layers and pages",
    "block_rounding": "blocks not full",
    "replicated_heads": "replicated heads",
    "not_printed": "not printed",
    "unexplained": "unexplained",
}


def print_verify(found: VerifyAnswer) -> None:
    """What the log shows, figure by figure."""
    out = new_console()
    out.print(_title(found))
    for sentence in found.summary:
        out.print(sentence)
    out.print(_figures(found.table))
    if found.kv_pool is not None and any(part.bytes for part in found.kv_pool.parts):
        _print_split(out, found.kv_pool, "predicted memory for the cache", "in the log")
    if found.from_formula is not None:
        out.print("From the calculator (memory - weights - 2 GB - 2 GB) to what holds tokens:")
        _print_split(out, found.from_formula, "by the formula", "bytes of tokens")
    if found.sequences is not None:
        out.print(f"Blocks as sequences: {found.sequences.working}.")
    for refuted in found.refuted:
        out.print(f"The log refutes: {refuted.assumption}. It has {refuted.log}.")
    for heading, lines in (
        ("Mind:", found.warnings),
        ("Not in the log:", found.missing),
        ("Assumed:", found.assumptions),
    ):
        if lines:
            out.print(heading)
        for line in lines:
            out.print(f"  - {line}")
    if found.steps:
        print_steps(out, found.steps)


def _title(found: VerifyAnswer) -> str:
    read = found.read
    engine = ENGINES.get(read.engine, read.engine)
    version = f" {read.engine_version}" if read.engine_version else ""
    model = read.settings.model or "a model that is not named"
    if found.model is not None:
        model = found.model.id or found.model.architecture
    gpu = f" on {found.gpu.name}" if found.gpu is not None else ""
    ranks = read.settings.tensor_parallel_size or 1
    return f"{engine}{version}: {model}{gpu}" + (f", TP {ranks}" if ranks > 1 else "")


def _figures(rows: list[VerifyRow]) -> Table:
    figures = new_table("", "predicted", "in the log", "difference")
    for row in rows:
        gap = row.difference
        same = gap is not None and abs(gap) <= row.rounding
        figures.add_row(
            NAMES.get(row.quantity, row.quantity),
            _number(row.predicted, row.unit),
            _number(row.measured, row.unit),
            "none" if same else _number(gap, row.unit, signed=True),
        )
    return figures


def _number(value: float | None, unit: str, *, signed: bool = False) -> str:
    if value is None:
        return "-"
    sign = "+" if signed else ""
    if unit == "bytes":
        return f"{value / GIB:{sign},.2f} GiB"
    if unit == "sequences":
        return f"{value:{sign},.2f}"
    return f"{value:{sign},.0f}"


def _print_split(out: Console, split: Split, begin: str, end: str) -> None:
    walk = new_table("", "GiB", "")
    walk.columns[-1].justify = "left"
    walk.columns[-1].no_wrap = False
    walk.add_row(begin, f"{split.from_bytes / GIB:,.3f}", "")
    for part in split.parts:
        if part.bytes:
            walk.add_row(NAMES.get(part.part, part.part), f"{part.bytes / GIB:+,.3f}", part.reason)
    walk.add_row(end, f"{split.to_bytes / GIB:,.3f}", "")
    out.print(walk)
