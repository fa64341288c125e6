"""Models that keep states: what a state takes, how their configs say which layer is what.

Sizes of states are worked out by hand in the comments. Parameter counts are those of transformers
5.24 for the given config, unless a comment says otherwise.
"""

from typing import Any

import pytest

from app.core.cache import CacheLayout, FullAttention, MlaLatent, RecurrentState, SlidingWindow
from app.core.model import LayerGroup, ModelShape
from app.core.precision import FLOAT32
from app.core.recurrent import (
    GatedDeltaState,
    KimiDeltaState,
    LightningState,
    Mamba1State,
    Mamba2State,
    ShortConvState,
    UnitState,
)
from app.errors import InputError
from app.resolve.architectures import shape_from_config

MAMBA2 = Mamba2State(num_heads=8, head_dim=4, state_size=16, n_groups=1, conv_kernel=4)
GROUPED = Mamba2State(num_heads=8, head_dim=4, state_size=16, n_groups=2, conv_kernel=4)
MAMBA1 = Mamba1State(intermediate_size=8, state_size=4, conv_kernel=4)
DELTA = GatedDeltaState(
    num_key_heads=2,
    num_value_heads=4,
    key_head_dim=4,
    value_head_dim=8,
    conv_kernel=4,
    state_dtype=FLOAT32,
)


@pytest.mark.parametrize(
    ("part", "tp", "speculative", "expected"),
    [
        # conv 3 x (32 + 2 x 16) and state 8 x 4 x 16, two bytes each
        (MAMBA2, 1, 0, 2 * (3 * 64 + 512)),
        # the one group is on both ranks: 3 x (16 + 2 x 16), state halved
        (MAMBA2, 2, 0, 2 * (3 * 48 + 256)),
        # a drafted token lengthens the convolution by one
        (MAMBA2, 2, 1, 2 * (4 * 48 + 256)),
        # two groups are split: 3 x (16 + 2 x 16)
        (GROUPED, 2, 0, 2 * (3 * 48 + 256)),
        (MAMBA1, 1, 0, 2 * (3 * 8 + 8 * 4)),
        # Mamba 1 keeps no drafted tokens
        (MAMBA1, 2, 3, 2 * (3 * 4 + 4 * 4)),
        # conv 3 x (2 x 2 x 4 + 4 x 8) x 2 bytes, state 4 x 8 x 4 x 4 bytes
        (DELTA, 1, 0, 2 * 3 * 48 + 4 * 128),
        (DELTA, 2, 2, 2 * 5 * 24 + 4 * 64),
        # conv over q, k and v: 3 x 3 x 8 x 2 bytes; 2 x 4 x 4 in fp32
        (KimiDeltaState(num_heads=2, head_dim=4, conv_kernel=4), 1, 0, 2 * 72 + 4 * 32),
        (KimiDeltaState(num_heads=2, head_dim=4, conv_kernel=4), 2, 0, 2 * 36 + 4 * 16),
        (ShortConvState(channels=16, conv_kernel=3), 4, 0, 2 * 2 * 4),
        (ShortConvState(channels=16, conv_kernel=3, replicated=True), 4, 0, 2 * 2 * 16),
        # the model's own precision
        (LightningState(num_heads=4, head_dim=8), 2, 0, 2 * 2 * 64),
        # 4 heads of 3 in fp32 and a tail of 2, and 5 that every rank keeps
        (
            UnitState(units=4, state_per_unit=3, tail_per_unit=2, shifted=5, state_dtype=FLOAT32),
            2,
            0,
            4 * 6 + 2 * (4 + 5),
        ),
    ],
)
def test_state_bytes(part: RecurrentState, tp: int, speculative: int, expected: int) -> None:
    layout = CacheLayout(tensor_parallel_size=tp, num_speculative_tokens=speculative)
    assert part.fixed_bytes(layout) == expected
    assert part.bytes_per_token(layout) == 0


@pytest.mark.parametrize("part", [MAMBA1, MAMBA2, GROUPED, DELTA])
def test_a_state_that_does_not_divide_is_refused(part: RecurrentState) -> None:
    with pytest.raises(InputError):
        part.fixed_bytes(CacheLayout(tensor_parallel_size=3))


