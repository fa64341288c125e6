"""Versions of engines as people and logs write them: `0.19`, `v0.19.2rc1.dev134+gfe9c3d6c5`."""

import re

from app.errors import InputError

Version = tuple[int, ...]

_RELEASE = re.compile(r"v?(\d{1,4}(?:\.\d{1,4}){1,3})(?!\d)")


def release(text: str) -> Version:
    """The release a version belongs to: its leading numbers, at least two of them.

    Raises:
        InputError: on `engine_version` for text that does not start with a release.
    """
    found = _RELEASE.match(text.strip())
    if found is None:
        rule = f"'{text[:40]}' is no version such as 0.19 or 0.33.0"
        raise InputError.of("engine_version", rule, type="unknown_version")
    return tuple(int(number) for number in found.group(1).split("."))
