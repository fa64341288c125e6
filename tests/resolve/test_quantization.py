"""What checkpoints' own descriptions come to, form by form.

The model: Llama with two layers of width 4096, 32 heads of 128 with 8 KV heads, an MLP of 14336 and
a vocabulary of 128256; sizes below are of one layer's matrices:
q and o 4096 x 4096, k and v 1024 x 4096, gate and up 14336 x 4096, down 4096 x 14336.
"""

import copy
import random
from typing import Any

import pytest

from app.core.inventory import Part, Weight
from app.core.model import ModelShape
from app.core.quantization import scheme_storage
from app.core.weights import Stored, loaded_bytes
from app.errors import InputError
from app.resolve.architectures import shape_from_config
from app.resolve.quantization import METHODS, scheme_of

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "num_hidden_layers": 2,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
}
MIXTRAL: dict[str, Any] = LLAMA | {
    "model_type": "mixtral",
    "architectures": ["MixtralForCausalLM"],
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
}
MATRICES = 2 * 4096 * 4096 + 2 * 1024 * 4096 + 3 * 14336 * 4096
ROWS = 2 * 4096 + 2 * 1024 + 2 * 14336 + 4096
COLUMNS = 6 * 4096 + 14336
GROUPS_128 = MATRICES // 128
PLAIN = 2 * 2 * 128256 * 4096 + 2 * 4096 + 2 * 2 * 2 * 4096
"""Embedding, head, last norm, and two norms in each of two layers, in 16 bits."""


def quantised(description: dict[str, Any], config: dict[str, Any] = LLAMA) -> ModelShape:
    return shape_from_config({**config, "quantization_config": description})


def total(description: dict[str, Any], config: dict[str, Any] = LLAMA) -> int:
    shape = quantised(description, config)
    assert shape.quantization is not None
    return loaded_bytes(shape, scheme_storage(scheme_of(shape.quantization), shape.dtype))


def by_name(description: dict[str, Any], config: dict[str, Any] = LLAMA) -> dict[str, list[Stored]]:
    """Runs by the last components of a weight's name."""
    shape = quantised(description, config)
    stored = scheme_storage(scheme_of(description), shape.dtype)
    return {".".join(w.name.split(".")[-2:]): list(stored(w)) for w in shape.weights}