def test_a_few_groups_are_neither_split_nor_replicated() -> None:
    with pytest.raises(InputError):
        GROUPED.fixed_bytes(CacheLayout(tensor_parallel_size=4))


def _kinds(shape: ModelShape) -> str:
    """One letter a layer: a full, w window, m latent, s state, b attention and state, - nothing."""
    letters = {index: _letter(group) for group in shape.groups for index in group.layers}
    assert sorted(letters) == list(range(shape.num_hidden_layers))
    return "".join(letters[index] for index in sorted(letters))


def _letter(group: LayerGroup) -> str:
    if not group.parts:
        return "-"
    first = group.parts[0]
    if len(group.parts) > 1:
        return "b"
    if isinstance(first, RecurrentState):
        return "s"
    if isinstance(first, MlaLatent):
        return "m"
    if isinstance(first, SlidingWindow):
        return "w"
    return "a" if isinstance(first, FullAttention) else "?"


NEMOTRON = {"model_type": "nemotron_h", "hidden_size": 64, "mamba_num_heads": 4}
KIMI = {"model_type": "kimi_linear", "hidden_size": 64, "num_attention_heads": 2}
SMALL = {"hidden_size": 64, "num_attention_heads": 8, "vocab_size": 128}
JET = {"jet": {"num_heads": 2, "head_dim": 4, "expand_v": 2.0}, "swa": {"window_size": 8}}


@pytest.mark.parametrize(
    ("config", "kinds"),
    [
        ({**NEMOTRON, "hybrid_override_pattern": "M-*E"}, "s-a-"),
        # the list wins, its length is the number of layers
        (
            {
                **NEMOTRON,
                "layers_block_type": ["mamba", "moe", "attention", "mamba"],
                "num_hidden_layers": 52,
            },
            "s-as",
        ),
        # lists count from 1
        (
            {
                **KIMI,
                "num_hidden_layers": 4,
                "linear_attn_config": {"full_attn_layers": [4], "kda_layers": [1, 2, 3]},
            },
            "sssm",
        ),
        ({**KIMI, "num_hidden_layers": 6}, "ssssms"),
        ({**SMALL, "model_type": "qwen3_next", "num_hidden_layers": 8}, "sssasssa"),
        (
            {
                **SMALL,
                "model_type": "qwen3_5_text",
                "num_hidden_layers": 4,
                "full_attention_interval": 2,
            },
            "sasa",
        ),
        # one entry more than there are layers (a prediction layer's) is dropped
        (
            {
                **SMALL,
                "model_type": "qwen3_5_moe_text",
                "num_hidden_layers": 2,
                "layer_types": ["linear_attention", "full_attention", "full_attention"],
            },
            "sa",
        ),
        ({**SMALL, "model_type": "jamba", "num_hidden_layers": 9}, "ssssassss"),
        (
            {**SMALL, "model_type": "bamba", "num_hidden_layers": 4, "attn_layer_indices": [2]},
            "ssas",
        ),
        ({**SMALL, "model_type": "falcon_h1", "num_hidden_layers": 2}, "bb"),
        (
            {
                **SMALL,
                "model_type": "granitemoehybrid",
                "num_hidden_layers": 3,
                "layer_types": ["mamba", "attention", "linear_attention"],
            },
            "sas",
        ),
        ({**SMALL, "model_type": "olmo_hybrid", "num_hidden_layers": 3}, "ssa"),
        (
            {**SMALL, "model_type": "lfm2", "num_hidden_layers": 4, "full_attn_idxs": [1, 3]},
            "sasa",
        ),
        ({**SMALL, "model_type": "lfm2", "num_hidden_layers": 2}, "aa"),
        ({**SMALL, "model_type": "lfm3", "num_hidden_layers": 7}, "ssaswsa"),
        (
            {
                **SMALL,
                "model_type": "minimax_m1",
                "num_hidden_layers": 3,
                "attn_type_list": [0, 1, 0],
            },
            "sas",
        ),
        (
            {
                **SMALL,
                "model_type": "jet_nemotron",
                "num_hidden_layers": 3,
                "intermediate_size": 128,
                "layer_types": ["jet", "attn", "swa"],
                "efficient_attention_config": JET,
            },
            "saw",
        ),
        (
            {
                "model_type": "zamba2",
                "layers_block_type": ["mamba", "hybrid"],
                "num_hidden_layers": 2,
            },
            "sb",
        ),
        # the remainder of the last group attends
        (
            {
                "model_type": "bailing_hybrid",
                "architectures": ["BailingMoeV3ForCausalLM"],
                "num_hidden_layers": 8,
                "layer_group_size": 3,
            },
            "ssmssmmm",
        ),
        ({**SMALL, "model_type": "recurrent_gemma", "num_hidden_layers": 4}, "ssws"),
        (
            {**SMALL, "model_type": "plamo2", "num_hidden_layers": 4, "full_attention_idx": [3]},
            "swsa",
        ),
        ({"model_type": "mamba", "num_hidden_layers": 2}, "ss"),
        ({"model_type": "rwkv5", "num_hidden_layers": 2}, "ss"),
    ],
)
def test_which_layer_keeps_what(config: dict[str, Any], kinds: str) -> None:
    assert _kinds(shape_from_config(config)) == kinds


