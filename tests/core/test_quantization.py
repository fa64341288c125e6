"""Schemes over an inventory: who gets which format, in which layers, and what a GPU holds of it.

The model: two layers; q 64 x 32 and o 32 x 64 with a bias of 32, four experts of 16 x 32 of which
a token uses one, a norm of 32, an embedding and a head of 100 x 32, a module that predicts.
"""

from collections import Counter
from dataclasses import replace
from fractions import Fraction

import pytest

from app.core.formats import per_block, per_channel, plain_elements
from app.core.inventory import Part, Split, Weight
from app.core.model import ModelShape
from app.core.module_names import ModuleNames
from app.core.precision import BFLOAT16, FLOAT32
from app.core.published import published_storage
from app.core.quantization import LANGUAGE, Rule, Scheme, scheme_storage
from app.core.weights import (
    STORED_TIED_HEAD,
    Sharding,
    Stored,
    checkpoint_bytes,
    gpu_shares,
    gpu_weight_bytes,
    loaded_bytes,
    step_weights,
    uniform_storage,
)

AT = "model.layers.{layer}"
Q = Weight(
    name=f"{AT}.self_attn.q_proj",
    shape=(64, 32),
    part=Part.ATTENTION,
    layers=(0, 1),
    split=Split.COLUMN,
    linear=True,
)
OUT = Weight(
    name=f"{AT}.self_attn.o_proj",
    shape=(32, 64),
    part=Part.ATTENTION,
    layers=(0, 1),
    bias=32,
    split=Split.ROW,
    linear=True,
)
EXPERT = Weight(
    name=f"{AT}.mlp.experts.{{expert}}.up_proj",
    shape=(16, 32),
    part=Part.ROUTED_EXPERTS,
    layers=(0, 1),
    experts=4,
    active=1,
    split=Split.COLUMN,
    linear=True,
)
NORM = Weight(name=f"{AT}.norm", shape=(32,), part=Part.NORM, layers=(0, 1))
EMBEDDING = Weight(
    name="model.embed_tokens", shape=(100, 32), part=Part.EMBEDDING, split=Split.VOCAB
)
HEAD = replace(EMBEDDING, name="lm_head", part=Part.HEAD, linear=True)
PREDICTION = replace(Q, name="mtp.layers.{layer}.proj", part=Part.MTP, layers=(0,))
MODEL = ModelShape(
    model_type="toy",
    architecture="Toy",
    num_hidden_layers=2,
    hidden_size=32,
    vocab_size=100,
    num_attention_heads=4,
    groups=(),
    weights=(Q, OUT, EXPERT, NORM, EMBEDDING, HEAD, PREDICTION),
)
BYTE = plain_elements("fp8", 8)


def scheme(*rules: Rule, stores_prediction: bool = True) -> Scheme:
    return Scheme(name="toy", rules=rules, stores_prediction=stores_prediction)


def runs(rules: Scheme, weight: Weight) -> list[tuple[object, int, int | Fraction, str]]:
    """Layers, experts, bytes of a copy and format."""
    stored = scheme_storage(rules, BFLOAT16)(weight)
    return [(run.layers, run.experts, run.size, run.format) for run in stored]


def test_what_no_rule_takes_keeps_its_precision() -> None:
    everything = scheme(Rule(format=BYTE))
    assert runs(everything, Q) == [((0, 1), 1, 64 * 32, "fp8")]
    assert runs(everything, HEAD) == [(None, 1, 100 * 32, "fp8")]
    assert runs(everything, NORM) == [((0, 1), 1, 64, "bfloat16")]
    assert runs(everything, EMBEDDING) == [(None, 1, 6400, "bfloat16")]
    assert runs(scheme(), Q) == [((0, 1), 1, 4096, "bfloat16")]


def test_the_first_rule_that_takes_a_copy_decides() -> None:
    rules = scheme(
        Rule(format=None, names=ModuleNames(["model.layers.1.self_attn"])),
        Rule(format=BYTE, parts=LANGUAGE),
    )
    assert runs(rules, Q) == [((1,), 1, 4096, "bfloat16"), ((0,), 1, 2048, "fp8")]
    assert runs(rules, EXPERT) == [((0, 1), 4, 512, "fp8")]


