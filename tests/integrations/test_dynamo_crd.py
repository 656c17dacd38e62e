"""What Dynamo's CRDs refuse, we refuse in the same words; what we accept, they accept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.api import ApiUnderTest
from tests.support.upstream_crds import described, upstream_crd
from toposcope.integrations.dynamo.workload import SYSTEM as DYNAMO
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.integrations.framework.system import ClusterFacts
from toposcope.topology.levels import Level

NAME = {"v1alpha1": "topologyProfile", "v1beta1": "clusterTopologyName"}
KNOWN = ClusterFacts({"cluster": TopologyLevels("cluster", (Level("rack", "example.com/rack"),))})


def deployment(version: str, top: dict[str, Any], worker: dict[str, Any]) -> dict[str, Any]:
    parts: Any = {"worker": worker} if version == "v1alpha1" else [{"name": "worker", **worker}]
    return {
        "apiVersion": f"nvidia.com/{version}",
        "kind": "DynamoGraphDeployment",
        "metadata": {"name": "llm", "namespace": "default"},
        "spec": {"topologyConstraint": top, "services" if version == "v1alpha1" else "components": parts},
    }


@pytest.mark.real_api("lengths of text")
@pytest.mark.parametrize("source", [described, upstream_crd])
@pytest.mark.parametrize("version", NAME)
def test_the_crd_and_we_say_the_same(api: ApiUnderTest, version: str, source: Callable[[str], dict[str, Any]]) -> None:
    api.install_crd(source(f"dynamo-dynamographdeployments-{version}-reduced"))
    path = f"/apis/nvidia.com/{version}/namespaces/default/dynamographdeployments"
    name, rack = NAME[version], {"topologyConstraint": {"packDomain": "rack"}}
    for top, worker in (
        ({name: "cluster", "packDomain": "Rack"}, {}),
        ({name: "cluster", "packDomain": ""}, {}),
        ({name: "", "packDomain": "rack"}, {}),
        ({"packDomain": "rack"}, {}),
        ({name: "cluster"}, {"topologyConstraint": {"packDomain": "-rack"}}),
        ({name: "cluster"}, {"topologyConstraint": {}}),
        ({name: "cluster"}, rack),
        ({name: "cluster", "packDomain": "rack"}, rack),
    ):
        document = deployment(version, top, worker)
        findings = DYNAMO.read(document, KNOWN).findings
        code, answer = api.request("POST", f"{path}?dryRun=All", document)
        if code != 201:
            assert code == 422, answer
            assert any(finding.message in answer["message"] for finding in findings), (answer["message"], findings)
        by_crd = {"dynamo/domain-pattern", "dynamo/topology-name", "dynamo/component-domain"}
        assert (code == 201) == by_crd.isdisjoint(finding.rule for finding in findings), (answer, findings)
