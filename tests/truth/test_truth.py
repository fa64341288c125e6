"""The whole collection, where it lies beside the repository; else nothing of this file is run."""

import json

import pytest

from tests.truth import budgets
from tests.truth.report import ACCURACY, BUDGETS, QUANTITIES, worse
from tests.truth.shared import TRUTH

HELD = sorted(QUANTITIES) if TRUTH.exists() else []


@pytest.mark.parametrize("quantity", HELD)
def test_no_figure_is_worse_than_the_committed_one(quantity: str) -> None:
    committed = json.loads(ACCURACY.read_text(encoding="utf-8"))
    assert worse({quantity: QUANTITIES[quantity]()}, {quantity: committed[quantity]}) == []


def test_no_budget_is_worse_than_the_committed_ones() -> None:
    committed = json.loads(ACCURACY.read_text(encoding="utf-8"))[BUDGETS]
    assert budgets.worse(budgets.figures(budgets.measure()), committed) == []


def test_budgets_reach_their_targets() -> None:
    rows = budgets.figures(budgets.measure())
    assert rows["weights, all"]["median"] <= 0.001
    assert rows["KV memory, H100"]["median"] <= 0.01
    assert rows["KV memory, other discrete"]["median"] <= 0.02
    memory = rows["KV memory, all"]
    assert memory["in_band"] >= 0.9 * memory["records"]
    assert memory["too_high"] < 0.1 * memory["records"]
    for kind in ("0.20 and newer", "older, plain and MLA"):
        layouts = rows[f"tokens and concurrency, {kind}"]
        assert layouts["exact"] >= layouts["records"] - 1, kind
