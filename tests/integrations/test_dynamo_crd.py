"""What Dynamo's CRDs refuse, we refuse in the same words; what we accept, they accept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.api import ApiUnderTest
from toposcope.integrations.dynamo.workload import Dynamo
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.integrations.framework.system import ClusterFacts
from toposcope.topology.levels import Level

FOLDER = Path(__file__).parents[3] / "shared" / "crds"
NAME = {"v1alpha1": "topologyProfile", "v1beta1": "clusterTopologyName"}
KNOWN = ClusterFacts({"cluster": TopologyLevels("cluster", (Level("rack", "example.com/rack"),))})

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"no CRDs of other projects in {FOLDER}")


def deployment(version: str, top: dict[str, Any], worker: dict[str, Any]) -> dict[str, Any]:
    parts: Any = {"worker": worker} if version == "v1alpha1" else [{"name": "worker", **worker}]
    return {
        "apiVersion": f"nvidia.com/{version}",
        "kind": "DynamoGraphDeployment",
        "metadata": {"name": "llm", "namespace": "default"},
        "spec": {"topologyConstraint": top, "services" if version == "v1alpha1" else "components": parts},
    }


@pytest.mark.parametrize("version", NAME)
def test_the_crd_and_we_say_the_same(api: ApiUnderTest, version: str) -> None:
    crd = yaml.load((FOLDER / f"dynamo-dynamographdeployments-{version}-reduced.yaml").read_bytes(), yaml.CSafeLoader)
    api.install_crd(crd)
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
        findings = Dynamo().read(document, KNOWN).findings
        code, answer = api.request("POST", f"{path}?dryRun=All", document)
        if code != 201:
            assert code == 422, answer
            assert any(finding.message in answer["message"] for finding in findings), (answer["message"], findings)
        by_crd = {"dynamo/domain-pattern", "dynamo/topology-name", "dynamo/component-domain"}
        assert (code == 201) == by_crd.isdisjoint(finding.rule for finding in findings), (answer, findings)
