"""The OpenAPI document: FastAPI's, with what our callers need besides."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from app.schemas.problem import Problem


def openapi_document(app: FastAPI) -> dict[str, Any]:
    """The document of an application, made once."""
    if app.openapi_schema is None:
        document = get_openapi(
            title=app.title,
            version=app.version,
            summary=app.summary,
            routes=app.routes,
        )
        _put_problem(document.setdefault("components", {}).setdefault("schemas", {}))
        document["components"]["schemas"] = dict(sorted(document["components"]["schemas"].items()))
        _put_examples(document)
        app.openapi_schema = document
    return app.openapi_schema


def _put_problem(schemas: dict[str, Any]) -> None:
    """Our problem schema in place of FastAPI's own error schemas."""
    own = Problem.model_json_schema(
        mode="serialization", ref_template="#/components/schemas/{model}"
    )
    schemas |= own.pop("$defs")
    schemas["Problem"] = own
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)


def _put_examples(document: dict[str, Any]) -> None:
    """The examples of a field as examples of its parameter: /docs fills its forms from those."""
    operations = [each for path in document["paths"].values() for each in path.values()]
    for operation in operations:
        for parameter in operation.get("parameters", []):
            if found := parameter["schema"].pop("examples", []):
                parameter["examples"] = {str(value): {"value": value} for value in found}
