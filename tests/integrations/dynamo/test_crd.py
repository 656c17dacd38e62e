"""Dynamo's CRD refuses what `check` refuses, in the same words."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.integrations.clusters import CLUSTER
from tests.integrations.dynamo.versions import BOTH_VERSIONS, CONSTRAINT, Version
from tests.support.api import ApiUnderTest
from tests.support.checking import read
from tests.support.upstream_crds import described, upstream_crd

RULES_OF_THE_CRD = {"dynamo/domain-pattern", "dynamo/topology-name", "dynamo/component-domain"}
"""The others are rules of Dynamo's webhook."""


def constraints(version: Version) -> list[tuple[dict[str, str], dict[str, str] | None]]:
    """Constraints of a deployment and of its component decode."""
    name, rack = version.topology_name, {"packDomain": "rack"}
    return [
        ({name: "cluster", "packDomain": "Rack"}, None),
        ({name: "cluster", "packDomain": ""}, None),
        ({name: "", "packDomain": "rack"}, None),
        ({"packDomain": "rack"}, None),
        ({name: "cluster"}, {"packDomain": "-rack"}),
        ({name: "cluster"}, {}),
        ({name: "cluster"}, rack),
        ({name: "cluster", "packDomain": "rack"}, rack),
    ]


@pytest.mark.real_api("lengths of text")
@pytest.mark.parametrize("source", [described, upstream_crd])
@BOTH_VERSIONS
def test_crd_and_check_refuse_the_same_constraints(
    api: ApiUnderTest, version: Version, source: Callable[[str], dict[str, Any]]
) -> None:
    api.install_crd(source(f"dynamo-dynamographdeployments-{version.name}-reduced"))
    path = f"/apis/nvidia.com/{version.name}/namespaces/default/dynamographdeployments?dryRun=All"
    for deployment, decode in constraints(version):
        edits = {"metadata.namespace": "default", CONSTRAINT: deployment, version.decode_constraint: decode}
        document = version.deployment(edits=edits)
        findings = read("Dynamo", document, CLUSTER).findings
        refusals = [finding for finding in findings if finding.rule in RULES_OF_THE_CRD]

        code, answer = api.request("POST", path, document)

        assert code == (422 if refusals else 201), (answer, findings)
        if refusals:
            assert any(finding.message in answer["message"] for finding in findings), (answer["message"], findings)
