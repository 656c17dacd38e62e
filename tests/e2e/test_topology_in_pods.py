"""A pod reads the path of its node, by each way that there is, before its job begins."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.e2e import build
from tests.e2e.cluster import NAMESPACE, Cluster
from tests.support.api import NODES, wait_until
from tests.support.cluster import BLOCK, RACK
from tools.apiserver.build import kubernetes_version
from toposcope.api.label_keys import NVLINK_DOMAIN
from toposcope.integrations.binding_paths import path_of_object

PODS = "/api/v1/namespaces/default/pods"
PATHS = path_of_object(NAMESPACE)
CONTROLLER = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/toposcope-controller"
HAS_BINDING_LABELS = not kubernetes_version().startswith("v1.30.")
RACKS = {"gpu1": "r1", "gpu2": "r2"}
ASKS = """
import json, time, urllib.error, urllib.request
url = "http://toposcope-node.toposcope-system.svc:9466/v1/topology"
for _ in range(60):
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            document = json.load(answer)
    except urllib.error.HTTPError as error:
        if error.code != 503:
            raise
    else:
        if document["complete"]:
            break
    time.sleep(1)
print(",".join(f"{step['level']}={step['value']}" for step in document["path"]))
"""
"""As the answer 503 advises, it asks again while the agent has not described the node yet."""
READS = """
import os, pathlib
print(os.environ["TOPOSCOPE_PATH"], pathlib.Path("/etc/toposcope/path").read_text(), os.environ["RACK"])
"""

needs_binding_labels = pytest.mark.skipif(
    not HAS_BINDING_LABELS, reason="MutatingAdmissionPolicy v1 is of Kubernetes 1.36"
)


@pytest.fixture(scope="module", autouse=True)
def _installed(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Both components, in a cluster with racks and with Services."""
    for name, rack in RACKS.items():
        cluster.api.patch(f"{NODES}/{name}", {"metadata": {"labels": {BLOCK: "b1", RACK: rack}}})
    components = ["node-endpoint"]
    if HAS_BINDING_LABELS:
        components.append("binding-labels")
    folder = tmp_path_factory.mktemp("installed")
    with cluster.with_services():
        overlay = cluster.install(folder, *components)
        cluster.api.patch(
            "/api/v1/namespaces/default", {"metadata": {"labels": {"gpu.topology/binding-labels": "enabled"}}}
        )
        yield
    cluster.kubectl("delete", "--ignore-not-found", "-k", overlay)


def path_of(cluster: Cluster, node: str) -> str:
    """The path that the levels in effect give a node."""
    domain = cluster.labels(node)[NVLINK_DOMAIN]
    return f"block=b1,rack={RACKS[node]},nvlink-domain={domain},host={node}"


