"""The models that ship with the product, and any other by its hub id."""

from typing import Annotated

from fastapi import Path, Query

from app.answers.models import model_detail, reference_table
from app.api.routing import api_router
from app.catalog.models import model_catalogue
from app.deps import ServicesDep
from app.schemas.models import ModelDetail, ModelList, ModelQuery, ModelsQuery
from app.schemas.request import ModelFields

router = api_router("models")

Organisation = Annotated[str, Path(min_length=1, max_length=96, examples=["Qwen"])]
Name = Annotated[str, Path(min_length=1, max_length=96, examples=["Qwen3-8B"])]
Alias = Annotated[str, Path(min_length=1, max_length=96, examples=["llama-3-8b"])]


@router.get("/models", summary="The quick reference table")
async def models(query: Annotated[ModelsQuery, Query()]) -> ModelList:
    """Bytes per token and per sequence, parameters and weights of every catalogue model."""
    return reference_table(model_catalogue(), query.q)


@router.get("/models/{org}/{name}", summary="One model with its sources")
async def model(
    org: Organisation, name: Name, query: Annotated[ModelQuery, Query()], services: ServicesDep
) -> ModelDetail:
    """From the catalogue, else from the local cache or the hub."""
    wanted = ModelFields(model=f"{org}/{name}", revision=query.revision)
    resolved = await services.models.resolve(wanted)
    entry = model_catalogue().find(wanted.model or "") if resolved.source == "catalogue" else None
    return model_detail(resolved, entry)


@router.get("/models/{name}", summary="One model by its alias")
async def model_by_alias(name: Alias, services: ServicesDep) -> ModelDetail:
    """A catalogue alias such as `llama-3-8b`."""
    resolved = await services.models.resolve(ModelFields(model=name))
    return model_detail(resolved, model_catalogue().find(name))
