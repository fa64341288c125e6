"""How exact we are: `python -m tests.truth.report`, or `make truth`.

Runs everything in `../shared/truth`, prints it by family, and writes `docs/accuracy.md` and
`accuracy.json`, the figures that later runs are held against. With `--check` nothing is written,
and a figure worse than the committed one fails. `--misses` prints each miss.
"""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

from tests.truth import budgets, checkpoint_bytes, engine_cache, log_reading, parameter_counts
from tests.truth.outcomes import GOOD, Outcome, Tally
from tests.truth.shared import ROOT, TRUTH

BUDGETS = "budgets"
ACCURACY = Path(__file__).with_name("accuracy.json")
DOCUMENT = ROOT / "docs" / "accuracy.md"

QUANTITIES: dict[str, Callable[[], Tally]] = {
    "engine_cache": engine_cache.tally,
    "parameters": parameter_counts.tally_totals,
    "parameter_parts": parameter_counts.tally_parts,
    "checkpoint_bytes": checkpoint_bytes.tally,
    "log_reading": log_reading.tally,
}
"""What is measured; a further quantity is one more entry."""

INTRODUCTION = """# Accuracy

How our answers stand to figures that others computed or measured. `make truth` writes this page
from the collection beside the repository; `.ci/run` fails when a figure gets worse.

- **exact**: every figure of the record is equal (bytes, blocks, tokens, concurrency; counts).
- **refused**: the engine refuses to start, and so do we.
- **within 1 %**: differing figures differ by less.
- **unknown**: there is an answer, and we refuse to give one.
- **accepted**: we answer where there is none.
"""


def table(tally: Tally) -> list[str]:
    """A Markdown table by family, all families last."""
    columns = [Outcome.EXACT, Outcome.REFUSED, *_bad(tally)]
    head = ["family", "records", *(outcome.value for outcome in columns)]
    rows = [[family, counts] for family, counts in sorted(tally.by_family.items())]
    rows.append(["**all**", tally.total])
    lines = [f"| {' | '.join(head)} |", f"| --- |{' ---: |' * (len(head) - 1)}"]
    for family, counts in rows:
        cells = [str(counts[outcome] or "") for outcome in columns]
        lines.append(f"| {family} | {sum(counts.values())} | {' | '.join(cells)} |")
    return lines


def _bad(tally: Tally) -> list[Outcome]:
    """Outcomes other than good ones; those of the whole even where there are none."""
    always = (Outcome.CLOSE, Outcome.WRONG)
    return [o for o in Outcome if o not in GOOD and (o in always or tally.total[o])]


def document(tallies: dict[str, Tally], measured: budgets.Measured) -> str:
    """The page."""
    parts = [INTRODUCTION]
    for tally in tallies.values():
        good = sum(tally.total[outcome] for outcome in GOOD)
        records = sum(tally.total.values())
        parts.append(f"## {tally.name}\n\n{good} of {records} records.\n")
        parts.append("\n".join(table(tally)) + "\n")
        if tally.misses:
            parts.append("Misses:\n")
            kept = [f"- {outcome.value}: {words}" for _, outcome, words in tally.misses]
            parts.append("\n".join(kept) + "\n")
    parts += budgets.document(measured)
    return "\n".join(parts)


def worse(tallies: dict[str, Tally], committed: dict[str, dict[str, dict[str, int]]]) -> list[str]:
    """Families whose count of good answers fell, in words."""
    found = []
    for name, before in committed.items():
        now = tallies[name].by_family if name in tallies else {}
        for family, counts in before.items():
            good = sum(counts.get(outcome.value, 0) for outcome in GOOD)
            ours = sum(now[family][outcome] for outcome in GOOD) if family in now else 0
            if ours < good:
                found.append(f"{name} of {family}: {ours} good answers, {good} before")
    return found


def _say(*lines: str) -> None:
    sys.stdout.writelines(line + "\n" for line in lines)


def main() -> int:
    """Run, print, write or check; the exit status is 1 where a figure is worse."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, fail where worse")
    parser.add_argument("--misses", action="store_true", help="print each miss")
    options = parser.parse_args()
    if not TRUTH.exists():
        _say(f"no collection of truths at {TRUTH.relative_to(ROOT.parent)}: nothing to hold")
        return 0
    tallies = {name: run() for name, run in QUANTITIES.items()}
    measured = budgets.measure()
    errors = budgets.figures(measured)
    for tally in tallies.values():
        _say("", tally.name, *table(tally))
        if options.misses:
            _say(*(f"{outcome.value}: {words}" for _, outcome, words in tally.misses))
    _say("", *budgets.document(measured))
    committed = json.loads(ACCURACY.read_text(encoding="utf-8")) if ACCURACY.exists() else {}
    before = committed.pop(BUDGETS, {})
    fallen = [*worse(tallies, committed), *budgets.worse(errors, before)]
    _say(*(f"worse: {line}" for line in fallen))
    if not options.check and not fallen:
        figures = {name: tally.as_json() for name, tally in tallies.items()}
        kept = {**figures, BUDGETS: errors}
        ACCURACY.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        DOCUMENT.write_text(document(tallies, measured), encoding="utf-8")
    return 1 if fallen else 0


if __name__ == "__main__":
    sys.exit(main())
