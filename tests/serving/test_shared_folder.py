"""The folder of several workers' numbers: it lasts as long as somebody holds it, and no longer."""

from pathlib import Path

import pytest

from app.edge.shared_folder import SharedFolder
from tests.running.process import files_in


@pytest.fixture(autouse=True)
def temporary(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_the_last_to_leave_removes_it(temporary: Path):
    parent = SharedFolder.new()
    workers = [SharedFolder(parent.path) for _ in range(2)]
    (Path(parent.path) / "counter_1.db").write_bytes(b"1")
    parent.leave()
    workers[0].leave()
    assert files_in(Path(parent.path)) != []
    workers[1].leave()
    assert files_in(temporary) == []


def test_one_that_was_left_behind_goes_at_the_next_start_and_one_in_use_stays(temporary: Path):
    """Killed outright, a process lets go of its lock and of nothing else."""
    used = SharedFolder.new()
    left = temporary / "kvmath-metrics-left"
    left.mkdir()
    (left / "counter_1.db").write_bytes(b"1")
    other = temporary / "others"
    other.mkdir()
    (temporary / "kvmath-metrics-link").symlink_to(other)
    new = SharedFolder.new()
    assert {each.name for each in files_in(temporary)} == {
        Path(used.path).name,
        Path(new.path).name,
        "others",
        "kvmath-metrics-link",
    }


def test_a_folder_of_somebody_else_is_not_removed(temporary: Path):
    own = temporary / "of-the-operator"
    own.mkdir()
    SharedFolder(str(own)).leave()
    assert own.is_dir()


def test_no_folder_for_temporary_files(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tempfile.tempdir", "/nowhere")
    with pytest.raises(OSError, match="/nowhere"):
        SharedFolder.new()
