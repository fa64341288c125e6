"""Schemathesis walks from answers to further questions: what a list names can be asked for."""

from pathlib import Path

import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import positive_data_acceptance

from app.main import create_app
from app.settings import Settings

_APP = create_app(Settings(hf_home=Path("no-such-folder"), hf_token=None, hf_hub_offline=True))
schema = schemathesis.openapi.from_asgi("/openapi.json", _APP)


class Walk(schema.as_state_machine()):  # type: ignore[misc] # made from the document
    def validate_response(self, response, case, **_):
        # As in test_schema_holds: rules no schema can say, and a hub that is switched off.
        case.validate_response(
            response, excluded_checks=[positive_data_acceptance, not_a_server_error]
        )
        if response.status_code >= 500:
            assert response.json()["type"] == "/problems/hub-offline"


TestWalk = Walk.TestCase
TestWalk.settings = settings(
    max_examples=25,
    stateful_step_count=6,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
