"""Schemathesis over the whole OpenAPI document: no 500, and nothing that the document excludes."""

from pathlib import Path

import schemathesis
from hypothesis import HealthCheck, settings

from app.main import create_app
from app.settings import Settings

_APP = create_app(Settings(hf_home=Path("no-such-folder"), hf_token=None, hf_hub_offline=True))
schema = schemathesis.openapi.from_asgi("/openapi.json", _APP)


@schema.parametrize()
@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
def test_every_operation(case: schemathesis.Case):
    case.call_and_validate()