def test_lightning_or_delta_by_the_architectures_name() -> None:
    config = {"model_type": "bailing_hybrid", "num_hidden_layers": 2, "layer_group_size": 2}
    new = shape_from_config(config).groups[0].parts[0]
    old = shape_from_config({**config, "architectures": ["BailingMoeV2_5ForCausalLM"]})
    assert isinstance(new, KimiDeltaState)
    assert isinstance(old.groups[0].parts[0], LightningState)


def test_a_block_without_attention_caches_nothing() -> None:
    attention = {"n_heads_in_group": 2, "no_op": False}
    ffn = {"ffn_mult": 1.5, "no_op": False}
    shape = shape_from_config(
        {
            "model_type": "nemotron-nas",
            "hidden_size": 512,
            "num_attention_heads": 8,
            "num_key_value_heads": None,
            "vocab_size": 128,
            "block_configs": [
                {"attention": attention, "ffn": ffn},
                {"attention": {"no_op": True, "n_heads_in_group": None}, "ffn": ffn},
                {"attention": {**attention, "n_heads_in_group": 4}, "ffn": {"no_op": True}},
            ],
        }
    )
    heads = [
        part.num_key_value_heads
        for group in shape.groups
        for part in group.parts
        if isinstance(part, FullAttention)
    ]
    assert _kinds(shape) == "a-a"
    assert heads == [4, 2]
    # 2 x 1.5 x 512 / 3 is 512 already, a multiple of 256
    gates = [w.shape for w in shape.weights if w.name.endswith("mlp.gate_proj")]
    assert gates == [(512, 512)]


@pytest.mark.parametrize(
    ("config", "state"),
    [
        ({"model_type": "nemotron_h", "hybrid_override_pattern": "M"}, FLOAT32),
        ({"model_type": "qwen3_5_text", "mamba_ssm_dtype": "float32"}, FLOAT32),
        ({"model_type": "qwen3_5_text"}, None),
        ({"model_type": "falcon_h1"}, None),
    ],
)
def test_precision_of_the_state(config: dict[str, Any], state: Any) -> None:
    parts = [part for group in shape_from_config(config).groups for part in group.parts]
    states = [part for part in parts if isinstance(part, RecurrentState)]
    assert [part.state_dtype for part in states] == [state]


def test_fp8_caches_leave_the_state_alone() -> None:
    # Qwen3.5-35B-A3B: conv 3 x (2 x 16 x 128 + 32 x 128) x 2 bytes, state 32 x 128 x 128 in fp32
    shape = shape_from_config({"model_type": "qwen3_5_moe_text", "mamba_ssm_dtype": "float32"})
    state = next(p for g in shape.groups for p in g.parts if isinstance(p, RecurrentState))
    assert state.fixed_bytes(CacheLayout()) == 3 * 8192 * 2 + 524288 * 4


