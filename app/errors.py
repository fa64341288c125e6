"""Every error that kvmath raises on purpose; none of them knows HTTP (see ``app.problems``).

::

    KvmathError
    ├── InputError                 the request is malformed or impossible
    │   └── UnknownArchitecture    a config whose cache layout is not known
    ├── NotFound
    │   ├── UnknownGpu
    │   ├── UnknownModel
    │   ├── UnknownRevision
    │   └── NoModelFiles           the repository holds no configuration that is read
    ├── AccessDenied
    │   ├── GatedModel
    │   ├── PrivateModel
    │   └── DisabledModel
    ├── TooLarge                   the request, or what it asks for, is over a limit
    ├── Overloaded                 this process has no room for the request now
    ├── DeadlinePassed             no answer within the time that a request may take
    ├── NotAuthenticated           no key of this service, or a wrong one
    ├── TooManyRequests            a caller is over its rate
    └── HubError
        ├── HubUnavailable         no connection, or the hub says that it is down
        ├── HubTimeout             no whole answer before the deadline
        ├── HubBadAnswer           an answer that is not what the hub promises
        │   ├── HubAnswerTooLarge  more than is read of such an answer
        │   └── HubTokenRefused    the hub does not accept the token of this service
        ├── HubRateLimited         the hub asks to wait
        └── HubOffline             the network is switched off by configuration
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self


class KvmathError(Exception):
    """Base of the tree.

    Attributes:
        detail: One sentence for the person who asked.
        extra: Further facts for a program, JSON-ready; merged into the problem document.
        retry_after: Seconds after which asking again makes sense, where known.
    """

    def __init__(
        self,
        detail: str,
        *,
        extra: Mapping[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.extra = dict(extra or {})
        self.retry_after = retry_after


@dataclass(frozen=True, kw_only=True, slots=True)
class FieldError:
    """One thing that is wrong with one field.

    Attributes:
        loc: Path of the field, outermost first: ``("gpu_spec", "memory_bytes")``.
        msg: What is wrong, in words.
        type: A stable name for the kind of error.
    """

    loc: tuple[str | int, ...]
    msg: str
    type: str = "value_error"

    def as_json(self) -> dict[str, Any]:
        """The error as an entry of a problem's ``errors``."""
        return {"loc": list(self.loc), "msg": self.msg, "type": self.type}


class InputError(KvmathError):
    """The request is malformed, or asks for something that cannot be.

    Attributes:
        errors: What is wrong, by field.
    """

    def __init__(self, errors: Sequence[FieldError], *, detail: str | None = None) -> None:
        self.errors = tuple(errors)
        super().__init__(
            detail or "; ".join(f"{'.'.join(map(str, e.loc))}: {e.msg}" for e in self.errors),
            extra={"errors": [error.as_json() for error in self.errors]},
        )

    @classmethod
    def of(cls, field: str, msg: str, *, type: str = "value_error") -> Self:  # noqa: A002 -- the problem's own word
        """An error about one field; dots in ``field`` separate the steps of its path."""
        return cls([FieldError(loc=tuple(field.split(".")), msg=msg, type=type)])


class UnknownArchitecture(InputError):
    """A config whose cache layout is not known; it is refused, never guessed.

    Attributes:
        model_type: The config's ``model_type``, or None where it names none.
        fields: The config's fields that could not be understood.
    """

    def __init__(self, model_type: str | None, fields: Sequence[str], why: str = "") -> None:
        self.model_type = model_type
        self.fields = tuple(fields)
        name = f"model type {model_type!r}" if model_type else "a config without model_type"
        named = f" (looked at: {', '.join(self.fields)})" if self.fields else ""
        detail = f"The cache layout of {name} is not known{': ' + why if why else ''}{named}."
        super().__init__(
            [
                FieldError(loc=("config", field), msg=detail, type="unknown_architecture")
                for field in self.fields or ("model_type",)
            ],
            detail=detail,
        )
        self.extra |= {"model_type": model_type, "fields": list(self.fields)}


class NotFound(KvmathError):
    """Something named in the request does not exist."""


class UnknownGpu(NotFound):
    """No accelerator of the catalogue has this id or alias."""

    def __init__(self, name: str, nearest: Sequence[str]) -> None:
        self.name = name
        self.nearest = tuple(nearest)
        hint = f" Nearest: {', '.join(self.nearest)}." if self.nearest else ""
        super().__init__(
            f"No GPU {name!r} in the catalogue.{hint}", extra={"nearest": list(self.nearest)}
        )


def _nearest_models(names: Sequence[str]) -> str:
    return f" Nearest in the catalogue: {', '.join(names)}." if names else ""


def _named_model(model: str, nearest: Sequence[str]) -> dict[str, Any]:
    return {"model": model} | ({"nearest": list(nearest)} if nearest else {})


