"""Bytes of published checkpoints against what our inventory makes of their config alone."""

import csv
from collections.abc import Iterator
from typing import Any

from app.core.model import ModelShape
from app.core.quantization import Scheme, scheme_storage
from app.core.weights import checkpoint_bytes
from app.resolve.quantization import scheme_of
from tests.truth.outcomes import Outcome, Tally
from tests.truth.shared import TRUTH, shape_of

CLOSE = 0.001
CLOSE_PACKED = 0.01
"""Differences that count as good: of 16 and 8-bit checkpoints, and of those of 4 bits and fewer."""
PACKED = ("int2", "int3", "int4", "nf4", "fp4", "nvfp4", "mxfp4")

EXPLAINED = {
    "OpenAssistant/oasst-sft-1-pythia-12b": "a causal mask of 2048 x 2048 bytes in each layer, "
    "which transformers stored before 4.31",
    "togethercomputer/RedPajama-INCITE-7B-Base": "a causal mask in each layer, which transformers "
    "stored before 4.31 (the index counts a truth value as an eighth of a byte)",
    "Qwen/Qwen3-VL-Embedding-8B": "the head is not stored: an embedding model published under the "
    "class name and config of the generating one",
    "THUDM/chatglm-6b": "the index is of the first revision: 150,528 tokens, the tied head stored",
    "microsoft/phi-2 (MixFormer revision)": "stored in 32 bits, the config says 16",
    "OpenAssistant/oasst-sft-4-pythia-12b-epoch-3.5": "the same mask, which the index counts as an "
    "eighth of a byte a truth value: 36 x (524,288 + 66) bytes",
    "Qwen/Qwen-VL-Chat-Int4": "AutoGPTQ stores a zero bias for each of its matrices (1,933,312 "
    "bytes), and one index of groups for query, key and value together, where we count three "
    "(1,048,576)",
    "THUDM/codegeex2-6b": "the rotary table is stored: 32 frequencies of 2 bytes",
    "TehVenom/Pygmalion-7b-Merged-Safetensors": "rotary frequencies are stored: 32 layers x 64 of "
    "2 bytes",
    "decapoda-research/llama-7b-hf": "rotary frequencies are stored: 32 layers x 64 of 2 bytes",
    "meta-llama/Llama-2-7b-hf": "rotary frequencies are stored: 32 layers x 64 of 4 bytes",
    "Logics-MLLM/Logics-Thinking": "its vision tower is not counted, which the answer says",
}
"""Why a checkpoint is not what its config describes, or what of it we do not count."""


def records() -> Iterator[dict[str, str]]:
    """Rows of the collection whose config is in it."""
    with (TRUTH / "checkpoint-bytes.tsv").open(encoding="utf-8") as lines:
        for row in csv.DictReader(lines, delimiter="\t"):
            if (TRUTH / "configs" / config_name(row)).exists():
                yield row


def config_name(row: dict[str, str]) -> str:
    """The config's file; a row may say more behind the hub id."""
    return row["hub_id"].split(" (")[0].replace("/", "__") + ".json"


def our_bytes(shape: ModelShape) -> tuple[int, bool]:
    """Bytes as stored, and whether elements are packed below eight bits."""
    scheme = scheme_of(shape.quantization) if shape.quantization else Scheme(name="none", rules=())
    stored = scheme_storage(scheme, shape.checkpoint_dtype or shape.dtype)
    formats = {run.format for weight in shape.weights for run in stored(weight)}
    return checkpoint_bytes(shape, stored), not formats.isdisjoint(PACKED)


def compare(ours: int, packed: bool, true: int) -> tuple[Outcome, list[str]]:
    """Exact, good enough, or how far off."""
    difference = (ours - true) / true
    words = [f"{ours} for {true} bytes ({difference:+.3%})"]
    if ours == true:
        return Outcome.EXACT, []
    return (
        Outcome.CLOSE if abs(difference) <= (CLOSE_PACKED if packed else CLOSE) else Outcome.WRONG
    ), words


def tally() -> Tally:
    """All rows."""
    result = Tally("Bytes of published checkpoints, from the config alone")
    for row in records():
        shape: Any = shape_of(config_name(row))
        if not isinstance(shape, ModelShape):
            result.add("unknown", Outcome.UNKNOWN, row["hub_id"], [shape.detail])
            continue
        outcome, words = compare(*our_bytes(shape), int(row["total_size_bytes"]))
        why = EXPLAINED.get(row["hub_id"])
        result.add(shape.model_type, outcome, row["hub_id"], [*words, *([why] if why else [])])
    return result
