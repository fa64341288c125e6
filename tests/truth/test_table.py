import pytest

from app.core.model import ModelShape
from app.resolve.architectures import shape_from_config
from tests.truth.engine_cache import hold
from tests.truth.outcomes import GOOD
from tests.truth.table import Run, config_of, counts, runs

RUNS = runs()


@pytest.fixture(scope="session")
def shapes() -> dict[str, ModelShape]:
    return {}


@pytest.mark.parametrize("run", RUNS, ids=[run.id for run in RUNS])
def test_what_vllm_plans(run: Run, shapes: dict[str, ModelShape]) -> None:
    shape = shapes.setdefault(run.config, shape_from_config(config_of(run.config)))
    outcome, words = hold(shape, run.record)
    assert outcome in GOOD, words


@pytest.mark.parametrize(("config", "truth"), counts())
def test_parameters_as_transformers_builds_them(config: str, truth: dict[str, int]) -> None:
    count = shape_from_config(config_of(config)).parameters
    assert {"total": count.total, "active": count.active} == truth


def test_the_table_covers_every_family_of_the_collection() -> None:
    families = {config_of(run.config).get("model_type") for run in RUNS}
    assert len(families) > 100
