"""The catalogue over HTTP: the quick reference table, and one model with its sources."""

import httpx

from app.catalog.models import model_catalogue
from app.resolve.model import catalogue_model


async def test_the_quick_reference_table(client: httpx.AsyncClient) -> None:
    table = (await client.get("/models")).json()
    assert table["count"] >= 60
    rows = {row["id"]: row for row in table["models"]}
    llama = rows["meta-llama/Meta-Llama-3-8B"]
    # 2 x 32 x 8 x 128 x 2, and its multiples
    assert llama["kv_bytes_per_token"] == 131_072
    assert llama["kv_bytes_per_sequence_8k"] == 131_072 * 8_192
    assert llama["kv_bytes_per_sequence_32k"] == 131_072 * 32_768
    assert llama["kv_bytes_per_sequence_128k"] == 131_072 * 131_072
    assert llama["weight_bytes"] == 2 * 8_030_261_248


def test_the_shipped_counts_are_those_of_the_shipped_facts() -> None:
    for entry in model_catalogue().models:
        counted = catalogue_model(entry).shape.parameters
        assert counted.total == entry.parameters["total"], entry.id
        assert counted.active == entry.parameters["active"], entry.id


def test_every_entry_says_where_it_is_from() -> None:
    for entry in model_catalogue().models:
        assert {"facts", "parameters"} <= entry.sources.keys(), entry.id
        assert (entry.checkpoint_bytes is None) == ("checkpoint_bytes" not in entry.sources)


async def test_one_model_by_id_and_by_alias(client: httpx.AsyncClient) -> None:
    by_id = (await client.get("/models/meta-llama/Meta-Llama-3-8B")).json()
    by_alias = (await client.get("/models/llama-3-8b")).json()
    assert by_id == by_alias
    assert by_id["facts"]["num_key_value_heads"] == 8
    assert by_id["source"] == "catalogue"


async def test_an_unknown_model_offline_is_a_problem(client: httpx.AsyncClient) -> None:
    response = await client.get("/models/org/never-heard-of")
    assert response.status_code == 503
    assert response.headers["content-type"] == "application/problem+json"
