"""Arguments as logs show them: reprs of dicts, dataclasses and namespaces, and command lines."""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping

from app.logs.cleaning import line_at
from app.logs.templates import MOST_COUNTED

MAX_LINE = 65_536
"""Characters of a line of arguments that are read."""
MAX_DEPTH = 32
MAX_COMMAND = 16_384
_MAX_COMMAND_LINES = 64

_TOKEN = re.compile(
    r"""
      (?P<key>[A-Za-z_][A-Za-z0-9_]{0,63}+)=(?!=)
    | ['"](?P<named>[A-Za-z_][\w.-]{0,63}+)['"]\s?:\s?
    | '(?P<single>[^'\n]{0,1024}+)'
    | "(?P<double>[^"\n]{0,1024}+)"
    | (?P<open>[\[({])
    | (?P<close>[\])}])
    | (?P<comma>,)
    | (?P<bare>[^\s,'"()\[\]{}=\\]{1,256}+)
    """,
    re.VERBOSE,
)


def read_repr(text: str) -> dict[str, str]:
    """The arguments of a repr by name: `a=1, b=B(c='d')` is `{"a": "1", "b.c": "d"}`.

    A container without a name of its own adds nothing to the names. The first of equal names
    counts.
    """
    found: dict[str, str] = {}
    prefixes, pending = [""], None
    for token in _TOKEN.finditer(text, 0, MAX_LINE):
        kind = token.lastgroup or ""
        value = token[kind]
        if kind in {"key", "named"}:
            pending = value
        elif kind == "open":
            inner = f"{prefixes[-1]}{pending}." if pending else prefixes[-1]
            if len(prefixes) < MAX_DEPTH:
                prefixes.append(inner)
            pending = None
        elif kind == "close":
            if len(prefixes) > 1:
                prefixes.pop()
            pending = None
        elif kind == "comma":
            pending = None
        elif pending is not None:
            found.setdefault(prefixes[-1] + pending, value)
            # The name of a class stands before its own arguments; keep the name for those.
            if kind != "bare":
                pending = None
    return found


def read_command(text: str, program: str) -> dict[str, str]:
    """The arguments of a command line that begins with `program`, flags by name.

    `--max-model-len 8192`, `--max_model_len=8192` and `-tp 2` are `max_model_len`, `tp`; what
    stands alone first is named `""`; a flag without a value is `"True"`. Backslashes at line ends
    go on.
    """
    words = _words(text[:MAX_COMMAND].removeprefix(program))
    found: dict[str, str] = {}
    flag = ""
    for word in words:
        if word.startswith("-") and not word.lstrip("-")[:1].isdigit():
            name, equals, value = word.lstrip("-").partition("=")
            flag = name.replace("-", "_")
            found.setdefault(flag, value if equals else "True")
            flag = "" if equals else flag
        elif flag:
            found[flag] = word if found[flag] == "True" else found[flag]
            flag = ""
        else:
            found.setdefault("", word)
    return found


def _words(text: str) -> list[str]:
    words = shlex.shlex(text, posix=True, punctuation_chars="|;&<>")
    words.whitespace_split = True
    words.commenters = ""
    found: list[str] = []
    try:
        for word in words:
            if word and word[0] in "|;&<>":
                break
            found.append(word)
    except ValueError:  # a quotation that does not end: the words before it are what there is
        return found
    return found


def command_at(text: str, at: int) -> str:
    """The command that begins at `at`, with the lines it goes on in."""
    lines: list[str] = []
    for _ in range(_MAX_COMMAND_LINES):
        line = line_at(text, at, MAX_COMMAND).rstrip()
        at += len(line) + 1
        if not line.endswith("\\"):
            return " ".join([*lines, line])
        lines.append(line[:-1])
        while text[at : at + 1] in {" ", "\t", "\n"}:
            at += 1
    return " ".join(lines)


def spread(arguments: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The arguments, and of those that are objects written out (`--config '{"a": 1}'`) what they
    hold: `config.a`.
    """
    for name, text in arguments.items():
        yield name, text
        if text.startswith("{"):
            yield from ((f"{name}.{key}", value) for key, value in read_repr(text).items())


Converter = Callable[[str], object]


def settings_from(
    arguments: Mapping[str, str], names: Mapping[str, tuple[str, Converter]]
) -> Iterator[tuple[str, object]]:
    """The arguments that `names` knows, converted: (field, value); those that can't be, left out."""
    for name, text in spread(arguments):
        if (known := names.get(name)) is not None:
            field, convert = known
            if (value := convert(text)) is not None:
                yield field, value


_WHOLE = re.compile(r"(\d{1,15})(?:\.0)?([kKmM]?)")
_DECIMAL = re.compile(r"\d{1,12}(?:\.\d{1,12})?")
_FLAGS = {"true": True, "false": False, "1": True, "0": False, "on": True, "off": False}


def text_of(text: str) -> str | None:
    """Words, unless they say that there are none."""
    return None if text in {"", "None", "null", "none"} else text[:256]


def whole_of(text: str) -> int | None:
    """A whole number of at least one; `8k` is 8,000 and `8K` 8,192, as vLLM reads them."""
    match = _WHOLE.fullmatch(text)
    if match is None:
        return None
    scale = {"": 1, "k": 1000, "K": 1024, "m": 10**6, "M": 2**20}[match[2]]
    value = int(match[1]) * scale
    return value if 0 < value <= MOST_COUNTED else None


def share_of(text: str) -> float | None:
    """A fraction above none and up to all."""
    value = float(text) if _DECIMAL.fullmatch(text) else 0.0
    return value if 0 < value <= 1 else None


def flag_of(text: str) -> bool | None:
    """True or false."""
    return _FLAGS.get(text.lower())


def dtype_of(text: str) -> str | None:
    """A precision's name without its package; nothing where it is left to the engine."""
    name = text.removeprefix("torch.")
    return None if name in {"auto", "None", ""} else name[:64]