def pod_on(cluster: Cluster, name: str, node: str, script: str) -> dict[str, Any]:
    """A pod that runs a script in Python, and sees its path as the guide shows; its container has its name."""
    annotation = {"fieldRef": {"fieldPath": "metadata.annotations['gpu.topology/path']"}}
    rack = {"fieldRef": {"fieldPath": "metadata.labels['gpu.topology/path-rack']"}}
    file = {"path": "path", **annotation}
    # There is no DNS here.
    service = cluster.api.get(f"/api/v1/namespaces/{NAMESPACE}/services/toposcope-node")
    address = {"ip": service["spec"]["clusterIP"], "hostnames": ["toposcope-node.toposcope-system.svc"]}
    container = {
        "name": name,
        "image": build.IMAGE,
        "imagePullPolicy": "Never",
        "command": ["python3", "-c", script],
        "env": [
            {"name": "TOPOSCOPE_PATH", "valueFrom": annotation},
            {"name": "RACK", "valueFrom": rack},
        ],
        "volumeMounts": [{"name": "toposcope", "mountPath": "/etc/toposcope"}],
    }
    spec = {
        "containers": [container],
        "nodeSelector": {"kubernetes.io/hostname": node},
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "hostAliases": [address],
        "volumes": [{"name": "toposcope", "downwardAPI": {"items": [file]}}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": spec,
    }


def printed_by(cluster: Cluster, pod: dict[str, Any]) -> str:
    """What a pod prints on its node until it ends well."""
    name = pod["metadata"]["name"]
    node = pod["spec"]["nodeSelector"]["kubernetes.io/hostname"]
    cluster.api.create(PODS, pod)

    def has_ended() -> bool:
        status = cluster.api.get(f"{PODS}/{name}")["status"]
        assert status["phase"] != "Failed", cluster.nodes[node].logs(name)
        return bool(status["phase"] == "Succeeded")

    wait_until(has_ended, f"{name} has ended", 60)
    (line,) = cluster.nodes[node].logs(name).splitlines()
    _time, _stream, _tag, text = line.split(" ", 3)
    return text


def have_all_levels(cluster: Cluster) -> bool:
    """Whether the paths for bindings have all levels; those that agents write come last."""
    code, stored = cluster.api.request("GET", PATHS)
    return code == 200 and "nvlink-domain=" in stored["data"]["paths"]


def container_restarts(cluster: Cluster, node: str) -> dict[str, int]:
    """How often each container of a node's agent was started again."""
    for pod in cluster.pods("agent"):
        if pod["spec"]["nodeName"] == node:
            return {status["name"]: status["restartCount"] for status in pod["status"]["containerStatuses"]}
    raise AssertionError(f"{node} has no agent")


def scale_controller(cluster: Cluster, replicas: int) -> None:
    cluster.api.patch(CONTROLLER, {"spec": {"replicas": replicas}})
    if replicas:
        cluster.rolled_out()
        return
    wait_until(lambda: not cluster.pods("controller"), "no controller runs")


@pytest.mark.parametrize("node", RACKS)
def test_pod_asks_the_agent_on_its_own_node(cluster: Cluster, node: str) -> None:
    assert printed_by(cluster, pod_on(cluster, f"asks-{node}", node, ASKS)) == path_of(cluster, node)


@needs_binding_labels
@pytest.mark.parametrize("node", RACKS)
def test_pod_has_its_path_before_its_first_line(cluster: Cluster, node: str) -> None:
    wait_until(lambda: have_all_levels(cluster), "the paths are written", 60)

    printed = printed_by(cluster, pod_on(cluster, f"reads-{node}", node, READS))

    path = path_of(cluster, node)
    assert printed == f"{path} {path} {RACKS[node]}"


def test_endpoint_that_is_killed_leaves_the_agent_alone(cluster: Cluster) -> None:
    before = container_restarts(cluster, "gpu1")

    cluster.main_process("gpu1", "node-endpoint").kill()

    wait_until(
        lambda: container_restarts(cluster, "gpu1")["node-endpoint"] == before["node-endpoint"] + 1,
        "the endpoint runs again",
        patience=60,
    )
    assert container_restarts(cluster, "gpu1")["agent"] == before["agent"]
    assert printed_by(cluster, pod_on(cluster, "asks-again", "gpu1", ASKS)) == path_of(cluster, "gpu1")


def test_endpoint_answers_while_the_agent_restarts(cluster: Cluster) -> None:
    cluster.main_process("gpu2", "agent").kill()
    assert printed_by(cluster, pod_on(cluster, "asks-meanwhile", "gpu2", ASKS)) == path_of(cluster, "gpu2")
    cluster.rolled_out()


@needs_binding_labels
def test_pod_is_bound_with_its_path_while_no_controller_runs(cluster: Cluster) -> None:
    scale_controller(cluster, 0)

    printed = printed_by(cluster, pod_on(cluster, "reads-alone", "gpu1", READS))

    path = path_of(cluster, "gpu1")
    assert printed == f"{path} {path} r1"


@needs_binding_labels
@pytest.mark.parametrize("spoiled", ["entries", "object"])
def test_pod_is_bound_without_a_path_when_the_paths_are_spoiled(cluster: Cluster, spoiled: str) -> None:
    if spoiled == "entries":
        data = cluster.api.get(PATHS)["data"]
        cluster.api.patch(PATHS, {"data": dict.fromkeys(data, "\n\n=,:\x7f")})
    else:
        cluster.api.request("DELETE", PATHS)

    printed = printed_by(cluster, pod_on(cluster, f"spoiled-{spoiled}", "gpu1", READS))

    assert printed.split() == []


@needs_binding_labels
def test_controller_that_is_back_writes_the_paths_again(cluster: Cluster) -> None:
    scale_controller(cluster, 2)
    wait_until(lambda: have_all_levels(cluster), "the paths are written again", 60)

    printed = printed_by(cluster, pod_on(cluster, "reads-again", "gpu2", READS))

    path = path_of(cluster, "gpu2")
    assert printed == f"{path} {path} r2"
