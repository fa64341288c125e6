import pytest

from app.logs.arguments import read_command, read_repr, spread, whole_of


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("a=1, b='x y', c=None", {"a": "1", "b": "x y", "c": "None"}),
        ("{'a': 1, 'b': {'c': 'd', 'e': [1, 2]}, 'f': 2}", {"a": "1", "b.c": "d", "f": "2"}),
        ("X(a='1', b=Y(a='2', c=3), d=4)", {"a": "1", "b": "Y", "b.a": "2", "b.c": "3", "d": "4"}),
        ('{"a": "b", "c": true}', {"a": "b", "c": "true"}),
        ("a=1, a=2", {"a": "1"}),
        ("a={'b': 'unfinished", {"a.b": "unfinished"}),
        ("]]]), a=1", {"a": "1"}),
        ("", {}),
    ],
)
def test_reprs(text: str, arguments: dict[str, str]) -> None:
    assert read_repr(text) == arguments


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("run a/b --x 1 --y-z=2", {"": "a/b", "x": "1", "y_z": "2"}),
        ("run --flag --x 1", {"flag": "True", "x": "1"}),
        ("run -tp 2 a/b", {"tp": "2", "": "a/b"}),
        ("run a/b --x 1 > log.txt --y 2", {"": "a/b", "x": "1"}),
        ("run a/b --x '1 2' && run c/d", {"": "a/b", "x": "1 2"}),
        ("run a/b --x 'open", {"": "a/b", "x": "True"}),
    ],
)
def test_commands(text: str, arguments: dict[str, str]) -> None:
    assert read_command(text, "run ") == arguments


def test_arguments_that_are_objects_are_spread() -> None:
    command = read_command("""run a/b --x '{"c": "d", "e": 2, "f": {"g": 1}}' --y 1""", "run ")
    found = dict(spread(command))
    assert (found["x.c"], found["x.e"], found["x.f.g"], found["y"]) == ("d", "2", "1", "1")
    assert dict(spread({"x": "{"})) == {"x": "{"}


@pytest.mark.parametrize(
    ("text", "whole"),
    [("8192", 8192), ("8k", 8000), ("8K", 8192), ("1M", 2**20), ("0", None), ("-1", None),
     ("1.5", None), ("x", None), ("9" * 30, None)],
)  # fmt: skip
def test_whole_numbers(text: str, whole: int | None) -> None:
    assert whole_of(text) == whole
