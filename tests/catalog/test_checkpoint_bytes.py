"""The catalogue's totals of published checkpoints (their index files) against what we count."""

import pytest

from app.catalog.models import CatalogueModel, model_catalogue
from app.core.quantization import Scheme, scheme_storage
from app.core.weights import checkpoint_bytes
from app.resolve.architectures import shape_from_config
from app.resolve.quantization import scheme_of
from app.resolve.quantization.loading import weight_storage

OTHER_FILES = {
    "Qwen/Qwen3-VL-Embedding-8B": "the head is not stored",
    "THUDM/chatglm-6b": "the index is of the first revision: more tokens, the tied head stored",
}
WEIGHED = [m for m in model_catalogue().models if m.checkpoint_bytes and m.id not in OTHER_FILES]
DESCRIBED = [m for m in model_catalogue().models if "quantization_config" in m.facts]


@pytest.mark.parametrize("model", WEIGHED, ids=[m.id for m in WEIGHED])
def test_published_totals_are_ours_within_a_thousandth(model: CatalogueModel) -> None:
    shape = shape_from_config(model.facts)
    scheme = scheme_of(shape.quantization) if shape.quantization else Scheme(name="", rules=())
    stored = scheme_storage(scheme, shape.checkpoint_dtype or shape.dtype)
    assert checkpoint_bytes(shape, stored) == pytest.approx(model.checkpoint_bytes, rel=0.001)


@pytest.mark.parametrize("name", sorted(OTHER_FILES))
def test_other_files_than_described_are_reported(name: str) -> None:
    model = model_catalogue().find(name)
    assert model is not None
    _, notes = weight_storage(
        shape_from_config(model.facts), checkpoint_bytes=model.checkpoint_bytes
    )
    assert "the total is used" in notes[-1]


@pytest.mark.parametrize("model", DESCRIBED, ids=[m.id for m in DESCRIBED])
def test_every_description_is_read(model: CatalogueModel) -> None:
    shape = shape_from_config(model.facts)
    stored, _ = weight_storage(shape)
    formats = {run.format for weight in shape.weights for run in stored(weight)}
    assert not formats <= {"bfloat16", "float16", "float32"}
