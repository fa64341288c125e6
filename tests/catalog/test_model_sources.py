"""Where the models' facts are from can be checked by anybody."""

import pytest

from app.catalog.models import CatalogueModel, model_catalogue

ENTRIES = model_catalogue().models


@pytest.mark.parametrize("entry", ENTRIES, ids=[entry.id for entry in ENTRIES])
def test_sources_name_what_anybody_can_look_up(entry: CatalogueModel) -> None:
    published = entry.id if "/" in entry.id else "meta-llama/"
    assert published in entry.sources["facts"]
    counted = entry.sources["parameters"]
    assert any(word in counted for word in ("transformers", "formula", "the Hub shows", " x "))
    for source in entry.sources.values():
        assert not any(word in source for word in ("the text", "section", "worked-examples"))
