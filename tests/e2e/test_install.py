"""From nothing to labels and a ClusterTopology, on real kubelets."""

import base64
import json
from pathlib import Path
from typing import Any

from tests.e2e.cluster import NAMESPACE, TOPOLOGY, Cluster, status_of
from tests.support.api import MERGE, NODES, wait_until
from toposcope.agent.planned import MANAGER
from toposcope.api.label_keys import GPUS, MATRIX, NVLINK_DOMAIN, STATE


def test_all_pods_become_ready(cluster: Cluster, tmp_path: Path) -> None:
    runtime = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "nvidia"}}
    cluster.api.create("/apis/node.k8s.io/v1/runtimeclasses", {**runtime, "handler": "nvidia"})
    for name in cluster.nodes:
        cluster.wait_for(f"{NODES}/{name}", "Ready", 120)
    cluster.install(tmp_path)


def test_pod_security_admits_them_as_restricted(cluster: Cluster) -> None:
    labels = cluster.api.get(f"/api/v1/namespaces/{NAMESPACE}")["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"


def test_no_process_has_a_capability(cluster: Cluster) -> None:
    for name, node in cluster.nodes.items():
        processes = node.processes("toposcope", "agent") + node.processes("toposcope", "controller")
        assert len(processes) >= 2, name
        for process in processes:
            status = status_of(process)
            assert status["CapEff"] == "0" * 16
            assert status["CapBnd"] == "0" * 16
            assert status["NoNewPrivs"] == "1"
            assert status["Uid"].split() == ["65532"] * 4


def test_labels_are_those_of_the_machines(cluster: Cluster) -> None:
    wait_until(lambda: all(GPUS in cluster.labels(name) for name in cluster.nodes), "both agents have written")
    hgx = cluster.labels("gpu1")
    assert hgx[GPUS] == "8"
    assert hgx[STATE] == "ok"
    assert hgx[NVLINK_DOMAIN] == "gpu1"

    tray = cluster.labels("gpu2")
    assert tray[GPUS] == "4"
    assert tray[STATE] == "ok"
    assert tray[NVLINK_DOMAIN].endswith(".32766")
    annotations = cluster.api.get(f"{NODES}/gpu2")["metadata"]["annotations"]
    description = json.loads(annotations[MATRIX])
    assert len(description["gpus"]) == 4
    assert description["matrix"][3] == "NV18 NV18 NV18 X"


def test_label_edited_by_hand_is_back_within_seconds(cluster: Cluster) -> None:
    cluster.api.patch(f"{NODES}/gpu2", {"metadata": {"labels": {GPUS: "77"}}})
    wait_until(lambda: cluster.labels("gpu2")[GPUS] == "4", "the agent has written it again", 7)


def test_agents_token_writes_its_own_node_only(cluster: Cluster) -> None:
    token = cluster.agent_token("gpu1")
    assert claims_of(token)["kubernetes.io"]["node"]["name"] == "gpu1"
    own, other = "/api/v1/nodes/gpu1", "/api/v1/nodes/gpu2"
    label, foreign = ({"metadata": {"labels": {key: "x"}}} for key in ("gpu.topology/test", "example.com"))
    answers = [
        cluster.api.request(method, f"{path}?fieldManager={MANAGER}", body, content_type=MERGE, token=token)[0]
        for method, path, body in (
            ("PATCH", own, label),
            ("PATCH", own, {"metadata": {"labels": {"gpu.topology/test": None}}}),
            ("PATCH", other, label),
            ("PATCH", own, foreign),
            ("PATCH", own, {"spec": {"unschedulable": True}}),
            ("PATCH", f"{own}/status", {"status": {"capacity": {"x": "1"}}}),
            ("DELETE", own, None),
            ("GET", "/api/v1/pods", None),
            ("GET", "/api/v1/nodes", None),
        )
    ]
    assert answers == [200, 200] + 7 * [403]


def test_running_agent_goes_on_with_the_token_that_kubelet_renews(cluster: Cluster) -> None:
    """Until then it holds one that the API server refuses, as it does one that has expired."""
    node, agent, token = cluster.nodes["gpu2"], cluster.main_process("gpu2", "agent"), cluster.agent_token("gpu2")
    node.stop_kubelet()
    cluster.agent_token_file("gpu2").write_text(f"{token}x")
    cluster.api.patch(f"{NODES}/gpu2", {"metadata": {"labels": {GPUS: None}}})
    wait_until(lambda: "the token is not valid" in node.logs("agent"), "the agent is refused")
    assert GPUS not in cluster.labels("gpu2")
    node.want_kubelet()
    wait_until(lambda: GPUS in cluster.labels("gpu2"), "the agent has written the label again", 120)
    assert claims_of(cluster.agent_token("gpu2"))["iat"] > claims_of(token)["iat"]
    assert cluster.main_process("gpu2", "agent") == agent
    cluster.wait_for(f"{NODES}/gpu2", "Ready")


def test_clustertopology_counts_them(cluster: Cluster) -> None:
    """Last: the first controller waits for others' leases before it leads."""
    cluster.wait_for(TOPOLOGY, "AgentsReporting")
    wait_until(lambda: cluster.topology()["status"].get("gpus") == 12, "12 GPUs are counted")


def claims_of(token: str) -> dict[str, Any]:
    claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    return claims
