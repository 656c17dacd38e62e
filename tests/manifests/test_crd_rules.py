"""What a real API server takes and refuses as a ClusterTopology, and what it says."""

from typing import Any

import msgspec
import pytest

from tests.manifests.support import TOPOLOGIES
from tests.support.api import ApiUnderTest
from tests.support.tables import rows


class Rule(msgspec.Struct, forbid_unknown_fields=True):
    """`message` is a part of what the server says of `field`; without both it takes the spec."""

    case: str
    spec: dict[str, Any]
    field: str = ""
    message: str = ""


RULES = rows("crd_rules.yaml", Rule)


def create(api: ApiUnderTest, spec: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    kind = {"apiVersion": "gpu.topology/v1alpha1", "kind": "ClusterTopology"}
    body = {**kind, "metadata": {"name": "rules"}, "spec": spec}
    return api.request("POST", f"{TOPOLOGIES}?dryRun=All&fieldValidation=Strict", body)


@pytest.mark.real_api("CEL rules of a CRD")
def test_what_every_scheduler_takes_is_taken(served: ApiUnderTest) -> None:
    answers = {rule.case: create(served, rule.spec) for rule in RULES if not rule.field}
    assert answers
    assert {name: body["message"] for name, (status, body) in answers.items() if status != 201} == {}


@pytest.mark.real_api("CEL rules of a CRD")
def test_what_some_scheduler_refuses_is_refused_with_field_and_fix(served: ApiUnderTest) -> None:
    surprises = {}
    for rule in (rule for rule in RULES if rule.field):
        status, body = create(served, rule.spec)
        causes = body.get("details", {}).get("causes", ()) if status == 422 else ()
        if not any(cause["field"] == rule.field and rule.message in cause["message"] for cause in causes):
            surprises[rule.case] = (status, body.get("message"))
    assert surprises == {}


def test_an_empty_spec_is_filled_in(served: ApiUnderTest) -> None:
    status, body = create(served, {})
    assert status == 201
    assert body["spec"] == {
        "minCoveragePercent": 95,
        "gracePeriod": "10m",
        "removalPolicy": "Remove",
        "segments": "Off",
        "publish": {"grove": "Auto", "kai": "Auto", "kueue": "Auto"},
    }


@pytest.mark.real_api("strict field validation")
def test_a_field_that_does_not_exist_is_named(served: ApiUnderTest) -> None:
    status, body = create(served, {"publish": {"volcano": "Auto"}})
    assert (status, body["message"].rpartition(": ")[2]) == (400, 'unknown field "spec.publish.volcano"')
