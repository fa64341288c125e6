"""Budgets predicted before the start, held against what the engines printed: errors, not counts.

Quantities: weights, activation peak, CUDA graphs and KV memory from nothing but model, device and
arguments; tokens and concurrency from the log's own KV memory. Where a log rounds, so do we.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from app.core.engines.vllm_arguments import H100
from app.core.engines.vllm_overhead import graph_estimate
from app.core.engines.vllm_rules import rules_for
from tests.truth.startup_logs import Start, records, start_of

GIB = 2**30
ROUNDING = 0.005
SAID_ROUNDING = 0.006
WORST = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class Error:
    """One prediction. `relative` is predicted over measured, less one."""

    start: Start
    predicted: float
    measured: float
    inside: bool | None = None

    @property
    def relative(self) -> float:
        """The error as a share."""
        return self.predicted / self.measured - 1

    @property
    def group(self) -> str:
        """The class of devices that the targets speak of."""
        gpu = self.start.gpu
        if gpu is None:
            return "device not stated"
        if gpu.unified_memory:
            return "unified memory"
        return "H100" if self.start.record["gpu_class"] == "H100" else "other discrete"


@dataclass
class Measured:
    """All errors by quantity, exact layouts, and logs left out with the reason."""

    errors: dict[str, list[Error]] = field(default_factory=dict)
    layouts: dict[str, list[tuple[Start, bool]]] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)

    def add(self, quantity: str, start: Start, predicted: float, measured: float | None) -> None:
        """Count a figure that the log has."""
        if measured is None or measured <= 0:
            return
        band = start.budget.band
        inside = None
        if quantity == "KV memory":
            inside = (
                band.low / GIB <= measured + ROUNDING and measured - ROUNDING <= band.high / GIB
            )
        error = Error(start=start, predicted=predicted, measured=measured, inside=inside)
        self.errors.setdefault(quantity, []).append(error)


def measure() -> Measured:
    """Every vLLM log there is a start for."""
    found = Measured()
    for record in records():
        start = start_of(record)
        if isinstance(start, str):
            found.left_out[start] = found.left_out.get(start, 0) + 1
            continue
        said, parts = start.measured, start.budget.parts
        if start.weights_known:
            found.add("weights", start, parts.weight_bytes / GIB, said["weights_gib"])
        found.add(
            "activation peak", start, parts.activation_bytes / GIB, said["activation_peak_gib"]
        )
        estimate = said.get("cuda_graph_estimated_gib")
        if estimate is not None and (record["pp"] or 1) == 1:
            graphs = graph_estimate(
                start.shape,
                start.plan.settings,
                start.gpu or H100,
                start.shape.num_hidden_layers,
            )
            found.add("CUDA graphs", start, graphs / GIB, estimate)
        known = start.weights_known and start.gpu is not None and start.version is not None
        if known and record.get("note", "") != "two servers on one GPU; started concurrent":
            found.add(
                "KV memory", start, start.budget.kv_budget_bytes / GIB, said["available_kv_gib"]
            )
        _layout(found, start)
    return found


def _layout(found: Measured, start: Start) -> None:
    """Tokens and concurrency from the log's own KV memory, exact to its rounding."""
    said = start.measured
    memory, tokens = said["available_kv_gib"], said["kv_tokens"]
    if memory is None or not tokens or start.version is None or (start.record["pp"] or 1) > 1:
        return
    plan, context = start.plan, start.plan.settings.max_model_len
    low = plan.capacity(int((memory - ROUNDING) * GIB), context)
    high = plan.capacity(int((memory + ROUNDING) * GIB), context)
    exact = low.kv_cache_tokens <= tokens <= high.kv_cache_tokens
    concurrency = said["max_concurrency"]
    if concurrency is not None:
        exact = exact and (
            low.max_concurrency - SAID_ROUNDING
            <= concurrency
            <= high.max_concurrency + SAID_ROUNDING
        )
    recent = plan.settings.rules.since >= rules_for("0.20").since
    plain = len(plan.groups) == 1
    kind = "0.20 and newer" if recent else "older, plain and MLA" if plain else "older, other"
    found.layouts.setdefault(kind, []).append((start, exact))


