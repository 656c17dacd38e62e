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
    runtime_class = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "nvidia"},
        "handler": "nvidia",
    }
    cluster.api.create("/apis/node.k8s.io/v1/runtimeclasses", runtime_class)
    for name in cluster.nodes:
        cluster.wait_for(f"{NODES}/{name}", "Ready", 120)
    cluster.install(tmp_path)


def test_pod_security_admits_them_as_restricted(cluster: Cluster) -> None:
    namespace = cluster.api.get(f"/api/v1/namespaces/{NAMESPACE}")
    labels = namespace["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"


def test_no_process_has_a_capability(cluster: Cluster) -> None:
    for name, node in cluster.nodes.items():
        processes = [
            *node.processes("toposcope", "agent"),
            *node.processes("toposcope", "controller"),
        ]
        assert len(processes) >= 2, name
        for process in processes:
            status = status_of(process)
            assert status["CapEff"] == "0" * 16
            assert status["CapBnd"] == "0" * 16
            assert status["NoNewPrivs"] == "1"
            assert status["Uid"].split() == ["65532"] * 4


def test_labels_are_those_of_the_machines(cluster: Cluster) -> None:
    def have_written() -> bool:
        return all(GPUS in cluster.labels(name) for name in cluster.nodes)

    wait_until(have_written, "both agents have written")
    hgx = cluster.labels("gpu1")
    assert hgx[GPUS] == "8"
    assert hgx[STATE] == "ok"
    assert hgx[NVLINK_DOMAIN] == "gpu1"

    tray = cluster.labels("gpu2")
    assert tray[GPUS] == "4"
    assert tray[STATE] == "ok"
    assert tray[NVLINK_DOMAIN].endswith(".32766")
    node = cluster.api.get(f"{NODES}/gpu2")
    annotation = node["metadata"]["annotations"][MATRIX]
    description = json.loads(annotation)
    assert len(description["gpus"]) == 4
    assert description["matrix"][3] == "NV18 NV18 NV18 X"


def test_label_edited_by_hand_is_written_again(cluster: Cluster) -> None:
    cluster.api.patch(f"{NODES}/gpu2", label(GPUS, "77"))
    wait_until(
        lambda: cluster.labels("gpu2")[GPUS] == "4",
        "the agent has written it again",
    )


def test_agents_token_writes_its_own_node_only(cluster: Cluster) -> None:
    token = cluster.agent_token("gpu1")
    assert claims_of(token)["kubernetes.io"]["node"]["name"] == "gpu1"
    own = f"{NODES}/gpu1"
    other = f"{NODES}/gpu2"

    def answer(method: str, path: str, body: dict[str, Any] | None = None) -> int:
        code, _ = cluster.api.request(
            method,
            f"{path}?fieldManager={MANAGER}",
            body,
            content_type=MERGE,
            token=token,
        )
        return code

    assert answer("PATCH", own, label("gpu.topology/test", "x")) == 200
    assert answer("PATCH", own, label("gpu.topology/test", None)) == 200
    assert answer("PATCH", other, label("gpu.topology/test", "x")) == 403
    assert answer("PATCH", own, label("example.com", "x")) == 403
    assert answer("PATCH", own, {"spec": {"unschedulable": True}}) == 403
    assert answer("PATCH", f"{own}/status", {"status": {"capacity": {"x": "1"}}}) == 403
    assert answer("DELETE", own) == 403
    assert answer("GET", "/api/v1/pods") == 403
    assert answer("GET", NODES) == 403


def test_running_agent_goes_on_with_the_token_that_kubelet_renews(cluster: Cluster) -> None:
    """Until then it holds one that the API server refuses, as it does one that has expired."""
    node = cluster.nodes["gpu2"]
    agent = cluster.main_process("gpu2", "agent")
    token = cluster.agent_token("gpu2")

    node.stop_kubelet()
    cluster.agent_token_file("gpu2").write_text(f"{token}x")
    cluster.api.patch(f"{NODES}/gpu2", label(GPUS, None))
    wait_until(
        lambda: "the token is invalid" in node.logs("agent"),
        "the agent is refused",
    )
    assert GPUS not in cluster.labels("gpu2")

    node.want_kubelet()
    wait_until(
        lambda: GPUS in cluster.labels("gpu2"),
        "the agent has written the label again",
        patience=120,
    )
    renewed = cluster.agent_token("gpu2")
    assert claims_of(renewed)["iat"] > claims_of(token)["iat"]
    assert cluster.main_process("gpu2", "agent") == agent
    cluster.wait_for(f"{NODES}/gpu2", "Ready")


def test_clustertopology_counts_the_gpus(cluster: Cluster) -> None:
    """Last: the first controller waits for others' leases before it leads."""
    cluster.wait_for(TOPOLOGY, "AgentsReporting")
    wait_until(
        lambda: cluster.topology()["status"].get("gpus") == 12,
        "12 GPUs are counted",
    )


def label(key: str, value: str | None) -> dict[str, Any]:
    """A merge patch of one label; None removes it."""
    return {"metadata": {"labels": {key: value}}}


def claims_of(token: str) -> dict[str, Any]:
    _, payload, _ = token.split(".")
    claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(f"{payload}=="))
    return claims
