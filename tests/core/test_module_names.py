"""Which copies of a weight a config's names mean."""

from dataclasses import replace

import pytest

from app.core.inventory import Part, Weight
from app.core.module_names import OUTSIDE, ModuleNames

LAYERS = 12


def weight(name: str, *, experts: int = 1, layers: int = LAYERS) -> Weight:
    return Weight(
        name=name,
        shape=(8, 8),
        part=Part.MLP,
        layers=tuple(range(layers)) if "{layer}" in name else None,
        experts=experts,
        linear=True,
    )


UP = weight("model.layers.{layer}.mlp.up_proj")
GATE = weight("model.layers.{layer}.mlp.gate")
HEAD = weight("lm_head")
EXPERT = weight("language_model.model.layers.{layer}.mlp.experts.{expert}.up_proj", experts=4)
BLOCK = weight("vision_tower.blocks.{layer}.mlp.up_proj")
MERGER = weight("model.visual.merger.mlp.2")


def layers_of(names: list[str], of: Weight, *, anywhere: bool = False) -> list[int]:
    """The layers of which all copies are meant."""
    copies = ModuleNames(names, anywhere=anywhere).copies_of(of)
    if copies is None:
        return list(of.layers or (OUTSIDE,))
    assert all(experts is None for experts in copies.values())
    return sorted(copies)


EVERY = list(range(LAYERS))


@pytest.mark.parametrize(
    ("names", "of", "layers"),
    [
        (["model.layers.3.mlp.up_proj", "model.layers.5.mlp.up_proj"], UP, [3, 5]),
        (["model.layers.3.mlp"], UP, [3]),
        (["model.layers.3.mlp.gate"], UP, []),
        (["model.layers.3.mlp.gate"], GATE, [3]),
        (["model.layers.99.mlp.up_proj"], UP, []),
        # What wraps the model differs between versions; the tower beside it does not move in.
        (["language_model.model.layers.3.mlp.up_proj"], UP, [3]),
        (["model.language_model.layers.3.mlp.up_proj"], UP, [3]),
        (["layers.3.mlp.up_proj"], UP, [3]),
        (["blocks.3.mlp.up_proj"], BLOCK, []),
        (["vision_tower.blocks.3.mlp.up_proj"], UP, []),
        (["language_model.lm_head"], HEAD, [OUTSIDE]),
        # Wildcards as ModelOpt writes them: in layers.1* the 1 begins 10 and 11 too.
        (["model.layers.1*"], UP, [1, 10, 11]),
        (["model.layers.1.*"], UP, [1]),
        (["model.layers.2.mlp*"], GATE, [2]),
        (["model.layers.2.self_attn*"], GATE, []),
        (["*.mlp.gate"], GATE, EVERY),
        (["model.layers.*.mlp.gate"], UP, []),
        (["*.layers.7.*"], UP, [7]),
        (["vision_tower*"], BLOCK, EVERY),
        (["*"], HEAD, [OUTSIDE]),
        (["model.*"], HEAD, []),
        (["model.*"], UP, EVERY),
        (["model.visual.merger.mlp.2"], MERGER, [OUTSIDE]),
        (["model.visual.merger.mlp.0"], MERGER, []),
        (["model.visual.merger.mlp.2*"], MERGER, [OUTSIDE]),
        # Patterns.
        (["re:.*mlp\\.(gate|up)_proj.*"], UP, EVERY),
        (["re:.*mlp\\.(gate|up)_proj.*"], GATE, []),
        (["re:model\\.layers\\.(1|2)\\..*"], UP, [1, 2]),
        (["re:^model\\.layers\\.[0-9]\\.mlp\\.up_proj$"], UP, list(range(10))),
        (["re:^(?!.*layers\\.(0|11)\\.).*up_proj"], UP, list(range(1, 11))),
        (["re:lm_head"], HEAD, [OUTSIDE]),
        (["re:language_model\\.model\\.layers\\.4\\."], UP, [4]),
    ],
)
def test_names_mean_layers(names: list[str], of: Weight, layers: list[int]) -> None:
    assert layers_of(names, of) == layers


@pytest.mark.parametrize(
    ("name", "of", "layers"),
    [
        ("mlp", UP, EVERY),
        ("mlp.gate", GATE, EVERY),
        ("mlp.gate", UP, []),
        ("gate", UP, []),
        ("visual", MERGER, [OUTSIDE]),
        ("layers.3.mlp", UP, [3]),
        ("layers.3", BLOCK, []),
    ],
)
def test_names_without_numbers_may_be_looked_for_anywhere(
    name: str, of: Weight, layers: list[int]
) -> None:
    assert layers_of([name], of, anywhere=True) == layers


def test_experts_are_told_apart() -> None:
    names = [f"model.layers.2.mlp.experts.{index}.up_proj" for index in range(4)]
    names += ["model.layers.3.mlp.experts.1.up_proj", "model.layers.4.mlp.experts"]
    assert ModuleNames(names).copies_of(EXPERT) == {2: None, 3: frozenset((1,)), 4: None}


def test_patterns_tell_experts_apart() -> None:
    copies = ModuleNames(["re:.*layers\\.5\\..*experts\\.[01]\\."]).copies_of(EXPERT)
    assert copies == {5: frozenset((0, 1))}


def test_parts_of_a_merged_parameter_go_by_its_name_too() -> None:
    part = replace(UP, fused="gate_up_proj")
    assert layers_of(["model.layers.3.mlp.gate_up_proj"], part) == [3]
    assert layers_of(["model.layers.3.mlp.gate_up_proj"], UP) == []


def test_several_kinds_of_names_add_up() -> None:
    names = ["model.layers.1.mlp.up_proj", "model.layers.2.mlp*", "re:.*layers\\.3\\."]
    assert layers_of(names, UP) == [1, 2, 3]
