"""How weights are loaded: as the request asks, as the checkpoint's total says, as described.

The model is Llama with one layer of width 256, two heads of 128, an MLP of 512 and 1000 tokens:
q, k, v and o 256 x 256 each, gate, up and down 512 x 256 each; embedding and head 1000 x 256;
three norms of 256.
"""

from dataclasses import replace
from typing import Any

import pytest

from app.core.weights import Sharding, gpu_shares, loaded_bytes
from app.errors import InputError
from app.resolve.architectures import shape_from_config
from app.resolve.quantization.loading import weight_storage

CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "num_hidden_layers": 1,
    "hidden_size": 256,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "intermediate_size": 512,
    "vocab_size": 1000,
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
}
MATRICES = 4 * 256 * 256 + 3 * 512 * 256
ROWS = 4 * 256 + 2 * 512 + 256
TABLES = 2 * 1000 * 256
NORMS = 3 * 256
SHAPE = shape_from_config(CONFIG)
FP8 = shape_from_config({**CONFIG, "quantization_config": {"quant_method": "fp8"}})
UNKNOWN = shape_from_config({**CONFIG, "quantization_config": {"quant_method": "quipu"}})
PLAIN = 2 * (TABLES + NORMS)


def load(shape: Any, **asked: Any) -> tuple[int, tuple[str, ...]]:
    stored, notes = weight_storage(shape, **asked)
    return loaded_bytes(shape, stored), notes


def test_the_description_alone() -> None:
    assert load(SHAPE) == (2 * (MATRICES + TABLES + NORMS), ())
    assert load(FP8) == (MATRICES + 7 * 4 + PLAIN, ())


@pytest.mark.parametrize(
    ("name", "matrices"),
    [
        ("fp8", MATRICES + 7 * 4),
        ("FP8_Per_Channel", MATRICES + ROWS * 4),
        # q, k, v, o in 2 x 2 blocks, the others in 4 x 2.
        ("fp8-block", MATRICES + 4 * (4 * 4 + 3 * 8)),
        ("int8", MATRICES + ROWS * 4),
        ("awq", MATRICES // 2 + MATRICES // 128 * 5 // 2),
        # int32 indices of the columns: six matrices of 256 and one of 512.
        ("gptq", MATRICES // 2 + MATRICES // 128 * 5 // 2 + 4 * (6 * 256 + 512)),
        ("w4a16", MATRICES // 2 + MATRICES // 128 * 2 + 7 * 16),
        ("nvfp4", MATRICES // 2 + MATRICES // 16 + 7 * 8),
        ("mxfp4", MATRICES // 2 + MATRICES // 32),
        ("bitsandbytes", MATRICES // 2 + MATRICES // 64 * 4 + 7 * (64 + 90)),
        ("none", 2 * MATRICES),
    ],
)
def test_a_quantisation_that_is_asked_for(name: str, matrices: int) -> None:
    size, notes = load(SHAPE, quantization=name)
    assert size == matrices + PLAIN
    assert len(notes) == (0 if name == "none" else 1)


def test_another_than_the_checkpoints_own_says_so() -> None:
    size, notes = load(FP8, quantization="mxfp4")
    assert size == MATRICES // 2 + MATRICES // 32 + PLAIN
    assert any("left out of account" in note for note in notes)
    assert load(FP8, quantization="none")[0] == 2 * (MATRICES + TABLES + NORMS)
    assert load(FP8, quantization="fp8") == load(FP8)


def test_precisions() -> None:
    assert load(SHAPE, dtype="float32")[0] == 4 * (MATRICES + TABLES + NORMS)
    assert load(SHAPE, dtype="auto") == load(SHAPE)
    # In 16 bits and more it is the precision of what is not quantised, below that of everything.
    assert load(FP8, dtype="float32")[0] == MATRICES + 7 * 4 + 2 * PLAIN
    assert load(FP8, dtype="int4")[0] == (MATRICES + TABLES + NORMS) // 2
    assert load(SHAPE, dtype="float32", quantization="fp8")[0] == MATRICES + 7 * 4 + 2 * PLAIN


def test_precisions_of_the_config_are_told() -> None:
    silent = replace(SHAPE, checkpoint_dtype=None)
    assert "states no precision" in load(silent)[1][0]
    single = shape_from_config({**CONFIG, "torch_dtype": "float32"})
    size, notes = load(single)
    assert (size, len(notes)) == (2 * (MATRICES + TABLES + NORMS), 1)


def test_the_checkpoints_total_wins_over_its_description() -> None:
    described = load(FP8)[0]
    size, notes = load(FP8, checkpoint_bytes=described * 11 // 10)
    assert size == described * 11 // 10
    assert "the total is used" in notes[0]
    stored, _ = weight_storage(FP8, checkpoint_bytes=described * 11 // 10)
    kept = {share.format for share in gpu_shares(FP8, stored, Sharding())}
    assert kept == {"bfloat16", "fp8"}
    assert load(FP8, checkpoint_bytes=described) == (described, ())
    # What a request asks for is counted, whatever the checkpoint takes.
    assert load(SHAPE, checkpoint_bytes=1, dtype="float16")[0] == 2 * (MATRICES + TABLES + NORMS)


def test_an_unknown_method_needs_the_checkpoints_total() -> None:
    with pytest.raises(InputError, match="quipu"):
        load(UNKNOWN)
    size, notes = load(UNKNOWN, checkpoint_bytes=500_000)
    assert size == 500_000
    assert any("quipu" in note for note in notes)
    # A caller who states the total needs the spread alone.
    size, notes = load(UNKNOWN, total_given=True)
    assert size == 2 * (MATRICES + TABLES + NORMS)
    assert any("quipu" in note for note in notes)


def test_an_unknown_request_is_refused_by_its_field() -> None:
    with pytest.raises(InputError) as refusal:
        load(SHAPE, quantization="quipu")
    assert refusal.value.errors[0].loc[-1] == "quantization"
    with pytest.raises(InputError) as refusal:
        load(SHAPE, dtype="quipu")
    assert refusal.value.errors[0].loc[-1] == "dtype"
