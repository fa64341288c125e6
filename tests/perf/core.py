"""The arithmetic alone, without HTTP: how long the core takes for one question."""

import timeit
from collections.abc import Callable

from app.core.budget import MemoryBudget
from app.core.cache import CacheLayout
from app.core.concurrency import max_concurrency
from app.core.load import replica_load
from app.core.precision import BFLOAT16
from app.core.weights import Sharding, uniform_storage
from app.resolve.architectures import build
from app.resolve.architectures.fields import Config

_LLAMA_3_8B = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "torch_dtype": "bfloat16",
    "max_position_embeddings": 8192,
}


def cases() -> dict[str, Callable[[], object]]:
    """What is timed, by name."""
    shape = build(Config(_LLAMA_3_8B))
    layout, stored = CacheLayout(), uniform_storage(BFLOAT16)
    load = replica_load(shape, layout, stored, sharding=Sharding())

    def concurrency() -> object:
        budget = MemoryBudget(
            gpu_memory_bytes=80_000_000_000, weight_bytes=load.stages[0].weight_bytes
        )
        per_sequence = load.stages[0].profile.bytes_per_sequence(8192)
        return max_concurrency(budget.kv_budget_bytes, per_sequence)

    return {
        "a config read into a shape": lambda: build(Config(_LLAMA_3_8B)),
        "a shape placed on a GPU": lambda: replica_load(shape, layout, stored, sharding=Sharding()),
        "the concurrency of a placed shape": concurrency,
    }


def report() -> None:
    """Print the best of five rounds for each case."""
    print("core functions, Llama 3 8B")
    for name, run in cases().items():
        timer = timeit.Timer(run)
        loops = max(1, int(timer.autorange()[0]) // 4)
        best_us = min(timer.repeat(5, loops)) / loops * 1e6
        print(f"  {name}: {best_us:,.1f} us")
    print()
