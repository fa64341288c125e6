"""The interactive documentation, with every asset served by us: it works without internet."""

from importlib.resources import files
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.staticfiles import StaticFiles

ASSETS = "/docs/assets"
_SWAGGER_UI: dict[str, Any] = {
    "validatorUrl": None,  # else the page asks a public service to check our schema
    "deepLinking": True,
    "tryItOutEnabled": True,
}


def mount_docs(app: FastAPI) -> None:
    """Serve Swagger UI at /docs; its files come from the installed fastapi-offline package."""

    async def docs(request: Request) -> HTMLResponse:
        root = request.scope.get("root_path", "")
        return get_swagger_ui_html(
            openapi_url=f"{root}{app.openapi_url}",
            title=f"{app.title} {app.version}",
            swagger_js_url=f"{root}{ASSETS}/swagger-ui-bundle.js",
            swagger_css_url=f"{root}{ASSETS}/swagger-ui.css",
            swagger_favicon_url=f"{root}{ASSETS}/favicon.png",
            swagger_ui_parameters=_SWAGGER_UI,
        )

    app.add_route("/docs", docs, include_in_schema=False)
    folder = str(files("fastapi_offline") / "static")
    app.mount(ASSETS, StaticFiles(directory=folder), name="docs-assets")