def quantile(values: Iterable[float], share: float) -> float:
    """The smallest value that at least `share` of them do not exceed."""
    ordered = sorted(values)
    return ordered[max(ceil(share * len(ordered)) - 1, 0)]


def figures(found: Measured) -> dict[str, dict[str, float]]:
    """What later runs are held against: medians and 90th percentiles of |error|, and coverage."""
    rows: dict[str, dict[str, float]] = {}
    for quantity, errors in found.errors.items():
        for group in ("all", *sorted({error.group for error in errors})):
            chosen = [e for e in errors if group in ("all", e.group)]
            sizes = [abs(e.relative) for e in chosen]
            row = {
                "records": len(chosen),
                "median": round(quantile(sizes, 0.5), 5),
                "p90": round(quantile(sizes, 0.9), 5),
            }
            banded = [e.inside for e in chosen if e.inside is not None]
            if banded:
                row["in_band"] = sum(banded)
                row["too_high"] = sum(e.relative > 0.02 for e in chosen)
            rows[f"{quantity}, {group}"] = row
    for kind, starts in found.layouts.items():
        rows[f"tokens and concurrency, {kind}"] = {
            "records": len(starts),
            "exact": sum(exact for _, exact in starts),
        }
    return rows


def worse(now: dict[str, dict[str, float]], before: dict[str, dict[str, float]]) -> list[str]:
    """Figures that got worse, in words."""
    found = []
    for name, committed in before.items():
        row = now.get(name)
        if row is None:
            found.append(f"{name}: not measured any more")
            continue
        found += [
            f"{name}: {key} {row.get(key, 1.0):g}, {committed[key]:g} before"
            for key in ("median", "p90", "too_high")
            if key in committed and row.get(key, 1.0) > committed[key]
        ]
        found += [
            f"{name}: {key} {row.get(key, 0):g}, {committed[key]:g} before"
            for key in ("exact", "in_band", "records")
            if key in committed and row.get(key, 0) < committed[key]
        ]
    return found


def halves(errors: list[Error]) -> list[tuple[str, list[float]]]:
    """Each half of the families with the constants that the other half would give: the median
    difference by version's rules, class of device and tensor parallelism is taken off.
    """
    families = sorted({error.start.shape.model_type for error in errors})
    first = set(families[::2])
    parted = [
        ("first half", [e for e in errors if e.start.shape.model_type in first]),
        ("second half", [e for e in errors if e.start.shape.model_type not in first]),
    ]
    found = []
    for (name, own), (_, other) in zip(parted, reversed(parted), strict=True):
        shifts: dict[tuple[Any, ...], list[float]] = {}
        for error in other:
            shifts.setdefault(_constants(error), []).append(error.predicted - error.measured)
        corrected = []
        for error in own:
            known = shifts.get(_constants(error))
            shift = quantile(known, 0.5) if known else 0.0
            corrected.append(abs((error.predicted - shift) / error.measured - 1))
        found.append((f"{name} ({len(own)} logs)", corrected))
    return found


def _constants(error: Error) -> tuple[Any, ...]:
    settings = error.start.plan.settings
    return settings.rules.since, error.group, settings.tensor_parallel_size > 1


