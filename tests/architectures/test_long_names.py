"""Names in a config come back in answers and refusals: none of them comes back at length."""

from typing import Any

import pytest

from app.errors import InputError
from app.resolve.architectures import shape_from_config
from app.resolve.quantization import scheme_of

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 100,
}
LONG = "A" * 1_000_000


@pytest.mark.parametrize(
    "named",
    [
        {"model_type": LONG},
        {"architectures": [LONG]},
        {"architectures": ["LlamaForCausalLM", LONG]},
        {"torch_dtype": LONG},
        {"quantization_config": {"quant_method": LONG}},
        {"model_type": "llava", "mm_vision_tower": LONG},
        {"model_type": "fuyu", "text_config": {"model_type": LONG}},
    ],
    ids="-".join,
)
def test_a_name_of_a_megabyte_is_refused_in_few_words(named: dict[str, Any]) -> None:
    with pytest.raises(InputError) as caught:
        scheme_of(shape_from_config(LLAMA | named).quantization or {})
    assert len(caught.value.detail) < 500
    assert len(str(caught.value.extra)) < 1_000


def test_the_longest_name_and_the_longest_pattern_are_read() -> None:
    named = {"architectures": ["LlamaForCausalLM" + "x" * 240]}
    assert shape_from_config(LLAMA | named).architecture == named["architectures"][0]
    # A pattern has a letter a layer: Nemotron-H of 300 attention layers.
    pattern = {
        "model_type": "nemotron_h",
        "num_key_value_heads": 4,
        "hybrid_override_pattern": "*" * 300,
    }
    assert shape_from_config(LLAMA | pattern).num_hidden_layers == 300
