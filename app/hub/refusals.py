"""The error a caller sees for each answer of the hub that is not the wanted one."""

from typing import Any

from app.errors import (
    DisabledModel,
    GatedModel,
    HubBadAnswer,
    HubRateLimited,
    HubTokenRefused,
    HubUnavailable,
    KvmathError,
    PrivateModel,
    UnknownModel,
    UnknownRevision,
)
from app.hub.classify import Outcome, Verdict


def error_for(
    verdict: Verdict,
    repo_id: str,
    revision: str,
    *,
    has_token: bool,
    retry_after: float | None = None,
) -> KvmathError:
    """The error for `verdict` on a question about a model at a revision (never for OK)."""
    error = _error(verdict, repo_id, revision, has_token=has_token)
    error.extra |= verdict.facts()
    if retry_after is not None:
        error.retry_after = retry_after
    return error


def again(error: KvmathError) -> KvmathError:
    """A fresh copy of a remembered error: one exception raised by many would hold their frames."""
    copy = type(error).__new__(type(error), *error.args)
    copy.__dict__.update(error.__dict__)
    copy.extra = dict(error.extra)
    return copy


def _error(verdict: Verdict, repo_id: str, revision: str, *, has_token: bool) -> KvmathError:
    match verdict.outcome:
        case Outcome.REPO_MISSING:
            return UnknownModel(repo_id, _why_missing(has_token=has_token))
        case Outcome.REVISION_MISSING:
            return UnknownRevision(repo_id, revision)
        case Outcome.GATED:
            why = "access has not been granted to our token" if has_token else "we hold no token"
            return GatedModel(repo_id, why)
        case Outcome.DISABLED:
            return DisabledModel(repo_id)
        case Outcome.FORBIDDEN:
            return PrivateModel(repo_id, verdict.message)
        case Outcome.BAD_TOKEN:
            return HubTokenRefused()
        case Outcome.RATE_LIMITED:
            return HubRateLimited("The hub asks to wait before it answers more questions.")
        case Outcome.TRANSIENT:
            return HubUnavailable(f"The hub answers {verdict.status} and did so on every try.")
        case _:
            return HubBadAnswer(f"The hub answered {verdict.status}{_said(verdict)}.")


def _why_missing(*, has_token: bool) -> str:
    if has_token:
        return "the hub does not know it, or does not show it to our token"
    return "it is missing or private, which the hub does not tell apart without a token"


def _said(verdict: Verdict) -> str:
    return f": {verdict.message}" if verdict.message else ""


def bad_answer(what: str, extra: dict[str, Any] | None = None) -> HubBadAnswer:
    """The error for an answer that breaks a promise; `what` continues "The hub's answer "."""
    return HubBadAnswer(f"The hub's answer {what}.", extra=extra)
