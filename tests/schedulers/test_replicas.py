"""kube-scheduler keeps the two controllers of every rollout apart, on Nodes without a zone too."""

from typing import Any, Final

import pytest
import yaml
from tests.support.api import ApiUnderTest, node
from tests.support.paths import MANIFESTS
from tools.apiserver.client import wait_until

pytestmark = pytest.mark.slow

_ROLLOUTS: Final = 10
_NODES: Final = "/api/v1/nodes"
_PODS: Final = "/api/v1/namespaces/default/pods"
_CLUSTERS: Final = {"no-zones": ("", ""), "two-zones": ("a", "b"), "a-zone-on-one-of-three": ("", "a", "")}
"""The zone of each node; empty: its Node has none."""


def _node(api: ApiUnderTest, cluster: str, name: str, zone: str) -> None:
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "cluster": cluster}
    api.create(_NODES, node(name, labels=labels | ({"topology.kubernetes.io/zone": zone} if zone else {})))
    # Admission has added a taint that only a node controller would remove.
    api.patch(f"{_NODES}/{name}", {"spec": {"taints": []}})
    room = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    status = {"allocatable": room, "capacity": room, "conditions": [{"type": "Ready", "status": "True"}]}
    api.patch(f"{_NODES}/{name}/status", {"status": status})


def _chosen(api: ApiUnderTest, name: str, labels: dict[str, str], spec: dict[str, Any]) -> str:
    """The node that kube-scheduler chooses for a new pod."""
    api.create(_PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec})
    wait_until(lambda: "nodeName" in api.get(f"{_PODS}/{name}")["spec"], f"{name} is scheduled", 30.0)
    chosen: str = api.get(f"{_PODS}/{name}")["spec"]["nodeName"]
    return chosen


def test_the_controllers_of_a_rollout_run_apart(kube_scheduler: ApiUnderTest) -> None:
    deployment = yaml.safe_load((MANIFESTS / "base" / "controller-deployment.yaml").read_text(encoding="utf-8"))
    template = deployment["spec"]["template"]
    together = []
    for cluster, zones in _CLUSTERS.items():
        for number, zone in enumerate(zones):
            _node(kube_scheduler, cluster, f"{cluster}-{number}", zone)
        spec = template["spec"] | {"serviceAccountName": "default", "nodeSelector": {"cluster": cluster}}
        for rollout in range(_ROLLOUTS):
            labels = template["metadata"]["labels"] | {"pod-template-hash": f"{cluster}-{rollout}"}
            nodes = set()
            for replica in range(2):
                nodes.add(_chosen(kube_scheduler, f"{cluster}-{rollout}-{replica}", labels, spec))
                if rollout:  # maxSurge 1, maxUnavailable 0: then an old pod goes
                    old = f"{_PODS}/{cluster}-{rollout - 1}-{replica}?gracePeriodSeconds=0"
                    assert kube_scheduler.request("DELETE", old)[0] == 200
            together += [labels["pod-template-hash"]] if len(nodes) == 1 else []
    assert together == []
