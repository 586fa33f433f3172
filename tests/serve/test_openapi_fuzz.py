"""Requests made from the OpenAPI document: no bug answers, every answer is as the document says.

In this process, with fake models, over a store that has one memory. Each run makes the same ones.
"""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from serve.api import make_api
from tests.serve.conftest import KEYS, SESSION, Client
from tests.serve.local_services import LocalServices

HEADERS = {"Authorization": "Bearer key-a"}


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Any:
    # Not before: vLLM, which other tests start in this process, trips over its modules.
    schemathesis = pytest.importorskip("schemathesis")
    services = LocalServices(str(tmp_path_factory.mktemp("fuzz") / "store"))
    client = Client(services, KEYS)
    assert client("POST", "/v1/dialogues/d/sessions", json=SESSION).status_code == 200
    api = make_api(services, KEYS, lambda *seen: None)
    return schemathesis.openapi.from_asgi("/openapi.json", api, headers=HEADERS)


@pytest.mark.slow
@pytest.mark.ci
def test_every_answer_is_as_the_document_says(document: Any, subtests: pytest.Subtests) -> None:
    from schemathesis.specs.openapi.checks import positive_data_acceptance

    operations = [found.ok() for found in document.get_all_operations()]
    assert len(operations) > 15
    for operation in operations:
        with subtests.test(operation.label):

            @settings(
                max_examples=30,
                deadline=None,
                derandomize=True,
                database=None,
                suppress_health_check=list(HealthCheck),
            )
            @given(case=operation.as_strategy())
            def check(case: Any) -> None:
                # A body can break a rule that no schema states: it is refused, with the reason.
                case.call_and_validate(headers=HEADERS, excluded_checks=[positive_data_acceptance])

            check()
