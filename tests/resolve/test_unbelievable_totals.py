"""A checkpoint's total that no weights could have is not believed, and the answer says so."""

from pathlib import Path
from typing import Any

import pytest

from app.catalog.models import model_catalogue
from app.hub.client import HubClient
from app.hub.config import HubConfig
from app.resolve.model import ModelResolver
from app.schemas.request import ModelFields
from tests.fake_hub import FakeHub, safetensors_bytes
from tests.resolve.test_hub_trouble import ask

CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 100,
}
# Embedding and head 2 x 100 x 64; a layer 4 x 64^2 + 3 x 64 x 128 + 2 x 64 = 41,088; a last norm:
# 12,800 + 2 x 41,088 + 64 = 95,040 parameters, which take 11,880 bytes at a bit each.
PARAMETERS = 95_040
INDEX = "model.safetensors.index.json"


async def read(files: dict[str, Any]) -> tuple[int | None, tuple[str, ...]]:
    async with FakeHub() as hub, HubClient(HubConfig(endpoint=hub.url)) as client:
        hub.add("org/model", {"config.json": CONFIG} | files)
        resolver = ModelResolver(model_catalogue(), client)
        model = await resolver.resolve(ModelFields(model="org/model"))
        assert model.shape.parameters.total == PARAMETERS
        return model.checkpoint_bytes, model.assumptions


@pytest.mark.parametrize(
    "files",
    [
        {INDEX: {"metadata": {"total_size": 1}}},
        {INDEX: {"metadata": {"total_size": 11_879}}},
        {"model.safetensors": safetensors_bytes({})},
        {"model.safetensors": safetensors_bytes({"a": ("BF16", [2], 4)})},
    ],
    ids=["a byte", "under a bit", "no tensors", "one tensor"],
)
async def test_less_than_a_bit_a_parameter_is_not_believed(files: dict[str, Any]) -> None:
    total, assumptions = await read(files)
    assert total is None
    assert any("95040 parameters: that is not believed" in note for note in assumptions)


@pytest.mark.parametrize("total", [11_880, 2 * PARAMETERS, 100 * PARAMETERS])
async def test_a_bit_a_parameter_and_more_is_what_the_checkpoint_says(total: int) -> None:
    assert await read({INDEX: {"metadata": {"total_size": total}}}) == (total, ())


async def test_the_weights_are_then_counted_by_the_config(tmp_path: Path) -> None:
    async with FakeHub() as hub:
        hub.add("org/model", {"config.json": CONFIG, INDEX: {"metadata": {"total_size": 1}}})
        answer = (await ask(hub.url, tmp_path, "/kv?model=org%2Fmodel&context=100")).json()
    # Two bytes each, as the config states no precision.
    assert answer["weight_bytes"] == 2 * PARAMETERS
    assert any("is not believed" in note for note in answer["assumptions"])
