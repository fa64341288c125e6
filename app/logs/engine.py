"""What a reader of one engine's logs consists of."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from app.logs.arguments import Converter
from app.logs.found import Found
from app.logs.reading import EngineName, Failure, Measured
from app.logs.templates import Template


@dataclass(frozen=True, kw_only=True, slots=True)
class Engine:
    """One engine's lines.

    Attributes:
        name: The engine.
        signatures: Words that its logs hold and others' don't.
        read: Its sentences. A hole named like a setting fills that setting, `version` and `gpu`
            say what they say, and all others are what `measured` looks at.
        failures: Words by which it refuses, and what they mean.
        ends: Words of its last lines at start-up; what follows them is of no interest.
        starts: Words that a start begins with; the first kind that occurs counts.
        reprs: Words after which arguments are written, those that were resolved first.
        commands: How its command lines begin.
        names: Its arguments: the setting each is, and how its text is read.
        measured: From what was found to measurements.
        usual: Measurements that its logs usually hold (`a|b`: one of the two), and the line that
            would give them.
    """

    name: EngineName
    signatures: tuple[str, ...]
    read: tuple[Template, ...]
    failures: tuple[tuple[Failure, str], ...]
    ends: tuple[str, ...]
    starts: tuple[str, ...]
    reprs: tuple[str, ...]
    commands: tuple[str, ...]
    names: Mapping[str, tuple[str, Converter]]
    measured: Callable[[Found], Measured]
    usual: Mapping[str, str]