@pytest.mark.parametrize(
    ("config", "modules", "layers"),
    [
        # a prediction layer that no key mentions
        ({**SMALL, "model_type": "qwen3_next", "num_hidden_layers": 4}, 1, [(4,)]),
        ({**SMALL, "model_type": "qwen3_5_text", "num_hidden_layers": 4}, 0, []),
        (
            {
                **SMALL,
                "model_type": "qwen3_5_text",
                "num_hidden_layers": 4,
                "mtp_num_hidden_layers": 1,
            },
            1,
            [(4,)],
        ),
        (
            {
                **NEMOTRON,
                "hybrid_override_pattern": "M*",
                "num_nextn_predict_layers": 1,
                "mtp_hybrid_override_pattern": "*E",
            },
            1,
            [(2,)],
        ),
    ],
)
def test_prediction_modules(
    config: dict[str, Any], modules: int, layers: list[tuple[int, ...]]
) -> None:
    shape = shape_from_config(config)
    assert len(shape.draft_groups) == modules
    assert [group.layers for group in shape.draft_groups] == layers


@pytest.mark.parametrize(
    ("config", "total"),
    [
        ({"model_type": "mamba"}, 159_308_544),
        ({"model_type": "mamba2"}, 7_285_403_648),
        ({"model_type": "jamba"}, 51_570_323_328),
        ({"model_type": "bamba"}, 9_992_765_440),
        ({"model_type": "falcon_h1"}, 8_514_961_408),
        ({"model_type": "zamba"}, 7_232_490_496),
        ({"model_type": "zamba2"}, 2_481_848_336),
        ({"model_type": "granitemoehybrid"}, 38_601_064_448),
        ({"model_type": "olmo_hybrid"}, 7_430_870_688),
        ({"model_type": "nemotron_h"}, 1_968_355_712),
        ({"model_type": "lfm2"}, 2_705_497_600),
        ({"model_type": "lfm3"}, 1_728_801_536),
        ({"model_type": "qwen3_next"}, 79_674_391_296),
        ({"model_type": "qwen3_5_text"}, 8_953_803_264),
        ({"model_type": "qwen3_5_moe_text"}, 34_660_610_688),
        ({"model_type": "kimi_linear"}, 49_133_074_464),
        ({"model_type": "minimax"}, 47_373_946_880),
        ({"model_type": "bailing_hybrid"}, 124_414_191_072),
        ({"model_type": "recurrent_gemma"}, 2_010_263_040),
        ({"model_type": "rwkv"}, 7_392_649_216),
    ],
)
def test_parameters_of_class_defaults(config: dict[str, Any], total: int) -> None:
    assert shape_from_config(config).parameters.total == total


def test_a_flat_text_config_has_no_vision_tower() -> None:
    flat = shape_from_config(
        {
            "model_type": "qwen3_5_moe_text",
            "architectures": ["Qwen3_5MoeForConditionalGeneration"],
            "num_experts": 128,
        }
    )
    assert not [weight for weight in flat.weights if "visual" in weight.name]


@pytest.mark.parametrize(
    "config",
    [
        # which layers are what is not said
        {"model_type": "nemotron_h", "num_hidden_layers": 52},
        {"model_type": "lfm2_moe", "num_hidden_layers": 4},
        {"model_type": "zamba2", "num_hidden_layers": 10},
        {**SMALL, "model_type": "jet_nemotron", "num_hidden_layers": 2, "intermediate_size": 8},
        {"model_type": "nemotron_h", "hybrid_override_pattern": "M?*"},
        {"model_type": "nemotron_h", "layers_block_type": []},
        {"model_type": "qwen3_next", "num_hidden_layers": 4, "layer_types": ["full_attention"]},
        {"model_type": "qwen3_next", "num_hidden_layers": 1, "layer_types": ["sliding"]},
        {"model_type": "falcon_h1", "mamba_n_heads": 7},
        {"model_type": "mamba2", "num_heads": 3},
        {"model_type": "nemotron-nas", "block_configs": [{"attention": None}]},
        {"model_type": "nemotron-nas", "block_configs": [1, 2]},
        {"model_type": "rwkv7", "attn": {"layers": [1]}},
    ],
)
def test_what_cannot_be_known_is_refused(config: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        shape_from_config(config)
