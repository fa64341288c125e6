"""Every call that README and the documentation print answers."""

import re
import shlex
from urllib.parse import urlsplit

import httpx
import pytest

from app.render.reference import with_tables
from app.schemas.verify import EXAMPLES
from tests.conftest import ROOT

PAGES = ("README.md", "docs/questions.md", "docs/errata.md")


def calls(page: str) -> list[tuple[str, bool]]:
    """The request targets of a page's curl commands, and whether they send a log."""
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    commands = [shlex.split(line) for line in lines if line.startswith("    curl ")]
    targets = [word for command in commands for word in command if word.startswith("127.0.0.1")]
    assert len(targets) == len(commands) > 0
    parts = [urlsplit(f"http://{target}") for target in targets]
    sends = ["--data-binary" in command for command in commands]
    return [(f"{part.path}?{part.query}", log) for part, log in zip(parts, sends, strict=True)]


@pytest.mark.parametrize(("target", "log"), [call for page in PAGES for call in calls(page)])
async def test_a_printed_call_answers(client: httpx.AsyncClient, target: str, log: bool) -> None:
    sent = EXAMPLES["v0"]["value"]["log"] if log else None
    response = await client.request("POST" if log else "GET", target, content=sent)
    assert response.status_code == 200, response.text


def test_the_tables_are_what_the_code_makes() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert with_tables(text) == text


def test_every_linked_page_exists() -> None:
    for page in ("README.md", *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))):
        text = (ROOT / page).read_text(encoding="utf-8")
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
            assert ((ROOT / page).parent / target).exists(), (page, target)