CT_GROUP: dict[str, Any] = {
    "targets": ["Linear"],
    "weights": {
        "num_bits": 4,
        "type": "int",
        "strategy": "group",
        "group_size": 128,
        "symmetric": True,
    },
}
CT_INT4: dict[str, Any] = {
    "quant_method": "compressed-tensors",
    "format": "pack-quantized",
    "ignore": ["lm_head"],
    "config_groups": {"group_0": CT_GROUP},
}
CT_FP8 = {
    "quant_method": "compressed-tensors",
    "format": "float-quantized",
    "ignore": ["lm_head"],
    "config_groups": {
        "group_0": {
            "targets": ["Linear"],
            "weights": {"num_bits": 8, "type": "float", "strategy": "channel"},
            "input_activations": {"num_bits": 8, "type": "float", "dynamic": True},
        }
    },
}
FORMS: list[tuple[str, dict[str, Any], int]] = [
    # All blocks are whole ones: one fp32 scale per 16,384 elements.
    (
        "fp8 in blocks",
        {"quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "dynamic"},
        2 * (MATRICES + MATRICES // 16_384 * 4),
    ),
    (
        "fp8, one static scale",
        {"quant_method": "fp8", "weight_block_size": None, "activation_scheme": "static"},
        2 * (MATRICES + 7 * 8),
    ),
    ("fbgemm", {"quant_method": "fbgemm_fp8"}, 2 * (MATRICES + ROWS * 4)),
    ("compressed-tensors fp8", CT_FP8, 2 * (MATRICES + ROWS * 2)),
    ("compressed-tensors int4", CT_INT4, 2 * (MATRICES // 2 + GROUPS_128 * 2 + 7 * 16)),
    (
        "ModelOpt fp8",
        {"quant_method": "modelopt", "quant_algo": "FP8", "ignore": ["lm_head"]},
        2 * (MATRICES + 7 * 8),
    ),
    (
        "ModelOpt without a method",
        {"quant_algo": "FP8", "ignore": ["lm_head"], "producer": {"name": "modelopt"}},
        2 * (MATRICES + 7 * 8),
    ),
    (
        "hf_quant_config.json",
        {
            "producer": {"name": "modelopt"},
            "quantization": {
                "quant_algo": "NVFP4",
                "group_size": 16,
                "exclude_modules": ["lm_head"],
            },
        },
        2 * (MATRICES // 2 + MATRICES // 16 + 7 * 8),
    ),
    (
        "GPTQ",
        {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False},
        2 * (MATRICES // 2 + GROUPS_128 // 2 + GROUPS_128 * 2 + COLUMNS * 4),
    ),
    # Three bits; one group a row: a zero of three bits and a 16-bit scale.
    (
        "GPTQ in 3 bits without groups",
        {"quant_method": "gptq", "bits": 3, "group_size": -1},
        2 * (MATRICES * 3 // 8 + ROWS * 3 // 8 + ROWS * 2 + COLUMNS * 4),
    ),
    (
        "AWQ",
        {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True},
        2 * (MATRICES // 2 + GROUPS_128 // 2 + GROUPS_128 * 2),
    ),
    (
        "AWQ as first published",
        {"w_bit": 4, "q_group_size": 128, "zero_point": True, "version": "GEMM"},
        2 * (MATRICES // 2 + GROUPS_128 // 2 + GROUPS_128 * 2),
    ),
    (
        "AutoRound",
        {
            "quant_method": "auto-round",
            "bits": 4,
            "group_size": 128,
            "data_type": "int",
            "packing_format": "auto_round:auto_awq",
            "block_name_to_quantize": "model.layers",
        },
        2 * (MATRICES // 2 + GROUPS_128 // 2 + GROUPS_128 * 2),
    ),
    (
        "LLM.int8",
        {"quant_method": "bitsandbytes", "load_in_8bit": True, "llm_int8_skip_modules": None},
        2 * (MATRICES + ROWS * 4 + 7),
    ),
    (
        "nf4, nested",
        {
            "quant_method": "bitsandbytes",
            "_load_in_4bit": True,
            "bnb_4bit_quant_type": "nf4",
            "bnb_4bit_use_double_quant": True,
        },
        2 * (MATRICES // 2 + MATRICES // 64 + MATRICES // 16_384 * 4 + 7 * (64 + 90 + 1024)),
    ),
    (
        "Quark",
        {
            "quant_method": "quark",
            "global_quant_config": {"weight": {"dtype": "fp8_e4m3", "qscheme": "per_tensor"}},
            "exclude": ["lm_head"],
        },
        2 * (MATRICES + 7 * 4),
    ),
    (
        "torchao",
        {
            "quant_method": "torchao",
            "quant_type": {
                "default": {"_type": "Int4WeightOnlyConfig", "_data": {"group_size": 128}}
            },
        },
        2 * (MATRICES // 2 + GROUPS_128 * 4),
    ),
    ("EETQ", {"quant_method": "eetq"}, 2 * (MATRICES + ROWS * 2)),
    (
        "HQQ",
        {"quant_method": "hqq", "nbits": 4, "group_size": 64},
        2 * (MATRICES // 2 + MATRICES // 16),
    ),
    ("BitNet", {"quant_method": "bitnet"}, 2 * (MATRICES // 4 + 7 * 4)),
]


@pytest.mark.parametrize(
    ("description", "matrices"), [form[1:] for form in FORMS], ids=[form[0] for form in FORMS]
)
def test_linear_layers_are_stored_as_described_and_the_rest_in_16_bits(
    description: dict[str, Any], matrices: int
) -> None:
    assert total(description) == matrices + PLAIN


def test_mlx_quantises_embedding_and_head_too() -> None:
    # Every matrix and both tables: half a byte and four bytes per 64 elements; five norms stay.
    elements = 2 * MATRICES + 2 * 128256 * 4096
    norms = 5 * 4096 * 2
    assert total({"bits": 4, "group_size": 64}) == elements // 2 + elements // 16 + norms
    shape = shape_from_config({**LLAMA, "quantization": {"bits": 4, "group_size": 64}})
    assert shape.quantization == {"bits": 4, "group_size": 64}


def test_mlx_modules_may_have_their_own() -> None:
    found = by_name(
        {
            "bits": 4,
            "group_size": 64,
            "model.layers.1.mlp.down_proj": {"bits": 8, "group_size": 32},
            "lm_head": False,
        }
    )
    assert [(r.layers, r.format) for r in found["mlp.down_proj"]] == [
        ((1,), "int8"),
        ((0,), "int4"),
    ]
    assert [r.format for r in found["lm_head"]] == ["bfloat16"]


def test_ignored_modules_by_name_and_pattern() -> None:
    ignore = ["lm_head", "re:.*self_attn.*", "model.layers.0.mlp.down_proj"]
    found = by_name({**CT_INT4, "ignore": ignore})
    assert [r.format for r in found["self_attn.q_proj"]] == ["bfloat16"]
    assert [(r.layers, r.format) for r in found["mlp.down_proj"]] == [
        ((0,), "bfloat16"),
        ((1,), "int4"),
    ]
    assert [r.format for r in found["mlp.up_proj"]] == ["int4"]


def test_named_targets_go_before_classes() -> None:
    groups = {
        "a": CT_GROUP,
        "b": {
            "targets": ["re:.*down_proj"],
            "weights": {"num_bits": 8, "type": "float", "strategy": "tensor"},
        },
        "c": {"targets": ["LlamaAttention"], "weights": None, "output_activations": {}},
    }
    found = by_name({**CT_INT4, "config_groups": groups})
    assert [r.format for r in found["mlp.down_proj"]] == ["fp8"]
    assert [r.format for r in found["mlp.up_proj"]] == ["int4"]


@pytest.mark.parametrize(
    ("weights", "layout", "bits"),
    [
        ({"num_bits": 4, "type": "float", "group_size": 16}, "nvfp4-pack-quantized", 4.5),
        ({"num_bits": 4, "type": "float", "group_size": 32}, "mxfp4-pack-quantized", 4.25),
        ({"num_bits": 8, "type": "float", "strategy": "group", "group_size": 32}, "mxfp8", 8.25),
        ({"num_bits": 8, "type": "int", "strategy": "channel"}, "int-quantized", 8.0),
        ({"num_bits": 4, "type": "int", "group_size": 32}, "pack-quantized", 4.5),
        ({"num_bits": 16, "type": "float"}, "dense", 16.0),
    ],
)
def test_compressed_tensors_formats(weights: dict[str, Any], layout: str, bits: float) -> None:
    group = {"targets": ["Linear"], "weights": weights, "format": layout}
    found = by_name(
        {"quant_method": "compressed-tensors", "config_groups": {"group_0": group}, "ignore": []}
    )
    (run,) = found["mlp.up_proj"]
    assert abs(float(run.size) * 8 / (14336 * 4096) - bits) < 0.005


def test_mixed_precision_names_a_format_a_module() -> None:
    found = by_name(
        {
            "quant_method": "modelopt",
            "quant_algo": "MIXED_PRECISION",
            "quantized_layers": {
                "model.layers.0.self_attn.q_proj": {"quant_algo": "FP8"},
                "model.layers.1.mlp.experts": {"quant_algo": "W4A16_NVFP4", "group_size": 16},
                "model.layers.0.block_sparse_moe.experts.3.w1": {"quant_algo": "mxfp8"},
                "model.layers.1.block_sparse_moe.experts": {"quant_algo": "NVFP4"},
                "lm_head": {"quant_algo": "FP8"},
            },
        },
        MIXTRAL,
    )
    assert [(r.layers, r.format) for r in found["self_attn.q_proj"]] == [
        ((0,), "fp8"),
        ((1,), "bfloat16"),
    ]
    experts = {(r.layers, r.experts): r.format for r in found["{expert}.w1"]}
    assert experts == {((0,), 1): "mxfp8", ((0,), 7): "bfloat16", ((1,), 8): "nvfp4"}
    assert [r.format for r in found["lm_head"]] == ["fp8"]


def test_experts_alone() -> None:
    description = {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]}
    found = by_name(description, MIXTRAL)
    assert [r.format for r in found["{expert}.w1"]] == ["mxfp4"]
    assert [r.format for r in found["self_attn.q_proj"]] == ["bfloat16"]


def test_experts_changed_after_fp8() -> None:
    found = by_name(
        {"quant_method": "fp8", "weight_block_size": [128, 128], "moe_quant_algo": "NVFP4"},
        MIXTRAL,
    )
    assert [r.format for r in found["{expert}.w1"]] == ["nvfp4"]
    assert [r.format for r in found["self_attn.q_proj"]] == ["fp8"]


def test_gptq_overrides_by_pattern() -> None:
    found = by_name(
        {
            "quant_method": "gptq",
            "bits": 4,
            "group_size": 128,
            "lm_head": True,
            "dynamic": {
                r"-:.*k_proj": {},
                r"+:.*\.1\..*down_proj": {"bits": 8, "group_size": 32},
            },
        }
    )
    assert [r.format for r in found["self_attn.k_proj"]] == ["bfloat16"]
    assert [(r.layers, r.format) for r in found["mlp.down_proj"]] == [
        ((1,), "int8"),
        ((0,), "int4"),
    ]
    assert [r.format for r in found["lm_head"]] == ["int4"]


def test_a_description_that_names_nothing_says_what_is_assumed() -> None:
    scheme = scheme_of({"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}})
    assert "names no modules" in scheme.assumptions[0]


@pytest.mark.parametrize(
    ("description", "field"),
    [
        ({"quant_method": "quipu"}, "quant_method"),
        ({"group": 3}, "quant_method"),
        ({"quant_method": "modelopt", "quant_algo": "FP1"}, "quant_algo"),
        ({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}, "quantized_layers"),
        ({"quant_method": "fp8", "weight_block_size": [128]}, "weight_block_size"),
        ({"quant_method": "fp8", "modules_to_not_convert": [1]}, "modules_to_not_convert"),
        ({"quant_method": "bitsandbytes"}, "load_in_4bit"),
        ({"quant_method": "gptq", "bits": 99}, "bits"),
        ({"quant_method": "torchao", "quant_type": "int5"}, "quant_type"),
        ({"quant_method": "quark"}, "global_quant_config"),
        ({"quant_method": "auto-round", "data_type": "mystery"}, "data_type"),
        ({"bits": 4, "mode": "cubic"}, "mode"),
        ({"quant_method": "compressed-tensors", "format": "marlin-24"}, "format"),
    ],
)
def test_what_is_not_known_is_refused_by_field(description: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError) as refusal:
        scheme_of(description)
    assert refusal.value.errors[0].loc[-1] == field


HOSTILE: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    10**30,
    1.5,
    float("nan"),
    "",
    "re:(a+)+$",
    "re:(",
    "*" * 300,
    "\0",
    [],
    [[]],
    ["re:" + "(a|a)*" * 40],
    ["model.layers.99999999999999999999.x", "x.*.y", ".", ".."],
    {},
    {"a": {"b": 1}},
    {"default": {"_type": "Int4WeightOnlyConfig", "_data": {"group_size": 0}}},
)


def _changed(rng: random.Random, value: Any) -> Any:
    if isinstance(value, dict) and value and rng.random() < 0.8:
        key = rng.choice(sorted(value))
        changed = {**value, key: _changed(rng, value[key])}
        if rng.random() < 0.1:
            del changed[key]
        return changed
    return copy.deepcopy(rng.choice(HOSTILE))


def test_descriptions_that_cannot_be_are_refused_and_never_crash() -> None:
    rng = random.Random(7)
    shape = shape_from_config(MIXTRAL)
    forms = [form[1] for form in FORMS] + [{"quant_method": method} for method in METHODS]
    extra = {
        "ignore": ["a"],
        "modules_to_not_convert": ["a"],
        "quantized_layers": {"a": {"quant_algo": "FP8"}},
        "dynamic": {"-:a": {}},
        "extra_config": {"a": {"bits": 8}},
        "llm_int8_skip_modules": ["a"],
        "layer_quant_config": {"a*": {"weight": {"dtype": "int4"}}},
        "exclude": ["a"],
    }
    answered = 0
    for _ in range(3_000):
        form: Any = {**rng.choice(forms), **extra}
        for _ in range(rng.randint(1, 3)):
            form = _changed(rng, form)
        if not isinstance(form, dict):
            continue
        try:
            assert loaded_bytes(shape, scheme_storage(scheme_of(form), shape.dtype)) > 0
            answered += 1
        except InputError:
            continue
    assert answered > 300


def test_a_weight_that_is_no_matrix_is_left_alone() -> None:
    scheme = scheme_of({"quant_method": "fp8"})
    conv = Weight(name="conv", shape=(8, 1, 4), part=Part.STATE, layers=(0,))
    shape = shape_from_config(LLAMA)
    assert [run.format for run in scheme_storage(scheme, shape.dtype)(conv)] == ["bfloat16"]
