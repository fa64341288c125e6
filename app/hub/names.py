"""Names from outside: checked before a URL or a path is built from them (the SSRF line)."""

import re
from urllib.parse import quote

from app.errors import InputError

MAX_REPO_ID = 96
MAX_REVISION = 255
MAX_FILENAME = 512

_SEGMENT = re.compile(r"[A-Za-z0-9._-]+")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/+@-]*")
_FILENAME = re.compile(r"[A-Za-z0-9._+@=,() -]+(?:/[A-Za-z0-9._+@=,() -]+)*")


def check_repo_id(repo_id: str) -> str:
    """`repo_id` as it came, if it is a name the hub could hold.

    Raises:
        InputError: at `model`, naming the rule.
    """
    return _checked("model", repo_id_fault(repo_id), repo_id)


def check_revision(revision: str) -> str:
    """`revision` (branch, tag, commit or `refs/pr/N`) as it came.

    Raises:
        InputError: at `revision`.
    """
    return _checked("revision", _revision_fault(revision), revision)


def check_filename(filename: str) -> str:
    """A path inside a repository, as it came: relative, without `..`.

    Raises:
        InputError: at `file`.
    """
    return _checked("file", filename_fault(filename), filename)


def repo_id_fault(repo_id: str) -> str | None:
    """The rule that `repo_id` breaks, or None (the hub's own rules for names)."""
    if not 1 <= len(repo_id) <= MAX_REPO_ID:
        return f"must have 1 to {MAX_REPO_ID} characters"
    if repo_id.count("/") > 1:
        return "must be 'name' or 'org/name'"
    segments = repo_id.split("/")
    if not all(_SEGMENT.fullmatch(segment) for segment in segments):
        return "may hold letters, digits, '.', '_' and '-', and one '/' between org and name"
    if any(segment[0] in "-." or segment[-1] in "-." for segment in segments):
        return "must not begin or end with '-' or '.'"
    if "--" in repo_id or ".." in repo_id:
        return "must not contain '--' or '..'"
    if repo_id.endswith(".git"):
        return "must not end with '.git'"
    return None


def is_commit(revision: str) -> bool:
    """True for a full commit hash: the only revision that never moves."""
    return _COMMIT.fullmatch(revision) is not None


def resolve_url(endpoint: str, repo_id: str, revision: str, filename: str) -> str:
    """The address of a file of a model; the three names must have been checked."""
    return f"{endpoint}/{repo_id}/resolve/{quote(revision, safe='')}/{quote(filename)}"


def info_url(endpoint: str, repo_id: str, revision: str) -> str:
    """The address of what the hub says about a model at a revision."""
    return f"{endpoint}/api/models/{repo_id}/revision/{quote(revision, safe='')}"


_IN_PATH = (
    re.compile(r"/(?P<id>[^/]+(?:/[^/]+)?)/resolve/[^/]+/.+"),
    re.compile(r"/api/resolve-cache/models/(?P<id>[^/]+(?:/[^/]+)?)/[0-9a-f]{40}/.+"),
    re.compile(r"/api/models/(?P<id>[^/]+(?:/[^/]+)?)/revision/[^/]+"),
)


def repo_id_in_path(path: str) -> str | None:
    """The repository that a path of the hub speaks of, or None if it speaks of none."""
    for pattern in _IN_PATH:
        match = pattern.fullmatch(path)
        if match and repo_id_fault(match["id"]) is None:
            return match["id"]
    return None


def _revision_fault(revision: str) -> str | None:
    if not 1 <= len(revision) <= MAX_REVISION:
        return f"must have 1 to {MAX_REVISION} characters"
    if not _REVISION.fullmatch(revision) or ".." in revision or "//" in revision:
        return "must be a branch, a tag or a commit"
    return None


def filename_fault(filename: str) -> str | None:
    """The rule that a path inside a repository breaks, or None."""
    if not 1 <= len(filename) <= MAX_FILENAME:
        return f"must have 1 to {MAX_FILENAME} characters"
    if not _FILENAME.fullmatch(filename):
        return "must be a relative path inside the repository"
    if any(part in (".", "..") for part in filename.split("/")):
        return "must not contain '.' or '..' as a directory"
    return None


def _checked(field: str, fault: str | None, value: str) -> str:
    if fault is not None:
        raise InputError.of(field, fault)
    return value