def test_experts_of_one_layer_may_differ() -> None:
    names = ["model.layers.0.mlp.experts.1.up_proj", "model.layers.0.mlp.experts.3.up_proj"]
    rules = scheme(Rule(format=None, names=ModuleNames(names)), Rule(format=BYTE))
    assert sorted(runs(rules, EXPERT), key=str) == sorted(
        [((0,), 2, 1024, "bfloat16"), ((0,), 2, 512, "fp8"), ((1,), 4, 512, "fp8")], key=str
    )


def test_rules_are_limited_by_part_place_and_shape() -> None:
    inside = scheme(Rule(format=BYTE, in_layers=True))
    assert runs(inside, HEAD)[0][3] == "bfloat16"
    also = scheme(Rule(format=BYTE, also=frozenset((Part.EMBEDDING,))))
    assert runs(also, EMBEDDING)[0][3] == "fp8"
    coarse = scheme(Rule(format=replace(BYTE, column_multiple=48)))
    assert runs(coarse, Q)[0][3] == "bfloat16"
    own = replace(Q, dtype=FLOAT32)
    assert runs(scheme(Rule(format=BYTE)), own) == [((0, 1), 1, 64 * 32 * 4, "float32")]


def test_bytes_of_the_whole_model() -> None:
    # Matrices at one byte: q 2 x 2048, o 2 x 2048, experts 8 x 512; the rest at two: biases 2 x 32,
    # norms 2 x 32, embedding and head 100 x 32 each. The prediction module is 2048 more.
    stored = scheme_storage(
        scheme(Rule(format=None, parts=frozenset((Part.HEAD,))), Rule(format=BYTE)), BFLOAT16
    )
    served = 2 * 2048 + 2 * 2048 + 8 * 512 + 2 * (64 + 64 + 2 * 3200)
    assert loaded_bytes(MODEL, stored) == served
    assert checkpoint_bytes(MODEL, stored) == served + 2048
    # The biases go with their matrices.
    of_format = Counter[str]()
    for share in gpu_shares(MODEL, stored, Sharding()):
        of_format[share.format] += share.size * share.count
    assert of_format == {"bfloat16": 2 * (64 + 2 * 3200), "fp8": 3 * 4096 + 2 * 64}


def test_a_tool_that_loses_the_prediction_modules_does_not_store_them() -> None:
    stored = scheme_storage(scheme(stores_prediction=False), BFLOAT16)
    assert checkpoint_bytes(MODEL, stored) == loaded_bytes(MODEL, stored)


def test_a_family_that_stores_its_tied_head_stores_it_twice() -> None:
    tied = replace(
        MODEL,
        weights=(EMBEDDING,),
        tie_word_embeddings=True,
        traits=frozenset((STORED_TIED_HEAD,)),
    )
    stored = uniform_storage(BFLOAT16)
    assert (checkpoint_bytes(tied, stored), loaded_bytes(tied, stored)) == (12_800, 6_400)


