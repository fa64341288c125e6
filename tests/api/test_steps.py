"""Every line of written arithmetic gives the value beside it: worked out anew, in exact fractions."""

import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest

from app.answers.calculations import CALCULATIONS
from app.catalog.models import model_catalogue
from app.errors import InputError
from app.resolve.gpu import requested_gpu
from app.resolve.model import catalogue_model
from app.schemas.answer import Step
from app.schemas.request import ConcurrencyQuery, CrossoverQuery, KvQuery, PlanQuery

KINDS: dict[str, Any] = {
    "/kv": KvQuery,
    "/concurrency": ConcurrencyQuery,
    "/crossover": CrossoverQuery,
    "/plan": PlanQuery,
}
WORK = {"concurrent_users": 500}
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("/kv", {"batch": 3}),
    ("/kv", {"batch": 3, "engine": "vllm"}),
    ("/concurrency", {}),
    *(("/concurrency", {"engine": e}) for e in ("vllm", "sglang", "tensorrt-llm", "llama.cpp")),
    ("/crossover", {"batch": 7}),
    ("/plan", WORK),
    ("/plan", WORK | {"engine": "vllm", "gpus_per_node": 2}),
    ("/plan", WORK | {"itl_slo_ms": 40, "input_tokens": 300, "output_tokens": 100}),
]
SPREAD: list[dict[str, int]] = [
    {},
    {"tensor_parallel_size": 2, "pipeline_parallel_size": 2},
    {"tensor_parallel_size": 8, "decode_context_parallel_size": 2},
    {"tensor_parallel_size": 2, "enable_expert_parallel": True, "data_parallel_size": 2},
]
PROSE = re.compile(
    r"memory holds|[a-z_]+ (allows|leaves) |[0-9,]+ of [0-9,]+ against|of [0-9,.]+ on one"
)
WRITTEN = re.compile(r"(?:[0-9,.+\-x/() ]|e[+-]|ceil)+")


def worked_out(written: str) -> Fraction:
    """The value of a line such as `ceil(500 / 143 + 0.2) x 2 + 1`."""
    tokens = re.findall(r"ceil|[0-9][0-9,.]*(?:e[+-][0-9]+)?|[()+\-x/]", written)

    def factor() -> Fraction:
        token = tokens.pop(0)
        if token == "ceil":
            return Fraction(-(-factor() // 1))
        if token == "-":
            return -factor()
        if token == "(":
            value = total()
            assert tokens.pop(0) == ")"
            return value
        return Fraction(token.replace(",", ""))

    def product() -> Fraction:
        value = factor()
        while tokens and tokens[0] in "x/":
            value = value * factor() if tokens.pop(0) == "x" else value / factor()
        return value

    def total() -> Fraction:
        value = product()
        while tokens and tokens[0] in "+-":
            value = value + product() if tokens.pop(0) == "+" else value - product()
        return value

    value = total()
    assert not tokens
    return value


def adds_up(line: Step) -> bool:
    """Whether a line of arithmetic gives its value, rounded as its formula says."""
    if not WRITTEN.fullmatch(line.substituted):
        # Prose may name numbers; what multiplies and divides them is arithmetic that can't be read.
        return PROSE.match(line.substituted) is not None or not re.search(
            r"[0-9]", line.substituted
        )
    if line.value is None:
        return False
    value, said = worked_out(line.substituted), Fraction(line.value)
    if line.formula.endswith("fraction dropped"):
        value = Fraction(value // 1)
    elif line.formula.endswith("rounded up"):
        value = Fraction(-(-value // 1))
    # Fractions are written to seven digits.
    return abs(value - said) <= abs(said) / 10**6 + Fraction(1, 10**6)


def lines(model_id: str) -> Iterator[tuple[str, Step]]:
    entry = model_catalogue().find(model_id)
    assert entry is not None
    model = catalogue_model(entry)
    for path, more in CALLS:
        for spread in SPREAD:
            fields = {"model": model_id, "gpu": "h100", "context": 5001, **more, **spread}
            if path != "/plan":
                fields["explain"] = True
            asked = KINDS[path](**fields)
            try:
                answer = CALCULATIONS[path].make(asked, model, requested_gpu(asked))
            except InputError:  # heads or layers that do not divide, what an engine lacks
                continue
            yield from ((f"{path} {more} {spread}", line) for line in answer.steps or [])


@pytest.mark.parametrize("model_id", [entry.id for entry in model_catalogue().models][::3])
def test_every_line_adds_up(model_id: str) -> None:
    found = list(lines(model_id))
    assert len(found) > 20
    assert [each for each in found if not adds_up(each[1])] == []


@pytest.mark.parametrize(
    ("substituted", "formula", "value", "good"),
    [
        ("27,898 / blocks_per_sequence", "num_blocks / blocks_per_sequence", 54, False),
        ("27,898 / 512", "num_blocks / blocks_per_sequence, fraction dropped", 54, True),
        ("141,107,412,992 over 4", "weights split", 35_277_520_896, False),
        ("2 x (1 + 0.3) x 4 + 1", "units, rounded up", 13, False),
        ("ceil(2 x (1 + 0.3)) x 4 + 1", "units, rounded up", 13, True),
        ("10 - 2 - 3", "memory", 5, True),
        ("not one sequence fits", "rounded up", None, True),
    ],
)
def test_a_line_that_does_not_add_up_is_found(
    substituted: str, formula: str, value: float | None, good: bool
) -> None:
    line = Step(name="", formula=formula, substituted=substituted, value=value, unit="")
    assert adds_up(line) is good


def of(path: str, name: str, **fields: Any) -> Step:
    asked = KINDS[path](**{"gpu": "h100", "explain": True} | fields)
    entry = model_catalogue().find(asked.model)
    assert entry is not None
    answer = CALCULATIONS[path].make(asked, catalogue_model(entry), requested_gpu(asked))
    return next(line for line in answer.steps if line.name == name)


def test_blocks_over_blocks() -> None:
    # 64 GiB / 2 MiB; 8,192 tokens in blocks of 16
    asked = {"model": "llama-3-8b", "context": 8192, "engine": "vllm", "kv_budget_bytes": 2**36}
    line = of("/concurrency", "max_concurrency", **asked)
    assert (line.formula, line.substituted, line.value) == (
        "num_blocks / blocks_per_sequence, fraction dropped",
        "32,768 / 512",
        64,
    )


def test_what_ranks_repeat_is_a_number() -> None:
    # Llama-3-70B, norms of 8,192 in 16 bits, two a layer and one at the end, on both ranks of a stage:
    # 161 x 8,192 x 2 = 2,637,824 bytes more than once.
    asked = {"model": "llama-3-70b", "context": 8192, "tensor_parallel_size": 2}
    line = of("/concurrency", "weight_bytes_per_gpu", **asked)
    assert line.substituted == "(141,107,412,992 + 2,637,824) / 2"
    assert line.value == (141_107_412_992 + 2_637_824) / 2


def test_what_is_refused_is_the_last_line() -> None:
    asked = {"model": "llama-3-8b", "context": 8192, "engine": "vllm", "max_model_len": 4096}
    line = of("/concurrency", "max_concurrency", **asked, kv_budget_bytes=2**36)
    assert (line.substituted, line.value) == ("max_position_embeddings allows 0 of 64", 0)
