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
    """Our labels and annotations of a Node."""
    metadata = node["metadata"]
    both = {**metadata["labels"], **metadata["annotations"]}
    found = {}
    for key, value in both.items():
        if key.startswith("gpu.topology/"):
            found[key] = value
    return found


@pytest.fixture(autouse=True, scope="module")
def _no_label_changes(cluster: Cluster) -> Iterator[None]:
    """Nothing that happens here is a change of hardware: no label or annotation of ours changes, not for a moment."""
    before = cluster.api.get(NODES)
    version = before["metadata"]["resourceVersion"]
    written = {}
    for node in before["items"]:
        written[node["metadata"]["name"]] = ours(node)

    yield

    with cluster.api.watch(NODES, f"resourceVersion={version}&timeoutSeconds=1") as events:
        for event in events:
            node = event["object"]
            name = node["metadata"]["name"]
            assert ours(node) == written[name]


def shown(cluster: Cluster, capsys: pytest.CaptureFixture[str], node: str) -> dict[str, Any]:
    """What `toposcope nodes` says of a node."""
    capsys.readouterr()
    main(["nodes", "--kubeconfig", str(cluster.kubeconfig), "-o", "json"])
    printed = capsys.readouterr().out
    entries: dict[str, dict[str, Any]] = {}
    for entry in json.loads(printed)["nodes"]:
        assert entry["name"] not in entries
        entries[entry["name"]] = entry
    return entries[node]


def restarts(cluster: Cluster, component: str) -> int:
    """How often the containers that are ready were started again."""
    count = 0
    for pod in cluster.pods(component):
        for status in pod["status"].get("containerStatuses", ()):
            if status["ready"]:
                count += status["restartCount"]
    return count


def pod_names(cluster: Cluster) -> set[str]:
    """The names of the pods of both programs."""
    names = set()
    for component in PROGRAMS:
        for pod in cluster.pods(component):
            names.add(pod["metadata"]["name"])
    return names


def holder_of_lease(cluster: Cluster) -> str:
    """The controller that leads, as it names itself."""
    lease = cluster.api.get(LEASE)
    holder: str = lease["spec"]["holderIdentity"]
    return holder


def leading_pod(cluster: Cluster) -> dict[str, Any] | None:
    """The pod of the controller that leads; None where it has gone."""
    name, _, _ = holder_of_lease(cluster).rpartition("_")
    for pod in cluster.pods("controller"):
        if pod["metadata"]["name"] == name:
            return pod
    return None


def test_gpus_of_a_running_pod_count_as_taken(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    capacity = {"status": {"capacity": {"nvidia.com/gpu": "8"}}}  # there is no device plugin
    code, _ = cluster.api.request(
        "PATCH",
        f"{NODES}/gpu1/status",
        capacity,
        content_type=MERGE,
    )
    assert code == 200
    wait_until(
        lambda: shown(cluster, capsys, "gpu1")["freeGpus"] == 8,
        "8 GPUs are free",
    )

    container = {
        "name": "main",
        "image": build.PAUSE,
        "resources": {"limits": {"nvidia.com/gpu": "3"}},
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "training"},
        "spec": {
            "containers": [container],
            "terminationGracePeriodSeconds": 0,
        },
    }
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
    before = pod_names(cluster)
    cluster.kubectl(
        "rollout",
        "restart",
        "--namespace",
        NAMESPACE,
        "daemonset/toposcope-agent",
        "deployment/toposcope-controller",
    )
    cluster.rolled_out()
    assert before.isdisjoint(pod_names(cluster))
    nodes = {pod["spec"]["nodeName"] for pod in cluster.pods("controller")}
    assert nodes == set(cluster.nodes)


def test_killed_leader_is_replaced_and_killed_programs_start_again(cluster: Cluster) -> None:
    wait_until(
        lambda: leading_pod(cluster) is not None,
        "a controller of the rollout leads",
    )
    leader = leading_pod(cluster)
    assert leader is not None
    holder = holder_of_lease(cluster)
    agent_restarts = restarts(cluster, "agent")
    controller_restarts = restarts(cluster, "controller")

    cluster.main_process("gpu1", "agent").kill()
    began = time.monotonic()
    cluster.main_process(leader["spec"]["nodeName"], "controller").kill()
    make_topology(cluster.api, "second")  # nobody has written its status yet
    cluster.wait_for(f"{PATH}/second", "AgentsReporting")
    print(f"another controller writes after {time.monotonic() - began:.1f} s")
    assert holder_of_lease(cluster) != holder

    wait_until(
        lambda: restarts(cluster, "agent") == agent_restarts + 1,
        "the killed agent is ready again",
        patience=60,
    )
    wait_until(
        lambda: restarts(cluster, "controller") == controller_restarts + 1,
        "the killed controller is ready again",
        patience=60,
    )
    cluster.kubectl("delete", "clustertopology", "second")


def test_node_without_kubelet_shows(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    node = cluster.nodes["gpu2"]
    node.stop_kubelet()
    wait_until(
        lambda: not cluster.has(f"{NODES}/gpu2", "Ready"),
        "gpu2 is NotReady",
        patience=60,
    )
    assert "not-ready" in shown(cluster, capsys, "gpu2")["states"]

    node.want_kubelet()
    cluster.wait_for(f"{NODES}/gpu2", "Ready")


def scraped(pod: dict[str, Any], component: str) -> Pod:
    """A pod as Prometheus finds it, by the first port of its first container."""
    container = pod["spec"]["containers"][0]
    port = container["ports"][0]
    return Pod(
        port["containerPort"],
        name=pod["metadata"]["name"],
        component=component,
        node=pod["spec"]["nodeName"],
        address=pod["status"]["podIP"],
    )


def test_prometheus_scrapes_both_and_evaluates_the_rules(cluster: Cluster, tmp_path: Path) -> None:
    program = shutil.which("prometheus")
    if program is None:
        lacking("PROMETHEUS", "prometheus is not on PATH")
    pods = []
    for component in PROGRAMS:
        for pod in cluster.pods(component):
            pods.append(scraped(pod, component))
    with PrometheusServer(program, tmp_path / "prometheus", pods) as server:
        wait_until(
            lambda: len(server.query("up == 1")) == len(pods),
            "all are scraped",
            patience=30,
        )
        assert server.broken_rules() == []


def test_memory_stays_below_half_of_each_limit(cluster: Cluster) -> None:
    cluster.needs_half_its_memory(*PROGRAMS)