def test_what_a_gpu_holds() -> None:
    stored = scheme_storage(scheme(Rule(format=per_channel("int8", 8), parts=LANGUAGE)), BFLOAT16)
    # q: 64 x 32 + 64 scales of 4; o: 32 x 64 + 32 x 4, its bias whole; an expert 16 x 32 + 16 x 4.
    q, o, bias, expert, head = 2048 + 256, 2048 + 128, 64, 512 + 64, 3200 + 400
    whole = 2 * (q + o + bias + 4 * expert + 64) + 6400 + head
    assert gpu_weight_bytes(MODEL, stored, Sharding()) == whole
    halves = 2 * (q // 2 + o // 2 + bias + 4 * expert // 2 + 64) + 3200 + head // 2
    assert gpu_weight_bytes(MODEL, stored, Sharding(tensor_parallel_size=2)) == halves
    # Two of four experts each, whole.
    dealt = Sharding(tensor_parallel_size=2, expert_parallel_size=2)
    assert gpu_weight_bytes(MODEL, stored, dealt) == halves
    # Three ranks: at most two of four experts.
    three = Sharding(expert_parallel_size=3)
    assert gpu_weight_bytes(MODEL, stored, three) == whole - 2 * 2 * expert
    # 100 rows padded to 128, then halved.
    padded = Sharding(tensor_parallel_size=2, vocab_multiple=64)
    more = 28 * (64 + 36) // 2
    assert gpu_weight_bytes(MODEL, stored, padded) == halves + more


def test_stages_hold_their_own_layers_and_ends() -> None:
    rules = scheme(
        Rule(format=None, names=ModuleNames(["model.layers.1"])), Rule(format=BYTE, parts=LANGUAGE)
    )
    stored = scheme_storage(rules, BFLOAT16)
    tower = replace(Q, name="visual.blocks.{layer}.qkv", part=Part.VISION, layers=(0, 1, 2, 3))
    model = replace(MODEL, weights=(*MODEL.weights, tower))
    first = 2048 + 2048 + 64 + 4 * 512 + 64 + 6400 + 4 * 4096
    second = 2 * (2048 + 2048 + 4 * 512) + 64 + 64 + 3200
    assert gpu_weight_bytes(model, stored, Sharding(), range(1)) == first
    assert gpu_weight_bytes(model, stored, Sharding(), range(1, 2)) == second


def test_a_step_reads_the_experts_it_touches() -> None:
    stored = scheme_storage(
        scheme(Rule(format=BYTE, parts=frozenset((Part.ROUTED_EXPERTS,)))), BFLOAT16
    )
    step = step_weights(MODEL, stored, Sharding())
    assert step.always_bytes == 2 * (2 * (2048 + 2048 + 32 + 32) + 2 * 3200)
    assert step.routed == ((Fraction(1024), 4, 1),)
    assert step.bytes_for(1) == step.always_bytes + 1024
    # Two tokens: 4 (1 - (3/4)^2) = 7/4 experts.
    assert step.bytes_for(2) == step.always_bytes + 1792


@pytest.mark.parametrize(
    ("total", "loaded", "notes"),
    [
        # Two layers of 6,208 (q 2048, o 2048 + 32, experts 2048, norm 32), embedding and head
        # 6400: 18,816 elements of two bytes; 2048 of prediction more.
        (37_632 + 4_096, 37_632, 0),
        (37_632, 37_632, 0),
        # A thousandth more is spread without a word; one in ten is reported.
        (37_632 + 30, 37_662, 0),
        (33_869, 33_869, 1),
        # Stored in 32 bits, loaded in 16.
        (2 * 37_632, 37_632, 1),
    ],
)
def test_a_published_total_wins(total: int, loaded: int, notes: int) -> None:
    stored = uniform_storage(BFLOAT16)
    published = published_storage(MODEL, stored, stored, total, recast=True)
    assert loaded_bytes(MODEL, published.stored) == loaded
    assert len(published.notes) == notes


def test_a_tied_head_in_the_total_is_not_loaded() -> None:
    tied = replace(MODEL, weights=(EMBEDDING, Q), tie_word_embeddings=True)
    stored = uniform_storage(BFLOAT16)
    total = 6400 + 6400 + 2 * 4096
    published = published_storage(tied, stored, stored, total, recast=False)
    assert loaded_bytes(tied, published.stored) == 6400 + 2 * 4096
    assert published.notes == ()


def test_quantised_totals_are_not_recast() -> None:
    stored = scheme_storage(scheme(Rule(format=per_block("fp8", 8, 128, 128))), BFLOAT16)
    counted = checkpoint_bytes(MODEL, stored)
    published = published_storage(MODEL, stored, stored, 2 * counted, recast=False)
    assert loaded_bytes(MODEL, published.stored) == 2 * loaded_bytes(MODEL, stored)
    assert "+100.00%" in published.notes[0]


def test_copies_and_totals_of_a_run() -> None:
    run = Stored(layers=(3, 5), experts=4, size=10, bias=1, format="fp8")
    assert (run.copies, run.total) == (8, 88)
    assert replace(run, layers=None).copies == 4
