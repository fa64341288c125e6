from pathlib import Path

import pytest

from tests.cli.verify_docs import PAGE, page


def test_the_examples_are_what_the_command_prints(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    assert page() == PAGE.read_text(encoding="utf-8"), "run python -m tests.cli.verify_docs"
