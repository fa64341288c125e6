"""Text of a log without what terminals, containers and files add to it."""

import re

MAX_PREFIX = 400
"""How far before a message its line's prefix is looked at."""

_ANSI = re.compile(r"\x1b(?:\[[0-9;?]{0,32}+[@-~]|\][^\x07\n]{0,200}+\x07|[()][0-9A-B])?+")
_RANK = re.compile(
    r"(?<![a-z])(?:(?:PP(?P<pp>\d{1,4})[ _])?TP(?P<tp>\d{1,4})|rank[ =](?P<rank>\d{1,4}))(?!\d)",
    re.IGNORECASE,
)
_PROCESS = re.compile(r"\bpid=(\d{1,10})\b")


def clean(log: str | bytes) -> str:
    """Plain text, lines ended as on Unix: no colours, no null bytes, nothing that is no UTF-8."""
    text = log.decode("utf-8", errors="replace") if isinstance(log, bytes) else log
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.replace("\x00", "") if "\x00" in text else text


def source_of(text: str, at: int) -> tuple[int, int]:
    """Which process wrote the message at `at`, by its line's prefix: (stage and rank, process id).

    A line without a rank is taken as the first's: processes that don't say are alone.
    """
    start = max(text.rfind("\n", max(at - MAX_PREFIX, 0), at) + 1, at - MAX_PREFIX)
    prefix = text[start:at]
    rank = 0
    for found in _RANK.finditer(prefix):
        rank = int(found["rank"] or found["tp"]) + 10_000 * int(found["pp"] or 0)
    process = 0
    for number in _PROCESS.findall(prefix):
        process = int(number)
    return rank, process


def line_at(text: str, at: int, most: int) -> str:
    """What is left of the line from `at` on, at most so many characters."""
    end = text.find("\n", at, at + most)
    return text[at : end if end >= 0 else at + most]
