"""What the document says of parameters: true bounds, the usual ones first, examples that answer."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from app import openapi

DOCUMENT = json.loads(openapi.document())
GETS = {path: item["get"] for path, item in DOCUMENT["paths"].items() if "get" in item}
CALCULATIONS = ("/kv", "/concurrency", "/crossover", "/plan")


def mappings(part: Any) -> Iterator[dict[str, Any]]:
    if isinstance(part, dict):
        yield part
    for inner in (
        part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    ):
        yield from mappings(inner)


def test_every_bound_has_a_name_of_json_schema() -> None:
    schemas = [each for each in mappings(DOCUMENT) if "type" in each or "anyOf" in each]
    assert len(schemas) > 500
    for schema in schemas:
        assert not schema.keys() & {"ge", "gt", "le", "lt", "multiple_of", "min_length"}, schema


# Bounds as docs/adr/0001 and the contract state them: an upper bound where one makes sense, else
# the largest integer that every JSON reader keeps exact.
@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("tensor_parallel_size", 1, 4096),
        ("block_size", 1, 1_048_576),
        ("num_speculative_tokens", 0, 1024),
        ("lora_rank", 1, 4096),
        ("instances_per_gpu", 1, 64),
        ("concurrent_users", 1, 1_000_000_000_000),
        ("spare_nodes", 0, 1_000_000),
        ("context", 1, 9_007_199_254_740_991),
        ("activation_bytes", 0, 9_007_199_254_740_991),
    ],
)
async def test_the_stated_bounds_are_the_real_ones(
    client: httpx.AsyncClient, name: str, low: int, high: int
) -> None:
    parameter = next(each for each in GETS["/plan"]["parameters"] if each["name"] == name)
    schema = parameter["schema"]
    whole = next(each for each in schema.get("anyOf", [schema]) if each["type"] == "integer")
    assert (whole["minimum"], whole["maximum"]) == (low, high)
    for value in (low - 1, high + 1):
        answer = await client.get("/plan", params={name: value})
        assert answer.status_code == 422
        assert [each["loc"][1] for each in answer.json()["errors"]] == [name]


@pytest.mark.parametrize("path", CALCULATIONS)
def test_the_usual_parameters_come_first(path: str) -> None:
    names = [each["name"] for each in GETS[path]["parameters"]]
    assert names[:2] == ["model", "gpu"]
    assert names.index("context") < 4
    body = DOCUMENT["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
    properties = DOCUMENT["components"]["schemas"][body["$ref"].rpartition("/")[2]]["properties"]
    assert list(properties)[: len(names)] == names


def filled_in(parameter: dict[str, Any]) -> list[Any]:
    """What the form of /docs offers for a parameter: its examples, else its default."""
    if "examples" in parameter:
        return [example["value"] for example in parameter["examples"].values()]
    default = parameter["schema"].get("default")
    return [] if default in (None, []) else [default]


def executions() -> Iterator[tuple[str, dict[str, Any]]]:
    """The first thing that each form would send, and that with each further example."""
    for path, operation in GETS.items():
        offered = {each["name"]: filled_in(each) for each in operation.get("parameters", [])}
        first = {name: values[0] for name, values in offered.items() if values}
        yield path, first
        for name, values in offered.items():
            yield from ((path, {**first, name: value}) for value in values[1:])


@pytest.mark.parametrize(("path", "values"), list(executions()))
async def test_what_a_form_offers_answers(
    client: httpx.AsyncClient, path: str, values: dict[str, Any]
) -> None:
    inside = {name for name in values if f"{{{name}}}" in path}
    target = path.format(**{name: values[name] for name in inside})
    query = {
        name: json.dumps(value) if isinstance(value, bool) else value
        for name, value in values.items()
        if name not in inside
    }
    answer = await client.get(target, params=query)
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("path", [path for path in GETS if path not in {"/livez", "/readyz"}])
def test_every_form_offers_an_example(path: str) -> None:
    if parameters := GETS[path].get("parameters"):
        assert any("examples" in each for each in parameters)
        required = [each for each in parameters if each["required"]]
        assert all("examples" in each for each in required)


@pytest.mark.parametrize("text", ["true", "1", "True"])
async def test_text_is_a_flag_in_a_query_and_none_in_a_body(
    client: httpx.AsyncClient, text: str
) -> None:
    asked = {"model": "llama-3-8b", "context": 8192, "explain": text}
    assert (await client.get("/kv", params=asked)).json()["steps"]
    assert (await client.post("/kv", json=asked)).status_code == 422
    assert (await client.get("/kv", params={**asked, "explain": "yes"})).status_code == 422
