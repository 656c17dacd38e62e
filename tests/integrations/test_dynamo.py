"""Dynamo's CRD refuses what `check` refuses, in the same words. Its rules: tests/fixtures/integrations/dynamo.yaml."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.support.api import ApiUnderTest
from tests.support.readings import CLUSTERS, TABLES
from tests.support.upstream_crds import described, upstream_crd
from toposcope.integrations.dynamo.workload import SYSTEM as DYNAMO

NAME = {"v1alpha1": "topologyProfile", "v1beta1": "clusterTopologyName"}
DECODE = {"v1alpha1": "spec.services.decode", "v1beta1": "spec.components[2]"}


@pytest.mark.real_api("lengths of text")
@pytest.mark.parametrize("source", [described, upstream_crd])
@pytest.mark.parametrize("version", NAME)
def test_the_crd_and_we_say_the_same(api: ApiUnderTest, version: str, source: Callable[[str], dict[str, Any]]) -> None:
    api.install_crd(source(f"dynamo-dynamographdeployments-{version}-reduced"))
    path = f"/apis/nvidia.com/{version}/namespaces/default/dynamographdeployments"
    name, rack = NAME[version], {"packDomain": "rack"}
    for top, worker in (
        ({name: "cluster", "packDomain": "Rack"}, None),
        ({name: "cluster", "packDomain": ""}, None),
        ({name: "", "packDomain": "rack"}, None),
        ({"packDomain": "rack"}, None),
        ({name: "cluster"}, {"packDomain": "-rack"}),
        ({name: "cluster"}, {}),
        ({name: "cluster"}, rack),
        ({name: "cluster", "packDomain": "rack"}, rack),
    ):
        constraints = {"spec.topologyConstraint": top, f"{DECODE[version]}.topologyConstraint": worker}
        sample = f"DynamoGraphDeployment {version}"
        document = TABLES["dynamo"].document(sample, {"metadata.namespace": "default", **constraints})
        findings = DYNAMO.read(document, CLUSTERS["cluster"]).findings
        code, answer = api.request("POST", f"{path}?dryRun=All", document)
        if code != 201:
            assert code == 422, answer
            assert any(finding.message in answer["message"] for finding in findings), (answer["message"], findings)
        by_crd = {"dynamo/domain-pattern", "dynamo/topology-name", "dynamo/component-domain"}
        assert (code == 201) == by_crd.isdisjoint(finding.rule for finding in findings), (answer, findings)
