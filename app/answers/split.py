"""The items of a batch as slices of its text: found once, never all in memory as objects."""

import re
from collections.abc import Iterator
from json import JSONDecoder

_OPEN = re.compile(r'[ \t\n\r]*\{[ \t\n\r]*"items"[ \t\n\r]*:[ \t\n\r]*\[[ \t\n\r]*')
_NEXT = re.compile(r"[ \t\n\r]*,[ \t\n\r]*")
_CLOSE = re.compile(r"[ \t\n\r]*\][ \t\n\r]*\}[ \t\n\r]*")
# What an item says is read later: here a number is but a text, of whatever length.
_decode = JSONDecoder(parse_int=len).raw_decode


class NotUsual(ValueError):
    """Not the usual text of a batch; whether it is a batch at all, somebody else has to say."""


def split_items(text: str) -> Iterator[str]:
    """The text of each item of `{"items": [...]}`.

    Raises:
        NotUsual: in place of the next item.
    """
    opened = _OPEN.match(text)
    if opened is None:
        raise NotUsual
    at = opened.end()
    if closed := _CLOSE.fullmatch(text, at):
        return
    while True:
        try:
            _, end = _decode(text, at)
        except (ValueError, RecursionError):
            raise NotUsual from None
        yield text[at:end]
        if further := _NEXT.match(text, end):
            at = further.end()
        elif closed := _CLOSE.match(text, end):
            if closed.end() != len(text):
                raise NotUsual
            return
        else:
            raise NotUsual
