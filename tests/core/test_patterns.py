"""Patterns out of configs: the same verdicts as `re.match`, and no way to be slow."""

import random
import re
import warnings

import pytest

from app.core.patterns import Fuel, Matcher, compile_patterns, glob_pattern
from app.errors import InputError

NAMES = (
    "lm_head",
    "language_model.lm_head",
    "model.layers.12.mlp.gate",
    "model.layers.12.mlp.gate_proj",
    "model.layers.2.mlp.experts.7.up_proj",
    "model.layers.22.self_attn.q_proj",
    "vision_tower.blocks.0.attn.qkv",
    "",
)
REAL = (
    r".*lm_head",
    r".*self_attn.*",
    r".*mlp\.(gate|up|gate_up|down)_proj.*",
    r"^model\.layers\.\d+\.mlp\.gate$",
    r".*\.experts\.[0-9]+\..*",
    r".*layers\.(2|1[0-9])\..*",
    r"^(?!.*experts).*_proj",
    r"(?=.*mlp)(?!.*gate$).*",
    r"vision_tower.*",
    r"model.layers.\d{2}.mlp.gate_?p?",
    r"[^.]+\.[^v]\w+",
)


def matcher(pattern: str) -> Matcher:
    (only,) = compile_patterns([pattern], Fuel())
    return only


@pytest.mark.parametrize("pattern", REAL)
def test_patterns_of_real_configs_match_as_re_does(pattern: str) -> None:
    ours = matcher(pattern)
    assert [ours.matches(name) for name in NAMES] == [
        re.match(pattern, name) is not None for name in NAMES
    ]


def test_random_patterns_match_as_re_does_or_are_refused() -> None:
    rng = random.Random(20)
    compared = 0
    for _ in range(4_000):
        pattern = "".join(rng.choices("ab.*+?()|[]{}1,$^\\d", k=rng.randint(1, 9)))
        try:
            ours = matcher(pattern)
        except InputError:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = re.compile(pattern)
        for _ in range(4):
            name = "".join(rng.choices("ab1.", k=rng.randint(0, 6)))
            assert ours.matches(name) == (theirs.match(name) is not None), (pattern, name)
            compared += 1
    assert compared > 2_000


def test_any_of_several_patterns_may_match() -> None:
    ours = compile_patterns(["a+$", "b(?:c|d)", "(?!a).*z$"], Fuel())
    verdicts = {
        name: any(m.matches(name) for m in ours) for name in ("aaa", "aab", "bd", "be", "yz", "az")
    }
    assert verdicts == {
        "aaa": True,
        "aab": False,
        "bd": True,
        "be": False,
        "yz": True,
        "az": False,
    }


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        ")",
        "a(b",
        "[a",
        "*a",
        "a**",
        "a{2,1}",
        "a{99}",
        "a{x}",
        r"\1",
        r"\b",
        "(?P<n>a)",
        "a(?=b)",
        "(?<=a)b",
        "a^b",
        "a$b",
        "x" * 1000,
        "(" * 100 + ")" * 100,
    ],
)
def test_what_is_not_read_is_refused_by_name(pattern: str) -> None:
    with pytest.raises(InputError) as refusal:
        matcher(pattern)
    assert refusal.value.errors[0].type == "pattern"


@pytest.mark.parametrize(
    "pattern",
    [r"(a+)+$", r"(a|a)*$", r"(.*a){30}$", r"(?!(a*)*b)(a*)*c", ".*" * 100 + "$"],
)
def test_patterns_that_ruin_re_cost_little(pattern: str) -> None:
    fuel = Fuel(1_000_000)
    (ours,) = compile_patterns([pattern], fuel)
    ours.matches("a" * 500 + "!")
    assert fuel.left > 0


def test_what_patterns_cost_together_is_limited() -> None:
    with pytest.raises(InputError, match="intricate"):
        compile_patterns(["((((a{32}){32}){32}){32}){32}"], Fuel())
    # Each text of the last 21 characters is a state of its own.
    (ours,) = compile_patterns(["(a|b)*a(a|b){20}$"], Fuel(20_000))
    with pytest.raises(InputError, match="intricate"):
        ours.matches("".join(random.Random(1).choices("ab", k=5_000)))


def test_globs_stand_for_a_module_and_what_is_beneath_it() -> None:
    ours = matcher(glob_pattern("model.layers.*.self_attn"))
    assert ours.matches("model.layers.3.self_attn")
    assert ours.matches("model.layers.3.self_attn.q_proj")
    assert not ours.matches("model.layers.3.self_attn_norm")
    assert not ours.matches("model_layers.3.self_attn")
