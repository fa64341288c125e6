"""The OpenAPI document is valid and the committed one; /docs needs nothing from elsewhere."""

import json
import re
import sys

import httpx
from openapi_spec_validator import OpenAPIV31SpecValidator

from app import openapi
from tests.conftest import ROOT


def test_the_committed_document_is_what_the_code_makes():
    committed = (ROOT / "openapi" / "openapi.json").read_text(encoding="utf-8")
    assert committed == openapi.document(), "run make openapi"


def test_the_document_is_valid():
    OpenAPIV31SpecValidator(json.loads(openapi.document())).validate()


def test_every_operation_says_what_it_is_and_how_it_fails():
    for path, item in json.loads(openapi.document())["paths"].items():
        for method, operation in item.items():
            assert operation["summary"], (method, path)
            assert operation["description"], (method, path)
            assert operation["tags"], (method, path)
            assert {"200", "422", "4XX", "5XX"} <= operation["responses"].keys(), (method, path)


def test_the_command_writes_and_checks(tmp_path, monkeypatch, capsys):
    def run(*args: str) -> int:
        monkeypatch.setattr(sys, "argv", ["openapi", *args])
        return openapi.main()

    file = tmp_path / "deep" / "openapi.json"
    assert run("--check", str(file)) == 1
    assert run("--write", str(file)) == 0
    assert run("--check", str(file)) == 0
    file.write_text("{}", encoding="utf-8")
    assert run("--check", str(file)) == 1
    assert "run make openapi" in capsys.readouterr().err
    assert run() == 0
    assert json.loads(capsys.readouterr().out)["openapi"] == "3.1.0"


async def test_the_docs_page_takes_everything_from_here(client: httpx.AsyncClient):
    page = await client.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    links = re.findall(r"""(?:src|href|url)\s*[=:]\s*["']([^"']+)["']""", page.text)
    assert "/openapi.json" in links
    assert "//" not in page.text.replace("<!--", "").replace("-->", "")
    assert len(links) >= 4
    for link in links:
        asset = await client.get(link)
        assert asset.status_code == 200, link
        assert len(asset.content) > 500, link


async def test_the_style_sheet_names_no_other_host(client: httpx.AsyncClient):
    style = (await client.get("/docs/assets/swagger-ui.css")).text
    assert not re.findall(r"""url\(\s*["']?(?:https?:)?//""", style)
    assert "@import" not in style
