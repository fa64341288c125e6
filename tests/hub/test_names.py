import pytest

from app.errors import InputError
from app.hub.names import (
    check_filename,
    check_repo_id,
    check_revision,
    info_url,
    repo_id_in_path,
    resolve_url,
)


@pytest.mark.parametrize("repo_id", ["gpt2", "org/name", "a/b.c_d-e", "A/1", "x" * 96])
def test_names_that_the_hub_could_hold(repo_id: str) -> None:
    assert check_repo_id(repo_id) == repo_id


@pytest.mark.parametrize(
    "repo_id",
    [
        "",
        "x" * 97,
        "x" * 300,
        "a/b/c",
        "a/",
        "/a",
        "..",
        "a/..",
        "a..b",
        "a--b",
        "-a",
        "a-",
        ".a",
        "a.",
        "org/-a",
        "org-/a",
        "a.git",
        "a b",
        "a\nb",
        "a\n",
        "a%2Fb",
        "https://evil.example/x",
        "a@b",
        "a?b",
        "a#b",
        "ä",
        "a\x00",
    ],
)
def test_names_that_never_reach_a_url(repo_id: str) -> None:
    with pytest.raises(InputError) as caught:
        check_repo_id(repo_id)
    assert caught.value.errors[0].loc == ("model",)


@pytest.mark.parametrize("revision", ["main", "v1.0", "refs/pr/1", "0" * 40, "feature/x@2"])
def test_revisions(revision: str) -> None:
    assert check_revision(revision) == revision


@pytest.mark.parametrize(
    "revision", ["", "..", "a/../b", "/a", "-x", "a b", "a\n", "a//b", "x" * 256]
)
def test_revisions_refused(revision: str) -> None:
    with pytest.raises(InputError):
        check_revision(revision)


@pytest.mark.parametrize("name", ["a.gguf", "q4/a-00001-of-00002.gguf", "Model (1).gguf"])
def test_filenames(name: str) -> None:
    assert check_filename(name) == name


@pytest.mark.parametrize(
    "name", ["", "/etc/passwd", "../a", "a/../b", "a//b", "./a", "a\\b", "a?b"]
)
def test_filenames_refused(name: str) -> None:
    with pytest.raises(InputError):
        check_filename(name)


def test_a_revision_is_one_segment_of_the_path() -> None:
    assert resolve_url("https://h", "o/n", "refs/pr/1", "d/f 1.json") == (
        "https://h/o/n/resolve/refs%2Fpr%2F1/d/f%201.json"
    )
    assert info_url("https://h", "o/n", "a/b") == "https://h/api/models/o/n/revision/a%2Fb"


@pytest.mark.parametrize(
    ("path", "repo_id"),
    [
        ("/o/n/resolve/main/config.json", "o/n"),
        ("/gpt2/resolve/main/config.json", "gpt2"),
        (f"/api/resolve-cache/models/o/n/{'a' * 40}/config.json", "o/n"),
        ("/api/models/o/n/revision/main", "o/n"),
        ("/login", None),
        ("/../x/resolve/main/config.json", None),
    ],
)
def test_the_repository_that_a_path_speaks_of(path: str, repo_id: str | None) -> None:
    assert repo_id_in_path(path) == repo_id
