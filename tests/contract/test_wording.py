"""What answers assume is said in one style: a clause that begins small and ends without a stop."""

import re
from itertools import cycle

import httpx
import pytest

from app.catalog.gpus import gpu_catalogue
from app.catalog.models import model_catalogue

ENGINES = ("formula", "vllm", "sglang", "tensorrt-llm", "llama.cpp")
GPUS = [
    name
    for entry in gpu_catalogue().entries
    for name in (
        entry.gpu.id,
        *entry.family_aliases[:1],
        *(f"{entry.gpu.id}:{row.profile}" for row in entry.mig_profiles[:1]),
    )
]
NAMES = {entry.gpu.name.split()[0].rstrip(",:") for entry in gpu_catalogue().entries}


def out_of_style(said: str) -> bool:
    """A full stop at the end, or a capital that belongs to no name."""
    first = said.split(maxsplit=1)[0]
    name = first.rstrip(",:") in NAMES or re.search("[A-Z0-9].*[A-Z0-9]|/", first) is not None
    return said.endswith(".") or (said[0].isupper() and not name)


@pytest.mark.parametrize(
    ("text", "out"),
    [
        ("weights are read once a step", False),
        ("FP8 is taken for the cache", False),
        ("meta-llama/Llama-3.1-8B is gated", False),
        ("H100 is taken", False),
        ("weights are read once a step.", True),
        ("Weights are read once a step", True),
    ],
)
def test_what_is_out_of_style(text: str, out: bool) -> None:
    assert out_of_style(text) is out


async def said(client: httpx.AsyncClient, path: str, **fields: object) -> list[str]:
    answer = await client.post(path, json=fields)
    return [] if answer.status_code == 422 else list(answer.json()["assumptions"])


@pytest.mark.parametrize("engine", ENGINES)
async def test_assumptions_of_every_model(client: httpx.AsyncClient, engine: str) -> None:
    heard = 0
    for entry in model_catalogue().models:
        asked = {"model": entry.id, "gpu": "h100", "engine": engine}
        found = await said(client, "/concurrency", **asked, context=1000, contexts=[10**7])
        assert not [each for each in found if out_of_style(each)]
        heard += bool(found)
    assert heard > 5


async def test_assumptions_of_every_gpu(client: httpx.AsyncClient) -> None:
    heard = 0
    for gpu, engine in zip(GPUS, cycle(ENGINES[:2]), strict=False):
        found = await said(client, "/concurrency", model="llama-3-8b", gpu=gpu, engine=engine)
        assert not [each for each in found if out_of_style(each)]
        heard += bool(found)
    assert heard > len(GPUS) / 2


async def test_assumptions_of_every_calculation(client: httpx.AsyncClient) -> None:
    asked: dict[str, object] = {"model": "qwen3-30b-a3b", "gpu": "h100", "tensor_parallel_size": 2}
    work = {"concurrent_users": 9, "context": 4096, "input_tokens": 99, "output_tokens": 9}
    calls = (
        ("/kv", asked | {"engine": "vllm", "batch": 3}),
        ("/crossover", asked),
        ("/plan", asked | work),
        ("/concurrency", asked | {"engine": "vllm", "engine_version": "0.6.6"}),
        ("/concurrency", asked | {"engine": "vllm", "lora_rank": 8, "max_model_len": 4096}),
        ("/concurrency", {"config": {"model_type": "llama"}, "kv_budget_bytes": 10**10}),
    )
    for path, fields in calls:
        found = await said(client, path, **fields)
        assert found
        assert not [each for each in found if out_of_style(each)]
