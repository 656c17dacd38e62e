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


def create_node(api: ApiUnderTest, cluster: str, name: str, zone: str) -> None:
    """A Node that is Ready; its zone is empty where it has none."""
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "cluster": cluster,
    }
    if zone:
        labels["topology.kubernetes.io/zone"] = zone
    api.create(_NODES, node(name, labels=labels))
    # Admission has added a taint that only a node controller would remove.
    api.patch(f"{_NODES}/{name}", {"spec": {"taints": []}})
    room = {
        "cpu": "16",
        "memory": "64Gi",
        "pods": "110",
    }
    status = {
        "allocatable": room,
        "capacity": room,
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    api.patch(f"{_NODES}/{name}/status", {"status": status})


def chosen_node(api: ApiUnderTest, name: str, labels: dict[str, str], spec: dict[str, Any]) -> str:
    """The node that kube-scheduler chooses for a new pod."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
    }
    api.create(_PODS, pod)
    path = f"{_PODS}/{name}"
    wait_until(lambda: "nodeName" in api.get(path)["spec"], f"{name} is scheduled", 30.0)
    chosen: str = api.get(path)["spec"]["nodeName"]
    return chosen


CLUSTERS = {
    "no-zones": ("", ""),
    "two-zones": ("a", "b"),
    "zone-on-one-of-three": ("", "a", ""),
}
"""The zone of each node; empty: its Node has none."""


def test_controllers_of_a_rollout_run_apart(kube_scheduler: ApiUnderTest) -> None:
    file = MANIFESTS / "base" / "controller-deployment.yaml"
    template = yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader)["spec"]["template"]
    together = []
    for cluster, zones in CLUSTERS.items():
        for number, zone in enumerate(zones):
            create_node(kube_scheduler, cluster, f"{cluster}-{number}", zone)
        for rollout in range(_ROLLOUTS):
            nodes = nodes_of_rollout(kube_scheduler, template, cluster, rollout)
            if len(nodes) == 1:
                together.append(f"{cluster}-{rollout}")
    assert together == []


def nodes_of_rollout(api: ApiUnderTest, template: Any, cluster: str, rollout: int) -> set[str]:
    """The nodes of the two new controllers, each of which replaces an old one."""
    spec = {
        **template["spec"],
        "serviceAccountName": "default",
        "nodeSelector": {"cluster": cluster},
    }
    labels = {**template["metadata"]["labels"], "pod-template-hash": f"{cluster}-{rollout}"}
    nodes = set()
    for replica in range(2):
        name = f"{cluster}-{rollout}-{replica}"
        nodes.add(chosen_node(api, name, labels, spec))
        if rollout:  # maxSurge 1, maxUnavailable 0: then an old pod goes
            old = f"{_PODS}/{cluster}-{rollout - 1}-{replica}?gracePeriodSeconds=0"
            code, _ = api.request("DELETE", old)
            assert code == 200
    return nodes
