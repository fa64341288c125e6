"""How an answer of ours stands to a true one, and tallies of that by family."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

WITHIN = 0.01


class Outcome(StrEnum):
    """One answer held against the truth."""

    EXACT = "exact"
    REFUSED = "refused"
    """Both refuse."""
    CLOSE = "within 1 %"
    WRONG = "wrong"
    UNKNOWN = "unknown"
    """We refuse what has an answer: an architecture not known, a run that would start."""
    ACCEPTED = "accepted"
    """We answer what is refused."""


GOOD = (Outcome.EXACT, Outcome.REFUSED)


def compare(ours: Mapping[str, float], truth: Mapping[str, float]) -> tuple[Outcome, list[str]]:
    """The outcome over all figures of `truth`, and the differing ones in words."""
    differing = [name for name in truth if ours.get(name) != truth[name]]
    words = [f"{name} {ours.get(name)} for {truth[name]}" for name in differing]
    if not differing:
        return Outcome.EXACT, words
    close = all(
        name in ours and abs(ours[name] - truth[name]) <= WITHIN * abs(truth[name])
        for name in differing
    )
    return Outcome.CLOSE if close else Outcome.WRONG, words


@dataclass
class Tally:
    """Outcomes of one quantity by family, and what went wrong."""

    name: str
    by_family: dict[str, Counter[Outcome]] = field(default_factory=dict)
    misses: list[tuple[str, Outcome, str]] = field(default_factory=list)

    def add(self, family: str, outcome: Outcome, what: str, words: Iterable[str] = ()) -> None:
        """Count one answer."""
        self.by_family.setdefault(family, Counter())[outcome] += 1
        if outcome not in GOOD:
            self.misses.append((family, outcome, f"{what}: {'; '.join(words)}"))

    @property
    def total(self) -> Counter[Outcome]:
        """Over all families."""
        return sum(self.by_family.values(), Counter())

    def as_json(self) -> dict[str, dict[str, int]]:
        """By family, for the file that later runs are held against."""
        return {
            family: {outcome.value: count for outcome, count in sorted(counts.items())}
            for family, counts in sorted(self.by_family.items())
        }
