"""`max_model_len` beside `context`: what an engine turns away, or does not start for, does not fit.

Llama-3.1-8B keeps 2 x 32 x 8 x 128 x 2 = 131,072 bytes a token: 1 GiB for 8,192, and 2 MiB in a block
of 16 tokens.
"""

from typing import Any

import httpx
import pytest

ASKED = {"model": "llama-3.1-8b", "gpu": "h100", "engine": "vllm"}
GIB = 2**30


async def concurrency(client: httpx.AsyncClient, **fields: Any) -> dict[str, Any]:
    answer = await client.post("/concurrency", json=ASKED | fields)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def changes(answer: dict[str, Any]) -> list[tuple[dict[str, Any], int]]:
    return [(each["change"], each["max_concurrency"]) for each in answer["advice"]]


async def test_a_longer_context_than_the_engine_takes(client: httpx.AsyncClient) -> None:
    answer = await concurrency(
        client, context=8192, contexts=[4096], max_model_len=4096, kv_budget_bytes=64 * GIB
    )
    assert (answer["fits"], answer["max_concurrency"]) == (False, 0)
    assert answer["limited_by"] == "max_position_embeddings"
    assert any("beyond max_model_len 4096" in each for each in answer["assumptions"])
    # 64 GiB / 2 MiB = 32,768 blocks; 4,096 tokens take 256 of them, 8,192 take 512.
    assert answer["by_context"] == [
        {"context": 8192, "max_concurrency": 0, "fits": False},
        {"context": 4096, "max_concurrency": 128, "fits": True},
    ]
    assert ({"max_model_len": 8192}, 64) in changes(answer)
    assert ({"context": 4096}, 128) in changes(answer)


async def test_an_engine_that_does_not_start_serves_no_shorter_context(
    client: httpx.AsyncClient,
) -> None:
    # 1 GiB / 2 MiB = 512 blocks, one of which is the null block: 511 x 16 = 8,176 tokens.
    start = {"context": 4096, "kv_budget_bytes": GIB}
    answer = await concurrency(client, **start, max_model_len=8192)
    assert (answer["fits"], answer["max_concurrency"]) == (False, 0)
    assert answer["limited_by"] == "memory"
    reason = next(each for each in answer["assumptions"] if "does not start" in each)
    # 512 blocks x 2 MiB
    assert "max_model_len 8192 takes 1073741824 bytes" in reason
    assert "at most 8176 is accepted" in reason
    # 512 / 256
    assert ({"max_model_len": 4096}, 2) in changes(answer)
    accepted = await concurrency(client, **start, max_model_len=8176)
    assert (accepted["fits"], accepted["max_concurrency"]) == (True, 2)


@pytest.mark.parametrize("engine", ["sglang", "tensorrt-llm", "llama.cpp"])
async def test_engines_with_pools_turn_it_away_too(client: httpx.AsyncClient, engine: str) -> None:
    asked = {"engine": engine, "context": 8192}
    answer = await concurrency(client, **asked, max_model_len=4096)
    assert (answer["fits"], answer["max_concurrency"]) == (False, 0)
    assert answer["limited_by"] == "max_position_embeddings"
    change, found = changes(answer)[0]
    assert change == {"max_model_len": 8192}
    assert found == (await concurrency(client, **asked))["max_concurrency"] > 0


async def test_llama_cpp_allocates_the_whole_context_of_a_slot(client: httpx.AsyncClient) -> None:
    asked = {"engine": "llama.cpp", "kv_cache_dtype": "float16", "kv_budget_bytes": 8 * GIB}
    # Slots of 8,192 tokens take 1 GiB each, however short what is in them.
    answer = await concurrency(client, **asked, context=1024, max_model_len=8192)
    assert (answer["fits"], answer["max_concurrency"]) == (True, 8)
    assert answer["kv_bytes_per_sequence"] == GIB


async def test_the_formula_knows_no_engine_that_refuses(client: httpx.AsyncClient) -> None:
    answer = await concurrency(client, engine="formula", context=8192, max_model_len=4096)
    assert answer["fits"]
    assert "engine=formula takes no account of max_model_len" in answer["assumptions"]


async def test_no_number_of_nodes_serves_what_is_turned_away(client: httpx.AsyncClient) -> None:
    asked = ASKED | {"context": 8192, "concurrent_users": 100, "max_model_len": 4096}
    plan = (await client.post("/plan", json=asked)).json()
    assert (plan["nodes"], plan["meets_slo"], plan["replicas"]) == (None, False, None)
    assert (plan["sequences_per_replica"], plan["limited_by"]) == (0, "max_position_embeddings")
    assert plan["alternatives"] == []
    assert any("beyond max_model_len 4096" in each for each in plan["assumptions"])
    served = (await client.post("/plan", json=asked | {"max_model_len": 8192})).json()
    assert served["nodes"] > 0
