"""The whole collection, where it lies beside the repository; else nothing of this file is run."""

import json

import pytest

from tests.truth.report import ACCURACY, QUANTITIES, worse
from tests.truth.shared import TRUTH

HELD = sorted(QUANTITIES) if TRUTH.exists() else []


@pytest.mark.parametrize("quantity", HELD)
def test_no_figure_is_worse_than_the_committed_one(quantity: str) -> None:
    committed = json.loads(ACCURACY.read_text(encoding="utf-8"))
    assert worse({quantity: QUANTITIES[quantity]()}, {quantity: committed[quantity]}) == []
