"""The figures that the documentation prints are those of the calls it prints beside them."""

import re
import shlex
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.conftest import ROOT

LEAST = 100
"""Smaller numbers than this stand for too much to be looked for."""


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def targets(text: str) -> list[str]:
    """The calls of a text, as paths with queries; pictures have no figures."""
    words = [shlex.split(line) for line in text.splitlines() if line.startswith("    curl ")]
    found = [word for line in words for word in line if word.startswith("127.0.0.1:8000")]
    return [each.removeprefix("127.0.0.1:8000") for each in found if "format=" not in each]


def printed(text: str) -> list[str]:
    """The exact numbers of a text: with thousands separated, or with decimals and in thousands."""
    found = re.findall(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\d,]*\d)", text)
    return [each for each in found if float(each.replace(",", "")) >= LEAST]


def numbers(part: Any) -> Iterator[float]:
    if isinstance(part, dict | list):
        for inner in part.values() if isinstance(part, dict) else part:
            yield from numbers(inner)
    elif isinstance(part, int | float) and not isinstance(part, bool):
        yield part
    elif isinstance(part, str):
        yield from (float(each.replace(",", "")) for each in printed(part))


def among(said: str, answered: set[float]) -> bool:
    """Whether an answer has the number, to as many decimals as were printed."""
    decimals = len(said.partition(".")[2])
    return float(said.replace(",", "")) in {round(each, decimals) for each in answered}


async def answers(client: httpx.AsyncClient, text: str) -> set[float]:
    found: set[float] = set()
    for target in targets(text):
        response = await client.get(target)
        assert response.status_code == 200, target
        found |= set(numbers(response.json()))
    return found


QUESTIONS = page("docs/questions.md").split("\n**")[1:]
ERRATA = page("docs/errata.md")
EXACT = [row.split("|")[3] for row in ERRATA.splitlines() if re.match(r"\| \d ", row)]


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda text: text[:2])
async def test_a_question_and_its_calls(client: httpx.AsyncClient, question: str) -> None:
    assert targets(question)
    found = await answers(client, question)
    words = "\n".join(line for line in question.splitlines() if not line.startswith("    "))
    assert [each for each in printed(words) if not among(each, found)] == []


async def test_the_exact_figures_of_the_errata_are_those_of_its_calls(
    client: httpx.AsyncClient,
) -> None:
    found = await answers(client, ERRATA)
    said = [each for cell in EXACT for each in printed(cell)]
    assert {"335,544,320", "122,528", "3,225.04", "76,878,160,000"} <= set(said)
    assert [each for each in said if not among(each, found)] == []
    # What is below a thousand there: section 4's four, section 5's two, section 7's and 8's.
    short = ["170", "341", "42", "10", "46", "372", "698.38", "42.62"]
    joined = " ".join(EXACT)
    assert all(re.search(rf"(?<![\d.,]){re.escape(each)}(?![\d])", joined) for each in short)
    assert [each for each in short if not among(each, found)] == []


async def test_what_gemma_reserves_beyond_its_layers(client: httpx.AsyncClient) -> None:
    # 62 layers of 2 x 16 x 128 x 2 = 8,192 bytes a token, 52 with windows of 1,024 and 10 without:
    # 8,192 x (10 x 131,072 + 52 x 1,024) = 11,173,625,856 bytes. vLLM makes 7 groups with blocks of
    # 10 layers x 16 tokens; a window holds 1,023 and the tokens in flight, 2 x 8,192 by default:
    # (8,192 + 6 x 1,089) blocks x 1,310,720 bytes. In 0.19 with 2,048: 8,192 + 6 x 193.
    layers = 8192 * (10 * 131_072 + 52 * 1024)
    asked = {"model": "google/medgemma-27b-it", "context": 131_072, "engine": "vllm", "gpu": "h100"}
    for more, blocks, said in (
        ({}, 8192 + 6 * 1089, "73 % more"),
        ({"engine_version": "0.19", "max_num_batched_tokens": 2048}, 8192 + 6 * 193, "10 % more"),
    ):
        answer = (await client.get("/kv", params=asked | more)).json()
        reserved = answer["kv_bytes_per_sequence"]
        assert reserved == blocks * 1_310_720
        assert f"{reserved / layers - 1:.0%}".replace("%", " % more") == said
        assert said in page("docs/adr/0002-two-answers.md")