class UnknownModel(NotFound):
    """No model has this id, neither here nor on the hub (or the token may not know of it)."""

    def __init__(self, model: str, why: str = "", *, nearest: Sequence[str] = ()) -> None:
        self.model = model
        super().__init__(
            f"No model {model!r}{': ' + why if why else ''}.{_nearest_models(nearest)}",
            extra=_named_model(model, nearest),
        )


class UnknownRevision(NotFound):
    """The model exists, its revision does not."""

    def __init__(self, model: str, revision: str) -> None:
        self.model = model
        self.revision = revision
        super().__init__(
            f"Model {model!r} has no revision {revision!r}.",
            extra={"model": model, "revision": revision},
        )


class NoModelFiles(NotFound):
    """The repository exists and holds nothing that says what the model looks like.

    Attributes:
        files: Files of it that could be named instead (GGUF).
    """

    def __init__(self, model: str, files: Sequence[str] = (), *, missing: str = "") -> None:
        self.model = model
        self.files = tuple(files)
        lacks = repr(missing) if missing else "config.json and no params.json"
        named = f"; name one of its GGUF files: {', '.join(self.files)}" if self.files else ""
        super().__init__(
            f"Model {model!r} has no {lacks}{named}.",
            extra={"model": model, "files": list(self.files)},
        )


class AccessDenied(KvmathError):
    """The thing exists and may not be read with the credentials at hand."""


class GatedModel(AccessDenied):
    """The model's files are shown only to those who accepted its terms."""

    def __init__(self, model: str, why: str = "") -> None:
        self.model = model
        super().__init__(
            f"Model {model!r} is gated{': ' + why if why else ''}; "
            "set HF_TOKEN to a token whose owner was granted access, or send its config.",
            extra={"model": model},
        )


class PrivateModel(AccessDenied):
    """The model is private, or the token is not accepted for it."""

    def __init__(self, model: str, why: str = "") -> None:
        self.model = model
        super().__init__(
            f"Model {model!r} may not be read with the token at hand{': ' + why if why else ''}.",
            extra={"model": model},
        )


class DisabledModel(AccessDenied):
    """The hub keeps the model and shows it to nobody."""

    def __init__(self, model: str) -> None:
        self.model = model
        super().__init__(
            f"Access to model {model!r} has been disabled by the hub.", extra={"model": model}
        )


class TooLarge(KvmathError):
    """The request, or what it would make this process do, is over a limit."""


class Overloaded(KvmathError):
    """This process has no room for the request now."""

    def __init__(
        self, detail: str = "Too many requests at once.", *, retry_after: float = 1
    ) -> None:
        super().__init__(detail, retry_after=retry_after)


class DeadlinePassed(KvmathError):
    """No answer within the time that a request may take."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"No answer within {seconds:g} s.", retry_after=1)


class NotAuthenticated(KvmathError):
    """This deployment answers those who send one of its keys."""

    def __init__(self) -> None:
        super().__init__(
            "Send a key of this service as `Authorization: Bearer KEY` or `X-API-Key: KEY`."
        )


class TooManyRequests(KvmathError):
    """A caller has used up its requests of the current window."""

    def __init__(self, limit: int, window_s: int, left_s: float) -> None:
        super().__init__(f"Over {limit} requests in {window_s} s.", retry_after=left_s)


class HubError(KvmathError):
    """The hub could not be asked, or its answer could not be used."""

    def about(self, model: str, *, nearest: Sequence[str] = ()) -> Self:
        """The same trouble, naming the model that the hub was asked for."""
        told = type(self).__new__(type(self))
        named = f" It was asked for model {model!r}.{_nearest_models(nearest)}"
        KvmathError.__init__(
            told,
            self.detail + named,
            extra=self.extra | _named_model(model, nearest),
            retry_after=self.retry_after,
        )
        return told


class HubUnavailable(HubError):
    """No connection to the hub, or the hub says that it is down."""


class HubTimeout(HubError):
    """No whole answer from the hub before the deadline."""


class HubBadAnswer(HubError):
    """The hub answered something that is not what it promises: not JSON, too large, too deep."""


class HubAnswerTooLarge(HubBadAnswer):
    """There is more of the hub's answer than is read; what it says is not known."""


class HubTokenRefused(HubBadAnswer):
    """The hub does not accept the token of this service; it says nothing about the model."""

    def __init__(self) -> None:
        super().__init__(
            "The hub refused the token of this service (wrong or expired), even for public "
            "models: correct HF_TOKEN or remove it."
        )


class HubRateLimited(HubError):
    """The hub asks to wait."""


class HubOffline(HubError):
    """The network is switched off by configuration, and nothing local has the answer."""
