"""Input that is malformed or impossible: a 4xx problem that names the field, and no wait for it."""

import json
from typing import Any

import httpx
import pytest

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "torch_dtype": "bfloat16",
}


def nested(depth: int) -> Any:
    value: Any = {}
    for _ in range(depth):
        value = {"text_config": value}
    return value


BODIES: list[tuple[str, dict[str, Any], str]] = [
    ("kv", {"model": "../../etc/passwd"}, "model"),
    ("kv", {"model": "https://example.com/org/name"}, "model"),
    ("kv", {"model": "a/" + "b" * 300}, "model"),
    ("kv", {"model": "org/..", "source": "hub"}, "model"),
    ("kv", {"model": "llama-3-8b", "context": 0}, "context"),
    ("kv", {"model": "llama-3-8b", "context": -1}, "context"),
    ("kv", {"model": "llama-3-8b", "context": 1e30}, "context"),
    ("kv", {"model": "llama-3-8b", "context": True}, "context"),
    ("kv", {"model": "llama-3-8b", "context": "8192"}, "context"),
    ("kv", {"model": "llama-3-8b", "config": LLAMA}, "model"),
    ("kv", {}, "model"),
    ("kv", {"config": nested(100)}, "config"),
    ("kv", {"config": {**LLAMA, "num_hidden_layers": "many"}}, "num_hidden_layers"),
    ("kv", {"config": {**LLAMA, "num_attention_heads": 0}}, "num_attention_heads"),
    ("kv", {"config": {**LLAMA, "num_hidden_layers": -32}}, "num_hidden_layers"),
    ("kv", {"config": {**LLAMA, "head_dim": 10**18}}, "head_dim"),
    ("kv", {"config": {**LLAMA, "model_type": "never_heard_of"}}, "model_type"),
    ("kv", {"config": {}}, "model_type"),
    ("kv", {"config": LLAMA, "tensor_parallel_size": 3}, "tensor_parallel_size"),
    ("kv", {"config": LLAMA, "pipeline_parallel_size": 33}, "pipeline_parallel_size"),
    ("kv", {"model": "llama-3-8b", "kv_cache_dtype": "fp3"}, "kv_cache_dtype"),
    ("kv", {"model": "llama-3-8b", "dtype": "fp3"}, "dtype"),
    ("kv", {"model": "llama-3-8b", "quantization": "magic"}, "quantization"),
    ("kv", {"model": "llama-3-8b", "contxt": 1}, "contxt"),
    ("concurrency", {"model": "llama-3-8b"}, "gpu"),
    ("concurrency", {"model": "llama-3-8b", "memory_bandwidth_bytes_per_s": 1}, "gpu_memory_bytes"),
    ("crossover", {"model": "llama-3-8b", "gpu_spec": {"memory_bytes": 80}}, "gpu_spec"),
    ("plan", {"model": "llama-3-8b", "concurrent_users": 1, "context": 8}, "gpu"),
    ("plan", {"model": "llama-3-8b", "gpu": "h100", "context": 8}, "concurrent_users"),
    (
        "plan",
        {
            "model": "llama-3-8b",
            "gpu_spec": {"memory_bytes": 80 * 10**9},
            "concurrent_users": 1,
            "context": 8,
        },
        "gpu_spec",
    ),
]


@pytest.mark.parametrize("case", BODIES, ids=lambda case: f"{case[0]}-{case[2]}")
async def test_a_bad_body_is_a_problem_that_names_the_field(
    client: httpx.AsyncClient, case: tuple[str, dict[str, Any], str]
) -> None:
    calculation, body, field = case
    response = await client.post(f"/{calculation}", json=body)
    assert response.status_code == 422, response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert problem["status"] == 422
    named = [str(step) for error in problem["errors"] for step in error["loc"]]
    assert field in named, problem


@pytest.mark.parametrize(
    "raw",
    [
        b'{"model": "llama-3-8b", "context": NaN}',
        b'{"model": "llama-3-8b", "context": Infinity}',
        b'{"config": [1, 2, 3]}',
        b"[]",
        b"{",
        b"\xff\xfe",
        b'{"config": ' + b'{"text_config": ' * 10_000 + b"{}" + b"}" * 10_001,
        b'{"config": ' + b"[" * 5000 + b"]" * 5000 + b"}",
    ],
)
async def test_bytes_that_are_no_request(client: httpx.AsyncClient, raw: bytes) -> None:
    headers = {"content-type": "application/json"}
    response = await client.post("/kv", content=raw, headers=headers)
    assert 400 <= response.status_code < 500
    assert response.headers["content-type"] == "application/problem+json"
    assert json.loads(response.content)["status"] == response.status_code


async def test_an_unknown_gpu_is_not_found_and_the_three_nearest_are_named(
    client: httpx.AsyncClient,
) -> None:
    response = await client.get("/concurrency", params={"model": "llama-3-8b", "gpu": "h10"})
    assert response.status_code == 404
    assert len(response.json()["nearest"]) == 3


async def test_an_unknown_alias_is_not_found_and_the_nearest_are_named(
    client: httpx.AsyncClient,
) -> None:
    response = await client.get("/kv", params={"model": "llama3-8b"})
    assert response.status_code == 404
    assert "llama-3-8b" in response.json()["nearest"]


async def test_a_context_beyond_the_models_own_maximum_is_answered_and_said(
    client: httpx.AsyncClient,
) -> None:
    response = await client.get("/kv", params={"model": "llama-3-8b", "context": 1_000_000})
    assert response.status_code == 200
    assert any("8192" in line for line in response.json()["assumptions"])


async def test_an_unknown_architecture_can_be_assumed_dense_by_the_caller_alone(
    client: httpx.AsyncClient,
) -> None:
    config = {**LLAMA, "model_type": "never_heard_of"}
    body = {"config": config, "assume": "dense_attention", "context": 1}
    response = await client.post("/kv", json=body)
    assert response.status_code == 200
    # 2 x 32 x 8 x 128 x 2
    assert response.json()["kv_bytes_per_token"] == 131072
    assert any("assume=dense_attention" in line for line in response.json()["assumptions"])