SENTENCES: dict[str, str] = {
    "row-491e9f04f2": "ROCm on a 16 GB card: 0.8 GiB that our rules, read on CUDA, do not know of",
    "row-5a5a675542": "unified memory: 1.9 GiB outside the allocator where 3.3 are foreseen, the "
    "page cache among them",
    "row-2478eac836": "the engine puts its graphs at 0.10 GiB, we at 0.79; 2.9 GiB of unified memory "
    "outside the allocator where 3.3 are foreseen; 0.19 GiB of weights more",
    "vllm-10517-3090-29000": "0.35 GiB outside the allocator where 0.29 are foreseen",
    "vllm-10517-3090-20000": "0.35 GiB outside the allocator where 0.29 are foreseen",
    "vllm-13061-4090x2": "the tokens are those of the other rank, which has 7.46 GiB; the printed "
    "memory is the first's",
    "vllm-27508-gptoss120b-H100": "the log's build has Marlin's kernels for MXFP4 (weights 65.97 "
    "GiB elsewhere), ours are Triton's",
    "row-da1cc22ebc": "1.9 GiB on a full 24 GB card: 0.18 GiB are a tenth of it",
    "row-f2858e77f3": "the activation peak is that of V0, which 0.9.2 still had; what a process "
    "sees of an L4 is not in the catalogue",
    "row-577c304d92": "5 GiB left beside 68 of weights: 0.2 GiB are 4 %; int8 inputs take more "
    "than we count",
    "row-99814b4422": "expert parallelism over eight ranks: all-to-all buffers outside torch",
}
"""Why the worst are what they are."""


def document(found: Measured) -> list[str]:
    """The page's section."""
    lines = [
        "## Budgets before the start\n",
        "vLLM's startup logs against predictions from nothing but model, device and arguments. "
        "Errors are of the size, without sign; `in band` counts logs inside "
        "`kv_budget_band_bytes`, `too high` promises of more than 2 % too much.\n",
        "| quantity | logs | median | 90th percentile | in band | too high |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, row in figures(found).items():
        if "median" in row:
            said = [f"{row[key]:.0f}" if key in row else "" for key in ("in_band", "too_high")]
            lines.append(
                f"| {name} | {row['records']} | {row['median']:.2%} | {row['p90']:.2%} | "
                f"{said[0]} | {said[1]} |"
            )
    memory = found.errors.get("KV memory", [])
    lines += ["", "KV memory with the additive constants of the other half of the families:\n"]
    lines += ["| half | median | 90th percentile |", "| --- | ---: | ---: |"]
    lines += [
        f"| {name} | {quantile(sizes, 0.5):.2%} | {quantile(sizes, 0.9):.2%} |"
        for name, sizes in halves(memory)
    ]
    lines += ["", *_by("version", memory, lambda e: e.start.version or "not stated")]
    lines += ["", *_by("device", memory, lambda e: e.start.record["gpu_class"])]
    lines += ["", "Tokens and concurrency from the log's own KV memory, to its rounding:\n"]
    lines += ["| version and layout | logs | exact |", "| --- | ---: | ---: |"]
    for kind, starts in found.layouts.items():
        lines.append(f"| {kind} | {len(starts)} | {sum(exact for _, exact in starts)} |")
    lines += [
        f"\nNot exact: {start.what}; {SENTENCES.get(start.record['id'], '')}"
        for starts in found.layouts.values()
        for start, exact in starts
        if not exact
    ]
    lines += ["", f"The worst {WORST} predictions of KV memory:\n"]
    for error in sorted(memory, key=lambda e: -abs(e.relative))[:WORST]:
        why = SENTENCES.get(error.start.record["id"], "")
        lines.append(
            f"- {error.start.what}: {error.predicted:.2f} GiB for {error.measured:g} "
            f"({error.relative:+.1%}){'; ' + why if why else ''}"
        )
    lines += ["", "Logs left out:\n"]
    lines += [f"- {count}: {reason}" for reason, count in sorted(found.left_out.items())]
    return [*lines, ""]


def _by(name: str, errors: list[Error], key: Callable[[Error], str]) -> list[str]:
    lines = [f"| {name} | logs | median | 90th percentile |", "| --- | ---: | ---: | ---: |"]
    for value in sorted({key(error) for error in errors}):
        sizes = [abs(e.relative) for e in errors if key(e) == value]
        lines.append(
            f"| {value} | {len(sizes)} | {quantile(sizes, 0.5):.2%} | {quantile(sizes, 0.9):.2%} |"
        )
    return lines
