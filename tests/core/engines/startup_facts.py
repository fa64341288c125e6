"""What engines printed at start, as facts: figures of public startup logs, in GiB per GPU.

`id` names the log in the collection of startup logs (`../shared/truth/startup-logs.jsonl`); models
are entries of the catalogue, or of the same sizes as the one named.
"""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class StartupFact:
    """One start of vLLM on an H100 80 GB. None where the log does not say."""

    id: str
    model: str
    version: str
    utilization: float = 0.95
    tensor_parallel_size: int = 1
    max_model_len: int = 8192
    max_num_seqs: int | None = None
    quantization: str | None = None
    weights: float
    activation: float | None = None
    kv: float
    tokens: int | None
    concurrency: float | None
    arguments: dict[str, Any] = field(default_factory=dict)


LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
H100_STARTS = (
    StartupFact(
        id="row-a752a96edb",
        model=LLAMA,
        version="0.19.0",
        weights=14.99,
        activation=1.89,
        kv=58.11,
        tokens=476016,
        concurrency=58.11,
    ),
    StartupFact(
        id="row-8fd3995f29",
        model=LLAMA,
        version="0.19.0",
        quantization="fp8",
        weights=8.49,
        activation=1.89,
        kv=64.61,
        tokens=529248,
        concurrency=64.61,
    ),
    StartupFact(
        id="row-5b09a2c64b",
        model=LLAMA,
        version="0.19.0",
        tensor_parallel_size=2,
        weights=7.51,
        activation=1.89,
        kv=63.76,
        tokens=1044688,
        concurrency=127.53,
    ),
    StartupFact(
        id="llmd-emp-Llama-3.1-8B-Instruct-tp1",
        model=LLAMA,
        version="0.11.0",
        utilization=0.9,
        max_model_len=16000,
        weights=14.99,
        activation=4.76,
        kv=51.38,
        tokens=None,
        concurrency=None,
    ),
    StartupFact(
        id="row-f2c24f5d02",
        model="Qwen/Qwen3-14B",
        version="0.16.0",
        weights=27.52,
        activation=5.64,
        kv=41.94,
        tokens=274848,
        concurrency=33.55,
    ),
    StartupFact(
        id="row-4b64012ce6",
        model="Qwen/Qwen3-14B",
        version="0.17.0",
        weights=27.52,
        activation=2.23,
        kv=45.34,
        tokens=297152,
        concurrency=36.27,
    ),
    StartupFact(
        id="row-3638cf659d",
        model="deepseek-ai/DeepSeek-V2-Lite",
        version="0.19.0",
        weights=29.43,
        activation=1.93,
        kv=43.61,
        tokens=1505552,
        concurrency=183.78,
    ),
    StartupFact(
        id="row-2fbeacce30",
        model="Qwen/Qwen3-30B-A3B",
        version="0.19.0",
        weights=56.88,
        activation=2.68,
        kv=15.41,
        tokens=168288,
        concurrency=20.54,
    ),
    StartupFact(
        id="row-59e7575e1c",
        model="Qwen/Qwen3-30B-A3B",
        version="0.12.0",
        utilization=0.9,
        tensor_parallel_size=2,
        max_model_len=40960,
        max_num_seqs=64,
        weights=28.4571,
        kv=41.68,
        tokens=910464,
        concurrency=22.23,
    ),
    StartupFact(
        id="row-f75a679a17",
        model="google/gemma-2-2b-it",
        version="0.19.0",
        weights=4.9,
        activation=3.62,
        kv=66.47,
        tokens=670160,
        concurrency=81.73,
    ),
    StartupFact(
        id="row-b4cc78ab3d",
        model="google/gemma-3-4b-it",
        version="0.19.0",
        weights=8.58,
        activation=3.89,
        kv=62.51,
        tokens=468144,
        concurrency=57.05,
    ),
    StartupFact(
        id="row-bfc26ed7b6",
        model="openai/gpt-oss-20b",
        version="0.19.0",
        weights=13.64,
        activation=2.87,
        kv=58.47,
        tokens=1277184,
        concurrency=155.75,
    ),
    StartupFact(
        id="row-2d2a6f76f1",
        model="meta-llama/Llama-4-Scout-17B-16E-Instruct",
        version="0.19.0",
        tensor_parallel_size=4,
        weights=53.12,
        activation=3.19,
        kv=16.75,
        tokens=365968,
        concurrency=44.68,
    ),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class LlamaCppFact:
    """Buffers of one start of llama.cpp, in MiB."""

    id: str
    model: str
    context: int
    slots: int
    cache_type: str
    kv: float
    states: float
    compute: float


LLAMA_CPP_STARTS = (
    LlamaCppFact(
        id="row-cf8daf948b",
        model="Qwen/Qwen3-30B-A3B",
        context=4096,
        slots=1,
        cache_type="f16",
        kv=384.0,
        states=0,
        compute=300.75,
    ),
    LlamaCppFact(
        id="row-d1ea34c63a",
        model="Qwen/Qwen3-30B-A3B",
        context=4096,
        slots=16,
        cache_type="f16",
        kv=6144.0,
        states=0,
        compute=304.75,
    ),
    LlamaCppFact(
        id="row-9a6c23fb63",
        model="Qwen/Qwen3.5-35B-A3B",
        context=66816,
        slots=1,
        cache_type="f16",
        kv=1305.0,
        states=62.81,
        compute=640.52,
    ),
    LlamaCppFact(
        id="row-03985d038c",
        model="Qwen/Qwen3.5-35B-A3B",
        context=66816,
        slots=1,
        cache_type="q8_0",
        kv=693.28,
        states=62.81,
        compute=627.78,
    ),
    LlamaCppFact(
        id="row-a5c19fb718",
        model="Qwen/Qwen3.5-35B-A3B",
        context=66816,
        slots=1,
        cache_type="q4_0",
        kv=367.03,
        states=62.81,
        compute=627.78,
    ),
    LlamaCppFact(
        id="row-ad4b7ca198",
        model="Qwen/Qwen3.5-35B-A3B",
        context=4096,
        slots=8,
        cache_type="f16",
        kv=640.0,
        states=502.5,
        compute=501.0,
    ),
    LlamaCppFact(
        id="row-3b5af872c1",
        model="google/gemma-4-E4B-it",
        context=65536,
        slots=1,
        cache_type="f16",
        kv=1064.0,
        states=0,
        compute=517.5,
    ),
)
