"""The quick reference table, and one model in full."""

from functools import lru_cache

from app.answers.deployment import Deployment, deploy
from app.answers.steps import number
from app.catalog.models import CatalogueModel, ModelCatalogue
from app.resolve.model import ResolvedModel, catalogue_model
from app.schemas.models import ModelDetail, ModelList, ReferenceRow
from app.schemas.request import ModelFields

CONTEXTS = (8_192, 32_768, 131_072)


def reference_table(catalogue: ModelCatalogue, text: str | None = None) -> ModelList:
    """The catalogue's models, those with `text` in a name where it is given."""
    rows = [_catalogue_row(entry) for entry in catalogue.models]
    if text is not None:
        wanted = text.lower()
        rows = [
            row
            for row in rows
            if any(wanted in name.lower() for name in (row.id, row.architecture, *row.aliases))
        ]
    return ModelList(
        count=len(rows), models=rows, version=catalogue.version, digest=catalogue.digest
    )


def model_detail(model: ResolvedModel, entry: CatalogueModel | None) -> ModelDetail:
    """Everything known of one model."""
    deployment = deploy(ModelFields(), model, None)
    return ModelDetail(
        id=model.id or "",
        revision=model.revision,
        source=model.source,
        stale=model.stale,
        reference=_row(deployment, entry.aliases if entry is not None else ()),
        parameters=deployment.placed.parameters,
        layers=deployment.placed.layers,
        facts=None if entry is None else dict(entry.facts),
        sources=None if entry is None else dict(entry.sources),
        checked=None if entry is None else entry.checked,
        assumptions=list(deployment.assumptions),
    )


@lru_cache(maxsize=1024)
def _catalogue_row(entry: CatalogueModel) -> ReferenceRow:
    return _row(deploy(ModelFields(), catalogue_model(entry), None), entry.aliases)


def _row(deployment: Deployment, aliases: tuple[str, ...]) -> ReferenceRow:
    shape, profile = deployment.shape, deployment.load.whole
    at_8k, at_32k, at_128k = (profile.bytes_per_sequence(context) for context in CONTEXTS)
    return ReferenceRow(
        id=deployment.model.id or "",
        aliases=list(aliases),
        architecture=shape.architecture,
        parameters=shape.parameters.total,
        active_parameters=shape.parameters.active,
        weight_bytes=deployment.load.weight_bytes,
        kv_cache_dtype=deployment.layout.attention_dtype.name,
        kv_bytes_per_token=number(profile.bytes_per_token),
        kv_bytes_per_sequence_8k=at_8k,
        kv_bytes_per_sequence_32k=at_32k,
        kv_bytes_per_sequence_128k=at_128k,
        max_position_embeddings=shape.longest_context,
    )
