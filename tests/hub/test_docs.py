"""docs/hub.md says what a caller sees in each fault: here it is seen."""

import re
from pathlib import Path

import pytest

from app.errors import KvmathError
from app.problems import kind_of
from tests.fake_hub import FakeHub, Fault, safetensors_bytes
from tests.hub.conftest import LLAMA, MakeClient

TEXT = (Path(__file__).parents[2] / "docs" / "hub.md").read_text()
ROWS = {
    cells[0]: cells[1:]
    for line in TEXT.split("## What a caller sees in each fault")[1].split("## ")[0].splitlines()
    if len(cells := [cell.strip() for cell in line.strip("|").split("|")]) == 4
}
ENDLESS = (Fault.SLOW_BODY, Fault.SILENT, Fault.SLOW_HEAD, Fault.INTERIM)


def test_every_fault_has_its_row() -> None:
    assert {fault.value for fault in Fault} == set(ROWS) - {"fault", "---"}


@pytest.mark.parametrize("fault", list(Fault), ids=lambda fault: fault.name)
async def test_a_fault_looks_as_documented(
    hub: FakeHub, make_client: MakeClient, fault: Fault
) -> None:
    status, retry_after, _ = ROWS[fault.value]
    weights = safetensors_bytes({"a": ("BF16", [1], 2)})
    hub.add("org/model", {"config.json": LLAMA, "model.safetensors": weights})
    ranged = fault in (Fault.IGNORED_RANGE, Fault.WRONG_RANGE)
    hub.fault(r"model\.safetensors$" if ranged else r"config\.json", fault)
    # Only what never ends is given little time: no other fault may depend on the machine's speed.
    seconds = 0.3 if fault in ENDLESS else 30.0
    client = make_client(timeout_s=seconds, header_timeout_s=seconds)
    seen, waits = 200, False
    try:
        files = await client.fetch_model("org/model")
        if ranged:
            await client.fetch_weights(files)
    except KvmathError as error:
        seen, waits = kind_of(error).status, bool(error.retry_after)
    assert seen == int(status)
    assert waits == bool(re.match("yes", retry_after))
