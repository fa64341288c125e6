"""The hub's token, wrapped so that it stays unseen."""


class Token:
    """A bearer token that shows itself in a request's header and nowhere else."""

    __slots__ = ("_secret",)

    def __init__(self, secret: str) -> None:
        if not secret or not secret.isascii() or not secret.isprintable():
            # What cannot stand in a header would fail at every request, and show up in the error.
            raise ValueError("the hub's token may hold printable ASCII only")
        self._secret = secret

    def header(self) -> str:
        """The value of the Authorization header."""
        return f"Bearer {self._secret}"

    def redact(self, text: str) -> str:
        """`text` without the token, in case a server sends it back."""
        return text.replace(self._secret, "***")

    def __repr__(self) -> str:
        return "Token(***)"
