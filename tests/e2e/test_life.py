"""What happens to nodes and programs in their life: the labels stay, and what changed shows."""

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e import build
from tests.e2e.cluster import NAMESPACE, Cluster
from tests.monitoring.prometheus_server import Pod, PrometheusServer
from tests.support.api import MERGE, NODES, wait_until
from tests.support.controller import make_topology
from tests.support.programs import lacking
from toposcope.api.cluster_topology import PATH
from toposcope.cli.main import main

LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/toposcope-controller"
PROGRAMS = ("agent", "controller")


def ours(node: dict[str, Any]) -> dict[str, str]:
    both = {**node["metadata"]["labels"], **node["metadata"]["annotations"]}
    return {key: value for key, value in both.items() if key.startswith("gpu.topology/")}


@pytest.fixture(autouse=True, scope="module")
def _no_label_changes(cluster: Cluster) -> Iterator[None]:
    """Nothing that happens here is a change of hardware: no label or annotation of ours changes, not for a moment."""
    before = cluster.api.get(NODES)
    written = {node["metadata"]["name"]: ours(node) for node in before["items"]}
    yield
    version = before["metadata"]["resourceVersion"]
    with cluster.api.watch(NODES, f"resourceVersion={version}&timeoutSeconds=1") as events:
        for event in events:
            assert ours(event["object"]) == written[event["object"]["metadata"]["name"]]


def shown(cluster: Cluster, capsys: pytest.CaptureFixture[str], node: str) -> dict[str, Any]:
    """What `toposcope nodes` says of a node."""
    capsys.readouterr()
    main(["nodes", "--kubeconfig", str(cluster.kubeconfig), "-o", "json"])
    nodes: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["nodes"]
    (one,) = [entry for entry in nodes if entry["name"] == node]
    return one


def restarts(cluster: Cluster, component: str) -> int:
    statuses = [status for pod in cluster.pods(component) for status in pod["status"].get("containerStatuses", ())]
    return sum(status["restartCount"] for status in statuses if status["ready"])


def test_gpus_of_a_running_pod_count_as_taken(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    capacity = {"status": {"capacity": {"nvidia.com/gpu": "8"}}}  # there is no device plugin
    assert cluster.api.request("PATCH", f"{NODES}/gpu1/status", capacity, content_type=MERGE)[0] == 200
    wait_until(lambda: shown(cluster, capsys, "gpu1")["freeGpus"] == 8, "8 GPUs are free")
    container = {"name": "main", "image": build.PAUSE, "resources": {"limits": {"nvidia.com/gpu": "3"}}}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "training"}, "spec": spec}
    cluster.api.create("/api/v1/namespaces/default/pods", pod)
    cluster.wait_for("/api/v1/namespaces/default/pods/training", "Ready")
    assert shown(cluster, capsys, "gpu1")["freeGpus"] == 5
    cluster.kubectl("delete", "pod", "training")


def test_drained_node_shows_and_the_controller_goes_on(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.kubectl("drain", "gpu1", "--ignore-daemonsets")
    assert "cordoned" in shown(cluster, capsys, "gpu1")["states"]
    cluster.kubectl("uncordon", "gpu1")
    cluster.rolled_out()
    assert "cordoned" not in shown(cluster, capsys, "gpu1")["states"]


def test_rollout_leaves_the_controllers_apart(cluster: Cluster) -> None:
    names = {pod["metadata"]["name"] for component in PROGRAMS for pod in cluster.pods(component)}
    cluster.kubectl(
        "rollout", "restart", "-n", NAMESPACE, "daemonset/toposcope-agent", "deployment/toposcope-controller"
    )
    cluster.rolled_out()
    assert names.isdisjoint(pod["metadata"]["name"] for component in PROGRAMS for pod in cluster.pods(component))
    assert {pod["spec"]["nodeName"] for pod in cluster.pods("controller")} == set(cluster.nodes)


def test_killed_leader_is_replaced_and_killed_programs_start_again(cluster: Cluster) -> None:
    def leaders() -> list[dict[str, Any]]:
        held_by = cluster.api.get(LEASE)["spec"]["holderIdentity"].rpartition("_")[0]
        return [pod for pod in cluster.pods("controller") if pod["metadata"]["name"] == held_by]

    wait_until(lambda: bool(leaders()), "a controller of the rollout leads")
    (leader,), holder = leaders(), cluster.api.get(LEASE)["spec"]["holderIdentity"]
    before = {program: restarts(cluster, program) for program in PROGRAMS}
    cluster.main_process("gpu1", "agent").kill()
    began = time.monotonic()
    cluster.main_process(leader["spec"]["nodeName"], "controller").kill()
    make_topology(cluster.api, "second")  # nobody has written its status yet
    cluster.wait_for(f"{PATH}/second", "AgentsReporting", 21)
    print(f"another controller writes after {time.monotonic() - began:.1f} s")
    assert cluster.api.get(LEASE)["spec"]["holderIdentity"] != holder
    after = {program: times + 1 for program, times in before.items()}
    wait_until(
        lambda: {name: restarts(cluster, name) for name in after} == after, "the killed ones are ready again", 60
    )
    cluster.kubectl("delete", "clustertopology", "second")


def test_node_without_kubelet_shows(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.nodes["gpu2"].stop_kubelet()
    wait_until(lambda: not cluster.has(f"{NODES}/gpu2", "Ready"), "gpu2 is NotReady", 60)
    assert "not-ready" in shown(cluster, capsys, "gpu2")["states"]
    cluster.nodes["gpu2"].want_kubelet()
    cluster.wait_for(f"{NODES}/gpu2", "Ready")


def test_prometheus_scrapes_both_and_evaluates_the_rules(cluster: Cluster, tmp_path: Path) -> None:
    program = shutil.which("prometheus")
    if program is None:
        lacking("PROMETHEUS", "prometheus is not on PATH")
    pods = [
        Pod(port["containerPort"], pod["metadata"]["name"], component, pod["spec"]["nodeName"], pod["status"]["podIP"])
        for component in PROGRAMS
        for pod in cluster.pods(component)
        for port in pod["spec"]["containers"][0]["ports"][:1]
    ]
    with PrometheusServer(program, tmp_path / "prometheus", pods) as server:
        wait_until(lambda: len(server.query("up == 1")) == len(pods), "all are scraped", 30)
        assert server.broken_rules() == []


def test_memory_stays_below_half_of_each_limit(cluster: Cluster) -> None:
    cluster.needs_half_its_memory(*PROGRAMS)
